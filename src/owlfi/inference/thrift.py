"""How a fit makes do with the calls that `max_calls=` leaves, where they do not do for everything.

It takes fewer points where it must, compares fewer starts, sets out without scouts, and keeps for
later what errors, or the steps of the efficient discrepancy, take at least.
"""

from owlfi.inference.efficient.moments import least_calls
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.roughness import look_calls, look_points
from owlfi.inference.search.starts import comparison_points
from owlfi.inference.search.strays import strays_calls
from owlfi.inference.search.tangent import designs_calls
from owlfi.inference.search.ways import USUAL_ROUNDS, USUAL_STEPS, Way, walk_calls
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import CHECK_CALLS
from owlfi.problem.simulator import Simulator
from owlfi.problem.spending import calls_allowed, calls_left, is_tight

LEAST_POINTS = 8
_FEWER = (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, LEAST_POINTS)
_LEAST_STARTS = 8
_COMPARED = 0.2  # of the calls, for starts
_LEAST_DESIGNS = 2
_PATIENCE = 2  # times what an estimate takes, as observations that do not fit ask for another ...
_ENOUGH = 48  # ... which is worth more than points beyond these
_STEPS = 2 * USUAL_STEPS  # as those that run out have nothing else


def least_fit(problem: Problem, starts: int) -> int:
    """The calls without which not even starts can be compared."""
    return CHECK_CALLS + min(starts, _LEAST_STARTS) * LEAST_POINTS


def afford_starts(m: int, starts: int) -> int:
    """How many starts are compared."""
    if not is_tight():
        return starts
    paid = int(_COMPARED * calls_left() / comparison_points(m))
    return min(starts, max(paid, _LEAST_STARTS))


def afford_points(
    rule: Rule, problem: Problem, starts: int, *, rough: bool | None = None, whole: bool
) -> tuple[Rule, bool]:
    """The rule, with fewer points where the calls that are left do not do for a whole fit.

    rough: whether it goes by regression; None before anything is simulated.
    whole: whether errors are those of the fit. They are, too, where no number of points leaves
        calls for the efficient discrepancy.
    """
    if not is_tight():
        return rule, whole
    sizes = [rule.m, *(size for size in _FEWER if size < rule.m)]
    plans = [(times, m, False) for times in (_PATIENCE, 1) for m in sizes if not whole]
    plans += [(1, m, True) for m in sizes]
    fewer = rule
    for times, m, plain in plans:
        fewer = rule if m == rule.m else rule.fewer(m)
        begun = 0 if rough is not None else _begin_calls(fewer, problem, starts)
        once = _search_calls(problem.simulator, m, bool(rough))
        once += later_calls(problem.simulator, m, bool(rough), plain)
        if m >= _ENOUGH * (times > 1) and begun + times * once <= calls_left():
            return fewer, plain
    return fewer, True


def tell_fewer(asked: int, used: int) -> tuple[str, ...]:
    """Of points that could not be paid."""
    if asked == used:
        return ()
    return (
        f"max_calls = {calls_allowed():,} do not do for m = {asked} points, and the fit is on "
        f"{used}; allow more, or take a rule with fewer points",
    )


def refinement_calls(way: Way, objective: Objective, whole: bool) -> int:
    """What errors leave for the steps of the efficient discrepancy, where it has its own."""
    if whole or not is_tight():
        return 0
    return least_calls(objective.simulator, objective.m, way.rough)


def later_calls(simulator: Simulator, m: int, rough: bool, whole: bool) -> int:
    """What a search leaves for what comes after it."""
    refined = 0 if whole else least_calls(simulator, m, rough)
    if rough:
        return _LEAST_DESIGNS * m + refined
    return designs_calls(simulator, m, _LEAST_DESIGNS) if whole else strays_calls(m) + refined


def _begin_calls(rule: Rule, problem: Problem, starts: int) -> int:
    """Of weights, of starts, and of a look at how rough simulations are."""
    compared = min(starts, _LEAST_STARTS) * comparison_points(rule.m)
    looked = look_calls(problem.simulator, look_points(rule.m), most=False)
    return (rule.tuning_calls(problem) or CHECK_CALLS) + compared + looked


def _search_calls(simulator: Simulator, m: int, rough: bool) -> int:
    if rough:
        return walk_calls(len(simulator.parameters), m, 1, USUAL_ROUNDS)
    return simulator.search_calls(m, _STEPS)
