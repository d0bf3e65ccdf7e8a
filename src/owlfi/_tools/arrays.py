"""Arrays on the host: outside of programs, JAX compiles each operation for each new shape."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi._tools.checks import is_traced


def numpy_for(*values: Any) -> ModuleType:
    """NumPy; JAX's inside jit, vmap and grad."""
    return jnp if is_traced(values) else np


def as_jax(array: Any) -> Array:
    """A NumPy array that nobody will change, or one of JAX, as an array of JAX.

    It shares the memory; `jnp.asarray` would compile a copy for each shape.
    """
    return array if isinstance(array, jax.Array) else jax.device_put(array)


def next_rung(n: int) -> int:
    """The least size that holds n of those that programs are compiled for: 16, 32, 64, ...

    Above 4096 there are four in each octave, so that at most a quarter is wasted.

    >>> [next_rung(n) for n in (1, 16, 17, 500, 4097)]
    [16, 16, 32, 512, 5120]
    """
    size = 2 ** max(4, (n - 1).bit_length())
    step = size if size <= 4096 else size // 8
    return -(-n // step) * step
