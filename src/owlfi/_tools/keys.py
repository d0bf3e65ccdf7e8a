"""Keys: checked at the edge, and turned into NumPy's random numbers for scipy's point sets."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from owlfi._tools.checks import is_traced


def as_key(key: Any) -> PRNGKeyArray:
    """A single JAX key, of the new or the old style."""
    typed = isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, jax.Array) and key.dtype == np.uint32
    if (typed and key.shape == ()) or (raw and key.shape == (2,)):
        return key
    raise ValueError(f"key must be one JAX key such as jax.random.key(0), got {key!r}")


def numpy_generator(key: Any) -> np.random.Generator:
    """The NumPy generator of a key: the same key gives the same stream."""
    key = as_key(key)
    if is_traced(key):
        raise ValueError("key is traced: point sets are drawn on the host, outside jit and vmap")
    data = key if key.dtype == np.uint32 else jax.random.key_data(key)
    return np.random.default_rng(np.asarray(data))
