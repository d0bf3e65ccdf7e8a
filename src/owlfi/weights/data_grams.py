"""K = k(y, y) of simulations on the points of designs, some of which may have failed (NaN).

Searches share the weight of a failed simulation among the others. So what they integrate over u is
k(y(u), ·) where it did not fail, and the mean of that where it did; c is fitted to the same.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from owlfi._tools.programs import compile_quickly
from owlfi.kernels import Kernel

LEAST_FINE = 0.5
"""The share of the simulations at a theta that must not fail for the others to stand for all."""


def are_enough(y: Float[Array | np.ndarray, "... m d"]) -> Bool[np.ndarray, "..."]:
    """Whether so many rows are finite that they stand for all."""
    return np.asarray(np.isfinite(np.asarray(y)).all(-1).mean(-1) >= LEAST_FINE)


@compile_quickly
def data_grams(data_kernel: Kernel, samples: Float[Array, "b t m d"]) -> Float[Array, "b t m m"]:
    """K of each design at each theta."""
    return jax.lax.map(lambda rows: jax.lax.map(lambda y: data_gram(data_kernel, y), rows), samples)


def data_gram(data_kernel: Kernel, y: Float[Array, "m d"]) -> Float[Array, "m m"]:
    """K at one theta, where failed rows are the mean of the others."""
    fine = jnp.isfinite(y).all(1)
    rows = jnp.where(fine[:, None], y, y[jnp.argmax(fine)][None])
    gram, shares = data_kernel.gram(rows, rows), fine / fine.sum()
    gram = jnp.where(fine[:, None], gram, (shares @ gram)[None])
    return jnp.where(fine[None], gram, (gram @ shares)[:, None])
