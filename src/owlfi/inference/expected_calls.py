"""How many simulations a search will take, before any is made."""

from owlfi.inference.search.assess import DESIGNS
from owlfi.inference.search.roughness import look_calls
from owlfi.inference.search.starts import comparison_points
from owlfi.inference.search.tangent import designs_calls
from owlfi.inference.search.ways import USUAL_ROUNDS, USUAL_STEPS, walk_calls
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import CHECK_CALLS

_AFTER = 2  # steps with tuned weights
_USUAL_RUNGS = 1


def expect_fit(
    rule: Rule, problem: Problem, starts: int = 16, refined: int = 2, *, rough: bool = False
) -> int:
    """The calls of `find_minimum`, about: searches may take twice as many steps.

    rough: whether it goes by regression over thetas.
    """
    simulator, few = problem.simulator, comparison_points(rule.m)
    begun = (rule.tuning_calls(problem) or CHECK_CALLS) + starts * few
    begun += look_calls(simulator, few, most=False)
    if rough:
        walked = walk_calls(len(simulator.parameters), rule.m, _USUAL_RUNGS, USUAL_ROUNDS)
        return begun + walked + DESIGNS * rule.m
    searched = refined * simulator.search_calls(rule.m, USUAL_STEPS) + _AFTER * rule.m
    return begun + searched + designs_calls(simulator, rule.m, DESIGNS)
