"""Kernels: on data (k, inside the MMD) and on the noise of a simulator (c, behind the weights).

Combine them with `+` and `*`: `0.5 * SquaredExponential(1.0) + Matern(1.5, 2.0) + 0.1`.
"""

import abc
from collections.abc import Callable
from functools import reduce
from math import factorial, gamma, pi
from operator import mul
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from owlfi.checks import plain_number, positive
from owlfi.special import bernoulli_polynomial, scaled_bessel_k

_COORDINATES_AT_ONCE = 16
# Multiples of the lengthscale where panels end when a kernel is integrated, by how it falls.
_GAUSSIAN_PANELS = np.array([0.5, 1.5, 3.0, 5.0, 7.0, 9.0, 12.0])
_EXPONENTIAL_PANELS = np.array([0.5, 2.0, 4.0, 7.0, 11.0, 16.0, 23.0, 32.0, 45.0])
_ALGEBRAIC_PANELS = 0.5 * 3.0 ** np.arange(30)
_SINGULAR_PANELS = np.concatenate([0.5 * 4.0 ** -np.arange(14.0, 0.0, -1), _EXPONENTIAL_PANELS])


def _lengthscale(value: Any) -> Array:
    return positive("lengthscale", value)


class Kernel(eqx.Module):
    """A symmetric positive semi-definite function of two points of R^d."""

    @abc.abstractmethod
    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The matrix k(x_i, y_j)."""

    def __call__(self, a: Float[Array, " d"], b: Float[Array, " d"]) -> Float[Array, ""]:
        return self.gram(jnp.atleast_1d(a)[None], jnp.atleast_1d(b)[None])[0, 0]

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """k(x_i, x_i)."""
        return jax.vmap(self)(x, x)

    def __add__(self, other: Any) -> "Kernel":
        return SumKernel((self, other if isinstance(other, Kernel) else Constant(other)))

    def __mul__(self, other: Any) -> "Kernel":
        if isinstance(other, Kernel):
            return ProductKernel((self, other))
        return ScaledKernel(self, other)

    __radd__ = __add__
    __rmul__ = __mul__


class CoordinateKernel(Kernel):
    """A kernel with a one-dimensional form along each coordinate.

    Where it is `separable` in its dimension, it is the product of those forms over the coordinates,
    and embeddings multiply.
    """

    @abc.abstractmethod
    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        """The one-dimensional kernel of each coordinate, at u_j - v_j."""

    @abc.abstractmethod
    def panels(self) -> Float[Array, "p #s"]:
        """Positive differences at which to split an integral of `along`."""

    @abc.abstractmethod
    def restrict(self, coordinates: slice) -> "CoordinateKernel":
        """The kernel on some of the coordinates."""

    @abc.abstractmethod
    def separable(self, dim: int) -> bool:
        """Whether the kernel on R^dim is the product of its one-dimensional forms."""


class RadialKernel(CoordinateKernel):
    """A function of r² = Σ_j (x_j - y_j)² / lengthscale_j²."""

    lengthscale: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        """The kernel at scaled squared distance r²."""

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        check_coordinates(self, x.shape[1])
        return self.profile(squared_distances(x, y, self.lengthscale))

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return self.profile((difference / self.lengthscale) ** 2)

    def panels(self) -> Float[Array, "p #s"]:
        return _multiples(_EXPONENTIAL_PANELS, self.lengthscale)

    def restrict(self, coordinates: slice) -> "RadialKernel":
        return eqx.tree_at(lambda k: k.lengthscale, self, _take(self.lengthscale, coordinates))

    def separable(self, dim: int) -> bool:
        return dim == 1


def squared_distances(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: ArrayLike = 1.0
) -> Float[Array, "n m"]:
    """Σ_j (x_ij - y_kj)² / lengthscale_j² by differences: all else cancels for close points."""
    total = jnp.zeros((x.shape[0], y.shape[0]))
    scales = jnp.broadcast_to(1 / jnp.asarray(lengthscale), x.shape[1:])
    columns = list(zip(x.T, y.T, scales, strict=True))
    for start in range(0, len(columns), _COORDINATES_AT_ONCE):  # few at a time: one fused loop
        part = columns[start : start + _COORDINATES_AT_ONCE]
        total = total + sum(((a[:, None] - b) * scale) ** 2 for a, b, scale in part)
    return total


class SquaredExponential(RadialKernel):
    """exp(-r²/2), infinitely smooth; the paper's choice for k and c.

    `lengthscale` is a number or one number a coordinate.

    >>> SquaredExponential(lengthscale=2.0)(jnp.zeros(3), jnp.ones(3)).round(6)
    Array(0.687289, dtype=float64)
    """

    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)

    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-0.5 * r2)

    def panels(self) -> Float[Array, "p #s"]:
        return _multiples(_GAUSSIAN_PANELS, self.lengthscale)

    def separable(self, dim: int) -> bool:
        return True


class Matern(RadialKernel):
    """The Matérn kernel of smoothness nu: 2^(1-nu)/Γ(nu) t^nu K_nu(t), t = sqrt(2 nu) r.

    Half-integer nu are exponentials times polynomials and fast; any other nu > 0 goes through the
    Bessel function (an integral of 300 terms for each value).

    >>> Matern(nu=1.5, lengthscale=1.0)(jnp.zeros(1), jnp.ones(1)).round(6)
    Array(0.483358, dtype=float64)
    """

    nu: float = eqx.field(static=True, converter=lambda v: plain_number("nu", v), default=2.5)
    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)

    def __check_init__(self) -> None:
        if not 0 < self.nu <= 100:
            raise ValueError(
                "nu must be above 0 and at most 100 (beyond, use SquaredExponential), "
                f"got {self.nu}"
            )

    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        at_zero = gamma(self.nu) * 2 ** (self.nu - 1)
        return scaled_bessel_k(self.nu, 2 * self.nu * r2) / at_zero

    def panels(self) -> Float[Array, "p #s"]:
        smooth = (self.nu - 0.5).is_integer()  # on either side of 0; others behave as r^(2 nu)
        return _multiples(_EXPONENTIAL_PANELS if smooth else _SINGULAR_PANELS, self.lengthscale)


class InverseMultiquadric(RadialKernel):
    """(1 + r²)^(-1/2), with heavy tails.

    >>> InverseMultiquadric(lengthscale=1.0)(jnp.zeros(1), jnp.ones(1)).round(6)
    Array(0.707107, dtype=float64)
    """

    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)

    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return (1 + r2) ** -0.5

    def panels(self) -> Float[Array, "p #s"]:
        return _multiples(_ALGEBRAIC_PANELS, self.lengthscale)


class RationalQuadratic(RadialKernel):
    """(1 + r²/(2 alpha))^(-alpha), a mixture of squared exponentials of many lengthscales.

    >>> RationalQuadratic(lengthscale=1.0, alpha=1.0)(jnp.zeros(1), jnp.ones(1)).round(6)
    Array(0.666667, dtype=float64)
    """

    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)
    alpha: float = eqx.field(static=True, converter=lambda v: plain_number("alpha", v), default=1.0)

    def __check_init__(self) -> None:
        if not 0 < self.alpha <= 100:
            raise ValueError(
                "alpha must be above 0 and at most 100 (beyond, use SquaredExponential), "
                f"got {self.alpha}"
            )

    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-self.alpha * jnp.log1p(r2 / (2 * self.alpha)))

    def panels(self) -> Float[Array, "p #s"]:
        width = min(1.0, self.alpha**0.5) * self.lengthscale
        return _multiples(_ALGEBRAIC_PANELS, width)


class Korobov(CoordinateKernel):
    """The periodic ∏_j (1 + weight_j Σ_{h≠0} |h|^(-2 alpha) exp(2πi h (x_j - y_j) / period)).

    Its functions have period `period` and alpha derivatives in each coordinate; the sum is a
    Bernoulli polynomial. With a rank-1 lattice its Gram matrix is diagonalised by the FFT.

    >>> Korobov(alpha=1)(jnp.zeros(2), jnp.ones(2)).round(6)  # one period apart: as at distance 0
    Array(18.402969, dtype=float64)
    """

    alpha: int = eqx.field(static=True, default=1)
    weight: Array = eqx.field(converter=lambda value: positive("weight", value), default=1.0)
    period: Array = eqx.field(converter=lambda value: positive("period", value), default=1.0)

    def __check_init__(self) -> None:
        if self.alpha not in (1, 2, 3, 4):
            raise ValueError(f"alpha must be 1, 2, 3 or 4, got {self.alpha!r}")

    @property
    def amplitude(self) -> Array:
        """What multiplies B_{2 alpha} in one coordinate."""
        degree = 2 * self.alpha
        return self.weight * ((-1) ** (self.alpha + 1) * (2 * pi) ** degree / factorial(degree))

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        check_coordinates(self, x.shape[1])
        return _product_over_coordinates(self, x, y)

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        phase = jnp.abs(difference) / self.period  # exactly symmetric
        fraction = phase - jnp.floor(phase)
        return 1 + self.amplitude * bernoulli_polynomial(2 * self.alpha, fraction)

    def panels(self) -> Float[Array, "p #s"]:
        return jnp.arange(0.5, 40.5, 0.5)[:, None] * jnp.atleast_1d(self.period)

    def restrict(self, coordinates: slice) -> "Korobov":
        return Korobov(self.alpha, _take(self.weight, coordinates), _take(self.period, coordinates))

    def separable(self, dim: int) -> bool:
        return True


class Separable(CoordinateKernel):
    """The product over coordinates of a one-dimensional radial kernel: ∏_j k(x_j, y_j).

    `Separable(Matern(2.5, [0.3, 1.0]))` is the product of two Matérn kernels, where
    `Matern(2.5, [0.3, 1.0])` is one Matérn kernel of the scaled distance.

    >>> Separable(Matern(0.5, 1.0))(jnp.zeros(2), jnp.ones(2)).round(6)
    Array(0.135335, dtype=float64)
    """

    kernel: CoordinateKernel

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        check_coordinates(self, x.shape[1])
        return _product_over_coordinates(self, x, y)

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return self.kernel.along(difference)

    def panels(self) -> Float[Array, "p #s"]:
        return self.kernel.panels()

    def restrict(self, coordinates: slice) -> "Separable":
        return Separable(self.kernel.restrict(coordinates))

    def separable(self, dim: int) -> bool:
        return True


class ProductKernel(CoordinateKernel):
    """The product of kernels; written `k1 * k2`."""

    factors: tuple[Kernel, ...]

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return reduce(mul, (factor.gram(x, y) for factor in self.factors))

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return reduce(mul, (factor.along(difference) for factor in self._coordinate_factors()))

    def panels(self) -> Float[Array, "p #s"]:
        panels = [factor.panels() for factor in self._coordinate_factors()]
        width = max(p.shape[1] for p in panels)
        return jnp.concatenate([jnp.broadcast_to(p, (p.shape[0], width)) for p in panels])

    def restrict(self, coordinates: slice) -> "ProductKernel":
        return ProductKernel(tuple(f.restrict(coordinates) for f in self._coordinate_factors()))

    def separable(self, dim: int) -> bool:
        return all(isinstance(f, CoordinateKernel) and f.separable(dim) for f in self.factors)

    def _coordinate_factors(self) -> list[CoordinateKernel]:
        return [factor for factor in self.factors if isinstance(factor, CoordinateKernel)]


class SumKernel(Kernel):
    """The sum of kernels; written `k1 + k2`."""

    terms: tuple[Kernel, ...]

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return sum((term.gram(x, y) for term in self.terms[1:]), self.terms[0].gram(x, y))


class ScaledKernel(Kernel):
    """A kernel times a positive number; written `2.0 * k`."""

    kernel: Kernel
    factor: Array = eqx.field(converter=lambda value: positive("factor", value, number=True))

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return self.factor * self.kernel.gram(x, y)


class Constant(Kernel):
    """The same positive number everywhere; added to c, it makes the weights sum to nearly one."""

    value: Array = eqx.field(converter=lambda v: positive("constant", v, number=True), default=1.0)

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return jnp.full((x.shape[0], y.shape[0]), self.value)


class FunctionKernel(Kernel):
    """A kernel from your own JAX function of two points (d,), (d,) -> scalar.

    >>> FunctionKernel(lambda a, b: a @ b)(jnp.ones(2), jnp.ones(2))
    Array(2., dtype=float64)
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return jax.vmap(lambda a: jax.vmap(lambda b: self._value(a, b))(y))(x)

    def _value(self, a: Array, b: Array) -> Array:
        value = jnp.asarray(self.function(a, b), float)
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
        f"got {kernel!r}"
    )


def _product_over_coordinates(kernel: CoordinateKernel, x: Array, y: Array) -> Array:
    def coordinate(total: Array, j: int) -> Array:
        part = kernel.restrict(slice(j, j + 1))
        return total * part.along((x[:, j, None] - y[:, j])[..., None])[..., 0]

    return reduce(coordinate, range(x.shape[1]), jnp.ones((x.shape[0], y.shape[0])))


def _multiples(factors: np.ndarray, lengthscale: Array) -> Float[Array, "p #s"]:
    return jnp.asarray(factors)[:, None] * jnp.atleast_1d(lengthscale)


def _take(value: Array, coordinates: slice) -> Array:
    return value[coordinates] if value.ndim and value.shape[0] > 1 else value


def check_coordinates(kernel: CoordinateKernel, dim: int) -> None:
    """Each parameter of a coordinate kernel is one number, or one a coordinate."""
    for path, value in jax.tree_util.tree_leaves_with_path(kernel):
        if value.ndim and value.shape[0] not in (1, dim):
            name = jax.tree_util.keystr(path).split(".")[-1]
            raise ValueError(
                f"the {name} of {type(kernel).__name__} has {value.shape[0]} entries, "
                f"but the points have {dim} coordinates"
            )
