"""Arrays of different rank side by side, said in so many words."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Shaped


def lift(array: ArrayLike, ndim: int) -> Shaped[Array, "..."]:
    """The array with leading axes of length 1 up to a rank; a number, or more axes, as they are.

    >>> lift(jnp.zeros(3), 2).shape
    (1, 3)
    """
    array = jnp.asarray(array)
    missing = ndim - array.ndim if array.ndim else 0
    return array.reshape(*[1] * missing, *array.shape) if missing > 0 else array
