"""Simulations at thetas of a wide prior, as far apart as those of a theta that fits."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.kernels.spread import typical_distance
from owlfi.problem.problem import Problem


def spread_factors(problem: Problem, y: Float[Array, "t m d"]) -> Float[Array, "t 1 1"]:
    """What gives the simulations of each theta the spread of the observations, as k sees it.

    So k sees them as it would see those of a theta that fits: at others, a wide prior would let
    the kernel be tuned to simulations that k cannot tell apart, or from nothing else.
    """
    to_coordinates = problem.data_kernel.distance_coordinates()
    if to_coordinates is None or y.shape[1] < 2:
        return jnp.ones((len(y), 1, 1))
    spread = _spread(to_coordinates(problem.observed), jnp.nan)
    if not spread > 0:  # all that k sees of the observations is equal
        return jnp.ones((len(y), 1, 1))
    return jnp.stack([spread / _spread(to_coordinates(r), spread) for r in y])[:, None, None]


def _spread(rows: Float[Array, "m e"], otherwise: Array | float) -> Array | float:
    try:
        return typical_distance(rows)
    except ValueError:  # all rows are equal, or not finite
        return otherwise
