"""How far data sets lie from what a model predicts, by a kernel."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.mmd import squared_mmd


def measure_each(
    k: Kernel, data: Float[np.ndarray, "b n d"], reference: Float[np.ndarray, "r d"]
) -> Float[np.ndarray, " b"]:
    """The squared MMD of each data set to the reference."""
    return np.asarray(_measure_each(k, as_jax(data), as_jax(reference)))


@eqx.filter_jit
def _measure_each(k: Kernel, data: Array, reference: Array) -> Float[Array, " b"]:
    return jax.lax.map(lambda rows: squared_mmd(k, rows, reference), data)


def embed_at(
    k: Kernel, places: Float[np.ndarray, "l d"], data: Float[np.ndarray, "b n d"]
) -> Float[np.ndarray, "b l"]:
    """The mean embedding of each data set at some places."""
    return np.asarray(_embed_at(k, as_jax(places), as_jax(data)))


@eqx.filter_jit
def _embed_at(k: Kernel, places: Array, data: Array) -> Float[Array, "b l"]:
    n = data.shape[1]
    shares = jax.numpy.full(n, 1 / n)
    return jax.lax.map(lambda rows: k.row_sums(places, rows, shares), data)


def column_kernel(column: Float[np.ndarray, " r"]) -> Kernel:
    """A squared exponential as wide as a column of numbers is."""
    low, high = np.quantile(column, [0.25, 0.75])
    width = high - low or np.std(column) or 1.0
    return SquaredExponential(as_jax(np.asarray(width, float)))
