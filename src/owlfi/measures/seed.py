"""Seeds: all that some programs take of their noise."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from owlfi.measures.base import Measure, as_coordinates

_SEEDS = 2.0**31  # what every language takes


class Seed(Measure):
    """One coordinate that is a seed: a whole number from 0 to 2³¹ - 1, all alike.

    y is not smooth in it, so that points have equal weights, and count as independent.

    >>> Seed().from_uniform(jnp.array([0.25]))
    Array([5.36870912e+08], dtype=float64)
    """

    @property
    def dim(self) -> int:
        return 1

    @property
    def smooth(self) -> bool:
        return False

    @property
    def support(self) -> tuple[Array, Array]:
        return jnp.zeros(1), jnp.full(1, _SEEDS - 1)

    def at_levels(self, v: Array) -> Array:
        return jnp.minimum(jnp.floor(v * _SEEDS), _SEEDS - 1)

    def log_density(self, u: Any) -> Array:
        u = as_coordinates("u", u, 1)[..., 0]
        inside = (u >= 0) & (u < _SEEDS) & (u == jnp.floor(u))
        return jnp.where(inside, -jnp.log(_SEEDS), -jnp.inf)
