"""How many simulations a search will take, before any is made."""

from owlfi.inference.search.assess import DESIGNS
from owlfi.inference.search.roughness import look_calls
from owlfi.inference.search.scatter import scatter_size
from owlfi.inference.search.starts import comparison_points
from owlfi.inference.search.tangent import designs_calls
from owlfi.inference.search.ways import (
    SCOUT_POINTS,
    SCOUTS,
    USUAL_ROUNDS,
    USUAL_STEPS,
    walk_calls,
)
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import CHECK_CALLS

_AFTER = 2  # steps with tuned weights
_USUAL_RUNGS = 1
_PARTIES = 2  # of scouts, mostly


def need_fit(rule: Rule, problem: Problem, starts: int = 16, refined: int = 2) -> int:
    """The calls that `find_minimum` should have for an answer with errors, by slopes."""
    simulator = problem.simulator
    searched = refined * simulator.search_calls(rule.m, USUAL_STEPS) + _AFTER * rule.m
    errors = designs_calls(simulator, rule.m, DESIGNS)
    return _begin_calls(rule, problem, starts) + searched + errors


def expect_fit(
    rule: Rule, problem: Problem, starts: int = 16, refined: int = 2, *, rough: bool = False
) -> int:
    """The calls that it makes, about, where none are spared: searches may take twice as many.

    rough: whether it goes by regression over thetas.
    """
    simulator, m = problem.simulator, rule.m
    if not rough:
        scouts = _PARTIES * refined * SCOUTS if refined > 1 else 0
        scouted = scouts * simulator.search_calls(min(m, SCOUT_POINTS), USUAL_STEPS)
        again = simulator.search_calls(m, _AFTER) if rule.tuned else 0
        return need_fit(rule, problem, starts, refined) + scouted + again
    p = len(simulator.parameters)
    walked = walk_calls(p, m, _USUAL_RUNGS, USUAL_ROUNDS)
    again = walk_calls(p, m, 0, rounds=p) + _AFTER * m if rule.tuned else 0
    errors = (DESIGNS + scatter_size(p)) * m
    return _begin_calls(rule, problem, starts) + walked + again + errors


def _begin_calls(rule: Rule, problem: Problem, starts: int) -> int:
    """Of weights, of starts, and of a look at how rough simulations are."""
    few = comparison_points(rule.m)
    looked = look_calls(problem.simulator, few, most=False)
    return (rule.tuning_calls(problem) or CHECK_CALLS) + starts * few + looked
