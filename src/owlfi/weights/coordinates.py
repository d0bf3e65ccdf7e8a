"""Systems of coordinates for the noise: a kernel that is blind in one may see in another.

By change of variable, weights for g(u) under its law are weights for u.
"""

import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from owlfi._tools.arrays import as_jax
from owlfi.measures import DiscreteFamily, Family, Measure, Normal, Product, Uniform

_FARTHEST_SCORE = 9.0

System = tuple[Measure, Float[Array, "... s"]]


def coordinate_systems(measure: Measure, u: Float[Array, "... s"]) -> list[System]:
    """The noise as given; and, where some of it is neither normal nor uniform, its normal scores.

    >>> import jax.numpy as jnp
    >>> from owlfi.measures import Exponential
    >>> [type(law).__name__ for law, _ in coordinate_systems(Exponential(1.0), jnp.ones((4, 1)))]
    ['Exponential', 'Normal']
    """
    parts = measure.parts if isinstance(measure, Product) else (measure,)
    if not any(_has_scores(part) for part in parts):
        return [(measure, u)]
    ends = np.cumsum([part.dim for part in parts])[:-1]
    columns = np.split(np.asarray(u), ends, axis=-1)
    scored = [_score(part, column) for part, column in zip(parts, columns, strict=True)]
    laws, points = zip(*scored, strict=True)
    law = laws[0] if len(laws) == 1 else Product(*laws)
    return [(measure, u), (law, as_jax(np.concatenate(points, -1)))]


def _has_scores(part: Measure) -> bool:
    return isinstance(part, Family) and not isinstance(part, (DiscreteFamily, Normal, Uniform))


def _score(part: Measure, u: np.ndarray) -> tuple[Measure, np.ndarray]:
    """Φ⁻¹(F(u)), from the nearer end of the distribution."""
    if not (isinstance(part, Family) and _has_scores(part)):
        return part, u
    frozen = part.as_scipy()
    below, above = frozen.cdf(u), frozen.sf(u)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    return Normal(dim=part.dim), scores.clip(-_FARTHEST_SCORE, _FARTHEST_SCORE)
