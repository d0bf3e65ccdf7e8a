"""A fit by the efficient discrepancy, for the methods that draw around it."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Key

from owlfi._tools.progress import begin_step, show_bars
from owlfi.inference.efficient.refine import refine
from owlfi.inference.efficient.refined import Refined
from owlfi.inference.fit import Fit
from owlfi.problem.rules import Rule
from owlfi.problem.spending import calls_made


class RefinedFit(NamedTuple):
    """The efficient estimate, None where there is none; the calls of both fits, and their words."""

    refined: Refined | None
    calls: int
    gradient_calls: int
    warnings: tuple[str, ...]


def refine_fit(key: Key[Array, ""], rule: Rule, fit: Fit, progress: bool) -> RefinedFit:
    """From where a fit by plain MMD ended."""
    with show_bars(progress):
        begin_step("Efficient discrepancy")
        begun = fit.stage, fit.theta, fit.assessed.without_slopes, fit.assessed.errors.strays
        found = refine(jax.random.fold_in(key, 3), rule, *begun)
    known = fit.warnings if found.refined is None else fit.search_warnings
    calls = max(fit.calls + found.calls, calls_made())
    derivatives = fit.gradient_calls + found.gradient_calls
    return RefinedFit(found.refined, calls, derivatives, (*known, *found.warnings))
