"""Keys: checked at the edge, split, and turned into numbers, by few programs for all sizes."""

from math import prod
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from owlfi._tools.arrays import as_jax, next_rung
from owlfi._tools.checks import brief, is_traced
from owlfi._tools.forks import refuse_after_fork
from owlfi._tools.programs import compile_quickly

_LEAST_LEVEL = 2.0**-60
_FEWEST = 512  # that are drawn at once: one program for all smaller numbers


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
    key, filled = as_key(key), next_rung(count)  # each depends on its number, not on the count
    if is_traced(key):
        return list(jax.random.split(key, count))
    rows = map(as_jax, np.asarray(_split(key, filled))[:count])
    if key.dtype == np.uint32:
        return list(rows)
    return [jax.random.wrap_key_data(row, impl=jax.random.key_impl(key)) for row in rows]


@compile_quickly
def _split(key: PRNGKeyArray, count: int) -> Array:
    """Their numbers: to take one array apart on the host needs no program."""
    keys = jax.random.split(key, count)
    return keys if keys.dtype == np.uint32 else jax.random.key_data(keys)


def fold_key(key: Any, number: int) -> PRNGKeyArray:
    """That of `jax.random.fold_in`.

    >>> bool(fold_key(jax.random.key(0), 2) == jax.random.fold_in(jax.random.key(0), 2))
    True
    """
    return _fold(as_key(key), np.uint32(number))


@compile_quickly
def _fold(key: PRNGKeyArray, number: ArrayLike) -> PRNGKeyArray:
    return jax.random.fold_in(key, number)


def draw_levels(key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent levels inside (0, 1), those of `jax.random.uniform`.

    >>> draw_levels(jax.random.key(0), (3, 2)).shape
    (3, 2)
    """
    key, count = as_key(key), prod(shape)
    if is_traced(key):
        return jax.random.uniform(key, shape, minval=_LEAST_LEVEL)
    filled = next_rung(max(count, _FEWEST))
    return as_jax(np.asarray(_draw(key, filled))[:count].reshape(shape))


@compile_quickly
def _draw(key: PRNGKeyArray, count: int) -> Float[Array, " n"]:
    return jax.random.uniform(key, (count,), minval=_LEAST_LEVEL)
