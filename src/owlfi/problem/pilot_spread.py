"""Simulations at thetas of a wide prior, as far apart as those of a theta that fits."""

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.kernels import Kernel
from owlfi.kernels.spread import typical_distance


def spread_factors(
    data_kernel: Kernel, observed: Float[Array, "n d"], y: Float[np.ndarray, "t m d"]
) -> Float[np.ndarray, "t 1 1"]:
    """What gives the simulations of each theta the spread of the observations, as k sees it.

    So k sees them as it would see those of a theta that fits: at others, a wide prior would let
    the kernel be tuned to simulations that k cannot tell apart, or from nothing else.
    """
    to_coordinates = data_kernel.distance_coordinates()
    if to_coordinates is None or y.shape[1] < 2:
        return np.ones((len(y), 1, 1))
    t, m, d = y.shape
    rows = as_jax(np.concatenate([observed, y.reshape(-1, d)]))
    seen = np.asarray(to_coordinates(rows))
    spread = spread_of(seen[: -t * m], np.nan)
    if not spread > 0:  # all that k sees of the observations is equal
        return np.ones((t, 1, 1))
    samples = seen[-t * m :].reshape(t, m, -1)
    return np.array([spread / spread_of(rows, spread) for rows in samples])[:, None, None]


def spread_of(rows: Float[np.ndarray | Array, "m e"], otherwise: float) -> float:
    """The typical distance of rows, or another number where they have none."""
    try:
        return float(typical_distance(as_jax(rows)))
    except ValueError:  # all rows are equal, or not finite
        return otherwise
