"""Simulations at thetas of a wide prior, as far apart as those of a theta that fits."""

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, fill_rows, next_rung
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import Kernel
from owlfi.kernels.spread import typical_distance


def spread_factors(
    data_kernel: Kernel, observed: Float[Array, "n d"], y: Float[np.ndarray, "t m d"]
) -> Float[np.ndarray, "t 1 1"]:
    """What gives the simulations of each theta the spread of the observations, as k sees it.

    So k sees them as it would see those of a theta that fits: at others, a wide prior would let
    the kernel be tuned to simulations that k cannot tell apart, or from nothing else.
    """
    if data_kernel.distance_coordinates() is None or y.shape[1] < 2:
        return np.ones((len(y), 1, 1))
    t, m, d = y.shape
    x = fill_rows(observed, next_rung(len(observed)))  # one program for other n
    seen = np.asarray(_see(data_kernel, as_jax(np.concatenate([x, y.reshape(-1, d)]))))
    spread = spread_of(seen[: len(observed)], np.nan)
    if not spread > 0:  # all that k sees of the observations is equal
        return np.ones((t, 1, 1))
    samples = seen[-t * m :].reshape(t, m, -1)
    return np.array([spread / spread_of(rows, spread) for rows in samples])[:, None, None]


@compile_quickly
def _see(k: Kernel, rows: Float[Array, "n d"]) -> Float[Array, "n e"]:
    to_coordinates = k.distance_coordinates()
    assert to_coordinates is not None
    return to_coordinates(rows)


def spread_of(rows: Float[np.ndarray | Array, "m e"], otherwise: float) -> float:
    """The typical distance of rows that are finite, or another number where they have none."""
    fine = np.isfinite(rows).all(1)
    try:
        return float(typical_distance(as_jax(np.asarray(rows)[fine])))
    except ValueError:  # all rows are equal, or none is left
        return otherwise
