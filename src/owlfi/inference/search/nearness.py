"""Whether a kernel sees simulations from the data, or only that they are far away."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import fill_rows, next_rung
from owlfi._tools.programs import map_cases
from owlfi.kernels import Kernel

SEEN = 0.3
"""Of the mean of k between observations, to count simulations as seen."""
_ROWS = 512  # of the observations


def measure_nearness(
    k: Kernel, factor: float, x: Float[np.ndarray, "n d"], y: Float[Array, "t m d"]
) -> Float[np.ndarray, " t"]:
    """The mean of k, stretched by a factor, between each sample and the observations."""
    some = x[:: -(-len(x) // _ROWS)]
    size = next_rung(len(some))
    shares = fill_rows(np.full(len(some), 1 / len(some)), size, 0.0)
    shared = k, np.float64(factor), fill_rows(some, size), shares
    return np.asarray(map_cases(_average, shared, y))


def _average(shared: tuple[Kernel, Array, Array, Array], y: Float[Array, "m d"]) -> Array:
    k, factor, x, shares = shared
    return jnp.nanmean(k.stretch(factor).row_sums(y, x, shares))
