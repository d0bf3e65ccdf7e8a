"""What to doubt in a fit, in words: each sentence has its cause and a remedy."""

import numpy as np

from owlfi.inference.search.assess import Assessed
from owlfi.inference.search.rivals import find_rivals
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import Starts
from owlfi.inference.search.widely import Wide
from owlfi.problem.spending import is_short
from owlfi.results.health import tell_failed_rows

_UNEXPLAINED = 1e-4  # the chance of a squared MMD, below which the model is said not to fit
_AT_END = 0.02  # of the prior's width
_UNDETERMINED = 1.45  # interquartile ranges of the prior, of which a uniform one has 2
_COARSE = 3.0  # standard errors of the data, that the choice of the points may add
_MANY_FAILED = 0.1  # of the starts
_FEW_STRAYS = 0.3  # times the root of n: each moves an estimate by about a standard error over it
_MANY_STRAYS = 0.3  # of the rows
_NAMED = 10  # rows that a sentence lists


def describe_fit(stage: Stage, wide: Wide, found: Assessed, starts: Starts) -> tuple[str, ...]:
    """All sentences about a fit, none where all is well."""
    theta = np.asarray(found.landing.minimum.theta)
    errors = np.sqrt(np.diag(np.asarray(found.errors.sandwich.covariance)))
    return (
        *describe_search(stage, wide, found, starts),
        *tell_ends(stage, theta, errors),
        *_tell_excluded(stage, found),
        *_tell_unknown(stage, theta, found),
        *_tell_unfollowed(stage, theta, found),
        *_tell_coarse(stage, found),
        *_tell_rippled(stage, found),
        *_tell_misfit(stage, found),
        *_tell_strays(stage, found),
    )


def describe_search(stage: Stage, wide: Wide, found: Assessed, starts: Starts) -> tuple[str, ...]:
    """Those that another discrepancy around the same estimate does not change."""
    return (
        *stage.problem.warnings,
        *stage.quadrature.warnings,
        *_tell_interrupted(wide),
        *_tell_converged(wide, found),
        *_tell_other_minima(wide, found),
        *_tell_failed(found, starts),
    )


def _tell_interrupted(wide: Wide) -> tuple[str, ...]:
    if allowed := is_short():
        return (
            f"max_calls = {allowed:,} ended the work after searches: {wide.searches}; other "
            "minima, better weights or the true ends of intervals may be missing; allow more",
        )
    if not wide.interrupted:
        return ()
    return (f"interrupted after {len(wide.landings)} searches; run it again to search on",)


def _tell_converged(wide: Wide, found: Assessed) -> tuple[str, ...]:
    if not wide.searches:
        return (
            "no search could be made: the estimate is the nearest of the starts to the data; allow "
            "more calls, or take a rule with fewer points m",
        )
    if bool(found.landing.minimum.converged):
        return ()
    return ("the search did not converge; allow more steps=, starts= or a narrower prior",)


def tell_ends(stage: Stage, theta: np.ndarray, errors: np.ndarray) -> tuple[str, ...]:
    """Of parameters at the end of their prior."""
    widths = np.asarray(stage.widths)
    distance = np.minimum(
        theta - np.asarray(stage.problem.prior.bounds[0]),
        np.asarray(stage.problem.prior.bounds[1]) - theta,
    )
    at_end = distance < np.minimum(_AT_END * widths, 0.5 * np.nan_to_num(errors, nan=np.inf))
    names = [name for name, at in zip(stage.problem.prior.names, at_end, strict=True) if at]
    if not names:
        return ()
    return (
        f"the estimate of {', '.join(names)} lies at the end of its prior; widen the prior, or "
        "take its interval as one-sided",
    )


def tell_undetermined(
    stage: Stage, theta: np.ndarray, below: np.ndarray, above: np.ndarray
) -> tuple[str, ...]:
    """Of parameters whose 90% interval extends about as far as the prior."""
    names = _name_undetermined(stage, theta, below, above)
    if not names:
        return ()
    return (
        f"the data hardly determine {', '.join(names)}: the interval is about as wide as the "
        "prior; hold it with simulator.fix(...), or observe what depends on it",
    )


def _name_undetermined(
    stage: Stage, theta: np.ndarray, below: np.ndarray, above: np.ndarray
) -> list[str]:
    prior = stage.problem.prior
    low = np.maximum(theta - below, np.asarray(prior.bounds[0]))
    high = np.minimum(theta + above, np.asarray(prior.bounds[1]))
    loose = ~(high - low < _UNDETERMINED * np.asarray(stage.widths))
    return [name for name, far in zip(prior.names, loose, strict=True) if far]


def _tell_unfollowed(stage: Stage, theta: np.ndarray, found: Assessed) -> tuple[str, ...]:
    """Along a ridge other parameters move, too; only where slopes tell is its profile followed."""
    flat = _name_undetermined(stage, theta, *found.reach)
    others = [name for name in stage.problem.prior.names if name not in flat]
    known = np.isfinite(np.diag(np.asarray(found.errors.sandwich.covariance)))
    ridge = [name for name in flat if known[stage.problem.prior.names.index(name)]]  # none is idle
    if not (found.way.rough and ridge and others):
        return ()
    return (
        f"the simulations jump with theta, so that nothing followed {', '.join(ridge)} away from "
        f"the estimate: the interval of {', '.join(others)} may be many times too short; hold "
        f"{ridge[0]} with simulator.fix(...), or see which parameters rejection_abc finds as near",
    )


def _tell_unknown(stage: Stage, theta: np.ndarray, found: Assessed) -> tuple[str, ...]:
    """Of errors: those of parameters that the data do not tell, or of all."""
    if found.errors.known:
        return tell_undetermined(stage, theta, *found.reach)
    return (
        "the calls ended before errors could be told: none are known, and intervals are as wide as "
        "the prior; allow more, or take a rule with fewer points m",
    )


def _tell_excluded(stage: Stage, found: Assessed) -> tuple[str, ...]:
    prior = stage.problem.prior
    if not prior.excludes(found.theta(prior.bounds)[None]).any():
        return ()
    return (
        "the density of the prior is 0 at the estimate, which keeps to the ends of the parameters "
        "alone; write what must hold, such as an order, into the simulator",
    )


def _tell_coarse(stage: Stage, found: Assessed) -> tuple[str, ...]:
    errors = found.errors.sandwich
    coarseness, moved = np.asarray(errors.coarseness), np.asarray(errors.moved)
    worst = max(
        float(part.max(where=np.isfinite(part), initial=0.0)) for part in (coarseness, moved)
    )
    if worst < _COARSE:
        return ()
    n, m = len(stage.problem.observed), stage.objective.m
    return (
        f"the choice of the {m} points moves the estimate {worst:.2g} times as far as the {n} "
        "observations do, beyond what a correction can be trusted with; give a larger m",
    )


def _tell_rippled(stage: Stage, found: Assessed) -> tuple[str, ...]:
    if not found.errors.rippled:
        return ()
    return (
        "single simulations, far out or where y jumps, make most of the slopes, so that the errors "
        f"may be too small; give a larger m than {stage.objective.m}, or a wider data_kernel=",
    )


def _tell_misfit(stage: Stage, found: Assessed) -> tuple[str, ...]:
    value = found.landing.minimum.value
    if stage.chance(value, found.errors.excess) >= _UNEXPLAINED:
        return ()
    n, m = len(stage.problem.observed), stage.objective.m
    usual = stage.expected.mean + found.errors.excess
    return (
        f"the squared MMD of {float(stage.squared_mmd(value)):.2g} is beyond what {n} observations "
        f"and {m} points explain (about {usual:.2g}): the model does not fit, or the search is "
        "lost; see goodness_of_fit, or give more starts=",
    )


def _tell_strays(stage: Stage, found: Assessed) -> tuple[str, ...]:
    """Where they are as many as may move the estimate by a good part of its error."""
    strays, n = found.errors.strays, len(stage.problem.observed)
    if len(strays) <= _FEW_STRAYS * n**0.5:
        return ()
    more = ", ..." if len(strays) > _NAMED else ""
    remedy = "discrepancy='efficient' leaves such rows out"
    if len(strays) > _MANY_STRAYS * n:
        remedy = "of so many, doubt the model or its prior rather than the rows"
    return (
        f"{len(strays)} of {n} observations are unlike all simulations (rows "
        f"{', '.join(map(str, strays[:_NAMED]))}{more}), and may have moved the estimate; {remedy}",
    )


def _tell_other_minima(wide: Wide, found: Assessed) -> tuple[str, ...]:
    """The lowest of them."""
    return tuple(
        f"another minimum is nearly as low, at theta = {theta.round(4)}: the data do not tell them "
        "apart; narrow the prior, or observe more"
        for theta in find_rivals(wide, found)[:1]
    )


def _tell_failed(found: Assessed, starts: Starts) -> tuple[str, ...]:
    sentences = tell_failed_rows(found.errors.failed)
    tried = starts.failed + len(starts.thetas)
    if starts.failed > _MANY_FAILED * tried:
        sentences += (
            f"the simulations failed at {starts.failed} of {tried} starts (NaN or an error), so "
            "that the search has not seen these parts of the prior; mend the generator, or narrow "
            "the prior to where it runs",
        )
    return sentences
