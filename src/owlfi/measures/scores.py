"""Normal scores of continuous noise: Φ⁻¹(F(u)), by which all of it is normal."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float
from scipy.special import ndtri

from owlfi._tools.arrays import as_jax
from owlfi.measures.base import Family, Measure
from owlfi.measures.discrete import DiscreteFamily
from owlfi.measures.normal import Normal

FARTHEST_SCORE = 9.0
_LEAST_LEVEL, _MOST_LEVEL = 2.0**-60, 1 - 2.0**-53


def has_scores(part: Measure) -> bool:
    """Whether its coordinates are independent and continuous."""
    return isinstance(part, Family) and not isinstance(part, DiscreteFamily)


def to_scores(part: Measure, u: Float[np.ndarray, "... s"]) -> Float[np.ndarray, "... s"]:
    """Φ⁻¹(F(u)), from the nearer end of the distribution; on the host."""
    if isinstance(part, Normal):
        return (u - np.asarray(part.mean)) / np.asarray(part.sd)
    assert isinstance(part, Family)
    frozen = part.as_scipy()
    below, above = frozen.cdf(u), frozen.sf(u)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    return scores.clip(-FARTHEST_SCORE, FARTHEST_SCORE)


def from_scores(part: Measure, z: Float[Array, "... s"]) -> Float[Array, "... s"]:
    """F⁻¹(Φ(z)); inside programs where the quantiles of the measure are."""
    if isinstance(part, Normal):
        mean, sd = part.beside(z)
        return mean + sd * z
    return part.at_levels(jnp.clip(ndtr(z), _LEAST_LEVEL, _MOST_LEVEL))


def score_widths(
    part: Measure, u: Float[np.ndarray, "... s"], z: Float[np.ndarray, "... s"]
) -> Float[np.ndarray, "... s"]:
    """du/dz = φ(z) / f(u) of each coordinate."""
    if isinstance(part, Normal):
        return np.broadcast_to(np.asarray(part.sd), z.shape)
    assert isinstance(part, Family)
    low, high = (np.asarray(end) for end in part.support)
    distances = map(as_jax, (u, u - low, high - u))
    log_density = np.asarray(part.coordinate_log_density(*distances))
    return np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_density)
