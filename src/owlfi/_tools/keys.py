"""Keys: checked at the edge, split, and turned into numbers, by few programs for all sizes."""

from math import prod
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from owlfi._tools.arrays import as_jax, next_rung
from owlfi._tools.checks import brief, is_traced
from owlfi._tools.forks import refuse_after_fork
from owlfi._tools.programs import compile_quickly

_LEAST_LEVEL = 2.0**-60


def as_key(key: Any) -> PRNGKeyArray:
    """A single JAX key, of the new or the old style."""
    refuse_after_fork()
    typed = isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, jax.Array) and key.dtype == np.uint32
    if (typed and key.shape == ()) or (raw and key.shape == (2,)):
        return key
    raise ValueError(f"key must be one JAX key such as jax.random.key(0), got {brief(key)}")


def numpy_generator(key: Any) -> np.random.Generator:
    """The NumPy generator of a key: the same key gives the same stream."""
    key = as_key(key)
    if is_traced(key):
        raise ValueError(
            "key is traced, but point sets are drawn on the host; draw them outside of jit and vmap"
        )
    data = key if key.dtype == np.uint32 else jax.random.key_data(key)
    return np.random.default_rng(np.asarray(data))


def split_key(key: Any, count: int = 2) -> list[PRNGKeyArray]:
    """Those of `jax.random.split`, each on its own.

    >>> [key.shape for key in split_key(jax.random.key(0), 3)]
    [(), (), ()]
    """
    return _split(as_key(key), next_rung(count))[:count]


@compile_quickly
def _split(key: PRNGKeyArray, count: int) -> list[PRNGKeyArray]:
    return list(jax.random.split(key, count))  # each depends on its number, not on the count


def draw_levels(key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent levels inside (0, 1), those of `jax.random.uniform`.

    >>> draw_levels(jax.random.key(0), (3, 2)).shape
    (3, 2)
    """
    key, count = as_key(key), prod(shape)
    if is_traced(key):
        return jax.random.uniform(key, shape, minval=_LEAST_LEVEL)
    return as_jax(np.asarray(_draw(key, next_rung(count)))[:count].reshape(shape))


@compile_quickly
def _draw(key: PRNGKeyArray, count: int) -> Float[Array, " n"]:
    return jax.random.uniform(key, (count,), minval=_LEAST_LEVEL)
