"""Expected coverage by random points (TARP, Lemos et al. 2023): a level for all parameters."""

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.results.distribution import Distribution

_DRAWS = 400


def joint_level(
    key: Key[Array, ""],
    result: Distribution,
    theta: Float[np.ndarray, " p"],
    reference: Float[np.ndarray, " p"],
    units: Float[np.ndarray, " p"],
) -> tuple[float, float]:
    """The share of draws nearer to the reference than the truth is, and how many draws it is of.

    Uniform for a calibrated method, whatever the references, as long as no truth was used to choose
    them. NaN where the result has no finite draws.
    """
    draws = np.asarray(result.resample(key, _DRAWS))
    if not np.isfinite(draws).all():
        return np.nan, np.inf
    distances, own = (np.sum(((at - reference) / units) ** 2, -1) for at in (draws, theta))
    return float(np.mean(distances < own)), min(_DRAWS, result.effective_draws)
