"""Kernels that are products of one-dimensional ones over the coordinates."""

from functools import reduce
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import brief
from owlfi.kernels.base import Columns, CoordinateKernel, as_samples, check_coordinates


def _check_separable(kernel: Any) -> CoordinateKernel:
    if not (isinstance(kernel, CoordinateKernel) and kernel.separable(1)):
        raise ValueError(
            "kernel must be one with a form along each coordinate, such as Matern(2.5, 0.3) or "
            f"a product of them, got {brief(kernel)}; sums, multiples and constants go "
            "outside: 2.0 * Separable(k1) + Separable(k2)"
        )
    return kernel


class Separable(CoordinateKernel):
    """The product over coordinates of a one-dimensional radial kernel: ∏_j k(x_j, y_j).

    `Separable(Matern(2.5, [0.3, 1.0]))` is the product of two Matérn kernels, where
    `Matern(2.5, [0.3, 1.0])` is one Matérn kernel of the scaled distance.

    >>> from owlfi.kernels import Matern
    >>> Separable(Matern(0.5, 1.0))(jnp.zeros(2), jnp.ones(2)).round(6)
    Array(0.135335, dtype=float64)
    """

    kernel: CoordinateKernel = eqx.field(converter=_check_separable)

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        return product_over_coordinates(self, x, y)

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return self.kernel.along(difference)

    def panels(self) -> Float[Array, "p #s"]:
        return self.kernel.panels()

    def restrict(self, coordinates: Columns) -> "Separable":
        return Separable(self.kernel.restrict(coordinates))

    def separable(self, dim: int) -> bool:
        return True


def product_over_coordinates(kernel: CoordinateKernel, x: Any, y: Any) -> Float[Array, "n m"]:
    """The Gram matrix of a kernel that is the product of its forms along each coordinate."""
    x, y = as_samples(x, y)
    check_coordinates(kernel, x.shape[1])

    def multiply(total: Array, j: int) -> Array:
        part = kernel.restrict(slice(j, j + 1))
        return total * part.along((x[:, j, None] - y[None, :, j])[..., None])[..., 0]

    return reduce(multiply, range(x.shape[1]), jnp.ones((x.shape[0], y.shape[0])))
