"""Keys to NumPy: scipy's point sets run on the host and want a generator."""

import jax
import numpy as np
from jaxtyping import Array, Key


def numpy_generator(key: Key[Array, ""]) -> np.random.Generator:
    """The NumPy generator of a JAX key; the same key gives the same stream."""
    if isinstance(key, jax.core.Tracer):
        raise ValueError("point sets are drawn on the host: draw them outside jit and vmap")
    if not isinstance(key, jax.Array):
        raise ValueError(f"key must be a JAX key such as jax.random.key(0), got {key!r}")
    data = (
        key
        if not jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
        else jax.random.key_data(key)
    )
    return np.random.default_rng(np.asarray(data, np.uint32).ravel())
