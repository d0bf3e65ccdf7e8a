"""What to doubt in an efficient estimate, in words."""

import numpy as np
from scipy.special import ndtri

from owlfi.inference.efficient.refined import MISFIT, Refined
from owlfi.inference.search.doubts import tell_ends, tell_undetermined
from owlfi.inference.search.stage import Stage

_REACH = ndtri(0.95)  # standard errors of an end of a 90% interval
_MANY = 2.5  # standard errors
_ROUGHLY_ALL = 0.99  # of the kept observations
_NAMED = 10  # observations that a sentence lists
_COARSE = 3.0  # standard errors of the data, that the choice of the points may add

UNKNOWN = (
    "the efficient discrepancy cannot tell the parameters apart around the estimate, or "
    "simulations fail there: this is the estimate of plain MMD, with intervals by slopes alone; "
    'take discrepancy="mmd", hold parameters with '
    "simulator.fix(...), or observe what depends on them"
)
CUT = (
    "the calls ended, or Ctrl-C came, before the efficient estimate settled: its errors allow for "
    "what it may still move, but observations that do not fit may be hidden; allow more"
)
SHORT = (
    "the calls ended before the efficient estimate: this is the one of plain MMD, with intervals "
    "by slopes alone; allow more"
)


def describe_refined(stage: Stage, found: Refined, *, short: bool = False) -> tuple[str, ...]:
    """All sentences, none where all is well.

    short: whether more was to be done when calls ended.
    """
    errors = np.sqrt(np.diagonal(found.covariance))
    reach = _REACH * errors
    return (
        *tell_ends(stage, found.theta, errors),
        *tell_undetermined(stage, found.theta, reach, reach),
        *_tell_outliers(found),
        *_tell_mass(found),
        *_tell_misfit(found, len(stage.problem.observed)),
        *_tell_settled(found, short),
        *_tell_coarse(stage, found),
    )


def _tell_outliers(found: Refined) -> tuple[str, ...]:
    rows = np.flatnonzero(found.left_out)
    if not len(rows):
        return ()
    more = ", ..." if len(rows) > _NAMED else ""
    listed = ", ".join(map(str, rows[:_NAMED])) + more
    return (
        f"{len(rows)} of {len(found.left_out)} observations do not fit, and are left out (rows "
        f"{listed}); see whether they are mistakes, or the model lacks something",
    )


def _tell_mass(found: Refined) -> tuple[str, ...]:
    c, error = found.balance.mass, np.sqrt(found.balance.errors[-1, -1])
    if not (c < _ROUGHLY_ALL and c - 1 < -_MANY * error):
        return ()
    return (
        f"the model explains {found.mass:.1%} of the observations (± {found.mass_error:.1%}): the "
        "others lie where it hardly gives any; look at them",
    )


def _tell_misfit(found: Refined, n: int) -> tuple[str, ...]:
    if found.misfit >= MISFIT:
        return ()
    return (
        f"data and model differ by more than {n} observations explain (chance {found.misfit:.1g}): "
        "the model does not fit, and the estimate may be off by more than its errors; see "
        "goodness_of_fit",
    )


def _tell_settled(found: Refined, short: bool) -> tuple[str, ...]:
    if short:
        return (CUT,)
    if found.settled:
        return ()
    return (
        "the efficient estimate still moved when its rounds ended; give a larger m, or compare "
        "with discrepancy='mmd'",
    )


def _tell_coarse(stage: Stage, found: Refined) -> tuple[str, ...]:
    if not found.balance.coarseness > _COARSE:
        return ()
    return (
        f"the choice of the points moves the estimate {found.balance.coarseness:.2g} times as far "
        f"as the {len(stage.problem.observed)} observations do; give a larger m",
    )
