"""Your own function of two points as a kernel."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import brief, is_hashable, tell_failure
from owlfi.kernels.base import Kernel, as_samples


class FunctionKernel(Kernel):
    """A kernel from your own JAX function of two points (d,), (d,) -> scalar.

    >>> FunctionKernel(lambda a, b: a @ b)(jnp.ones(2), jnp.ones(2))
    Array(2., dtype=float64)
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)

    def __repr__(self) -> str:
        return f"FunctionKernel({getattr(self.function, '__name__', repr(self.function))})"

    def __check_init__(self) -> None:
        if not callable(self.function) or not is_hashable(self.function):
            found = brief(self.function)
            raise ValueError(f"function must be a function of two points, got {found}")

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        x, y = as_samples(x, y)
        return jax.vmap(lambda a: jax.vmap(lambda b: self._value(a, b))(y))(x)

    def _value(self, a: Array, b: Array) -> Array:
        try:
            value = jnp.asarray(self.function(a, b), float)
        except Exception as error:  # of its own, or as NumPy's functions raise for traced points
            raise ValueError(
                "kernel must be a JAX function of two points (d,) that returns a number, written "
                f"with jax.numpy instead of numpy, {tell_failure(self.function, error)}"
            ) from error
        if value.shape:
            raise ValueError(
                "kernel must be a function that gives one number for two points (d,), "
                f"got shape {value.shape}; sum over the coordinates"
            )
        return value


def as_kernel(kernel: Any) -> Kernel:
    """A kernel, or a function of two points wrapped as one."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel)
    raise ValueError(
        f"kernel must be a Kernel such as SquaredExponential(1.0), or a function of two points, "
        f"got {brief(kernel)}"
    )
