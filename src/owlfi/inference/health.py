"""What may be wrong with draws of a posterior: each function has a sentence for it, or none."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from owlfi._tools.display import count

FEWEST_DRAWS = 50  # their 5% quantile is off by a third of a standard deviation
LARGEST_R_HAT = 1.05
LARGEST_SHARE = 0.01  # of what may fail before it matters


def tell_few_draws(draws: int, effective: Any, remedy: str) -> tuple[str, ...]:
    """Of draws that are worth few independent ones; chains have a number for each parameter."""
    worth = float(np.min(np.nan_to_num(effective, nan=1.0)))  # of chains that never moved
    if worth > FEWEST_DRAWS - 0.5:
        return ()
    alike = "" if worth > draws - 1 else f", worth {worth:.0f} independent ones,"
    return (f"Few draws: of {count(draws, 'draw')}{alike} means and quantiles are rough; {remedy}",)


def tell_unmixed(names: Sequence[str], r_hat: Sequence[float]) -> tuple[str, ...]:
    """Of chains that disagree; nothing where there is one chain, which has no R-hat."""
    pairs = zip(names, r_hat, strict=True) if r_hat else ()
    wrong = [(name, value) for name, value in pairs if not value <= LARGEST_R_HAT]  # NaN is not
    if not wrong:
        return ()
    listed = ", ".join(f"{name} ({value:.3g})" for name, value in wrong)
    return (
        f"The chains disagree: R-hat is above {LARGEST_R_HAT} for {listed}; take more draws, and "
        "look at plots.trace for chains that stay apart",
    )


def tell_divergent(share: float) -> tuple[str, ...]:
    """Of steps of NUTS that lost their way."""
    if share <= LARGEST_SHARE:
        return ()
    return (
        f"{share:.0%} of the steps of NUTS diverged, so that parts of the posterior may never be "
        "seen; give a longer warmup, another parametrisation of the model, or use pseudo_marginal",
    )


def tell_excluded(excluded: int, draws: int) -> tuple[str, ...]:
    """Of draws that were left out since the prior has density 0 there."""
    if excluded <= LARGEST_SHARE * draws:
        return ()
    return (
        f"{excluded:,} of {draws:,} draws lay where the density of the prior is 0 and are left "
        "out; write what must hold, such as an order, into the simulator",
    )


def tell_failed_searches(failed: int, searches: int) -> tuple[str, ...]:
    """Of draws of the posterior bootstrap that were left out."""
    if failed <= LARGEST_SHARE * searches:
        return ()
    return (
        f"{failed:,} of {searches:,} searches did not converge and are left out, so that the draws "
        "may be too narrow; narrow the prior, take more points, or see with minimum_distance how "
        "the fit goes",
    )


def tell_open(names: Sequence[str]) -> tuple[str, ...]:
    """Of parameters that the data tell together only, in draws that are searches."""
    if not names:
        return ()
    return (
        f"no search goes along what the data leave open of {', '.join(names)}, so that their draws "
        "are far too narrow; hold some of them with simulator.fix(...), or use mmd_bayes or "
        "rejection_abc, whose draws are as wide as the prior there",
    )
