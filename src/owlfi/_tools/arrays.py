"""Arrays on the host: outside of programs, JAX compiles each operation for each new shape."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi._tools.checks import brief, is_traced


def numpy_for(*values: Any) -> ModuleType:
    """NumPy; JAX's inside jit, vmap and grad."""
    return jnp if is_traced(values) else np


def as_jax(array: Any) -> Array:
    """A NumPy array that nobody will change, or one of JAX, as an array of JAX.

    It shares the memory; `jnp.asarray` would compile a copy for each shape.
    """
    return array if isinstance(array, jax.Array) else jax.device_put(array)


def take_rows(array: Any, rows: Any) -> Array:
    """array[rows], by NumPy where it can be: JAX compiles that for each shape.

    >>> take_rows(jnp.arange(4.0), [True, False, True, False])
    Array([0., 2.], dtype=float64)
    """
    if is_traced(array) or jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array[rows]
    return as_jax(np.asarray(array)[rows])


def as_places(name: str, chosen: Any, count: int) -> np.ndarray:
    """Places among so many thetas, from a list, a slice, or True or False for each.

    Raises ValueError for anything else.
    """
    try:
        places = np.arange(count)[chosen if isinstance(chosen, slice) else np.asarray(chosen)]
    except Exception:  # of its own __array__, too
        places = np.array(0)
    if places.ndim != 1:
        raise ValueError(
            f"{name} must be places among the {count} thetas, or True or False for each, "
            f"got {brief(chosen)}"
        )
    return places


def next_rung(n: int) -> int:
    """The least size that holds n of those that programs are compiled for: 16, 32, 64, ...

    Above 1024 there are two in each octave, above 4096 four, so that little is wasted.

    >>> [next_rung(n) for n in (1, 16, 17, 500, 1025, 4097)]
    [16, 16, 32, 512, 1536, 5120]
    """
    size = 2 ** max(4, (n - 1).bit_length())
    step = size if size <= 1024 else size // 4 if size <= 4096 else size // 8
    return -(-max(n, 1) // step) * step


def fill_rows(rows: Any, size: int, value: float | None = None) -> Array:
    """As many rows as `size`: copies of the first, or the value, below those that there are.

    >>> fill_rows(np.array([1.0, 2.0]), 4), fill_rows(np.array([1.0, 2.0]), 4, 0.0)
    (Array([1., 2., 1., 1.], dtype=float64), Array([1., 2., 0., 0.], dtype=float64))
    """
    return as_jax(fill_on_host(rows, size, value))


def fill_on_host(rows: Any, size: int, value: float | None = None) -> np.ndarray:
    """The same for what goes into a program at once, which takes arrays of NumPy faster."""
    known = np.asarray(rows)
    filled = np.empty((size, *known.shape[1:]), known.dtype)
    filled[: len(known)] = known
    filled[len(known) :] = (known[:1] if len(known) else 0) if value is None else value
    return filled
