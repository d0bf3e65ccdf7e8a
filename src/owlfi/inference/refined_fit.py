"""A fit by the efficient discrepancy, for the methods that draw around it."""

from jaxtyping import Array, Key

from owlfi._tools.keys import fold_key
from owlfi._tools.progress import begin_step, show_bars
from owlfi.inference.efficient.refine import Refinement, refine
from owlfi.inference.fit import Fit
from owlfi.problem.rules import Rule
from owlfi.problem.spending import calls_made, is_tight

_FEWEST = 64  # points, for a regression over thetas whose own errors are small beside the data's


def can_refine(fit: Fit) -> bool:
    """Whether what calls have done for is enough to go on from."""
    if not is_tight():
        return True
    errors = fit.assessed.errors
    return errors.later or (errors.known and not (fit.rough and fit.objective.m < _FEWEST))


def refine_fit(key: Key[Array, ""], rule: Rule, fit: Fit, progress: bool) -> Refinement:
    """From where a fit by plain MMD ended, with the calls and the words of both."""
    with show_bars(progress):
        begin_step("Efficient discrepancy")
        begun = fit.stage, fit.theta, fit.assessed.without_slopes, fit.assessed.errors.strays
        found = refine(fold_key(key, 3), rule, *begun)
    known = fit.warnings if found.refined is None else fit.search_warnings
    return Refinement(
        found.refined,
        max(fit.calls + found.calls, calls_made()),
        fit.gradient_calls + found.gradient_calls,
        (*known, *found.warnings),
    )
