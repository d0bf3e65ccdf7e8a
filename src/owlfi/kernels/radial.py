"""Kernels that are functions of a scaled distance."""

import abc
from collections.abc import Callable
from functools import partial
from math import gamma
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import is_traced, plain_number, positive
from owlfi._tools.ranks import lift
from owlfi._tools.special import scaled_bessel_k
from owlfi.kernels.base import Columns, CoordinateKernel, as_samples, check_coordinates, take
from owlfi.kernels.pair_sums import Rows, join_columns, split_columns, sum_pairs, sum_rows

_COORDINATES_AT_ONCE = 16
_UNROLLED = 64  # coordinates; programs that name more take minutes to compile
_LARGE_SQUARED_NORM = 1e3
# Multiples of the lengthscale where panels end when a kernel is integrated, by how it falls.
_GAUSSIAN_PANELS = np.array([0.5, 1.5, 3.0, 5.0, 7.0, 9.0, 12.0])
_EXPONENTIAL_PANELS = np.array([0.5, 2.0, 4.0, 7.0, 11.0, 16.0, 23.0, 32.0, 45.0])
_ALGEBRAIC_PANELS = 0.5 * 3.0 ** np.arange(30)
_SINGULAR_PANELS = np.concatenate([0.5 * 4.0 ** -np.arange(18.0, 0.0, -1), _EXPONENTIAL_PANELS])


_lengthscale = partial(positive, "lengthscale")


def _shape_parameter(name: str, value: Any) -> float:
    """A positive parameter towards whose infinity a kernel becomes the squared exponential."""
    number = value if isinstance(value, float) else plain_number(name, value)
    if not 0 < number <= 100:
        raise ValueError(
            f"{name} must be above 0 and at most 100 (beyond, use SquaredExponential), got {number}"
        )
    return float(number)


class RadialKernel(CoordinateKernel):
    """A function of r² = Σ_j (x_j - y_j)² / lengthscale_j²."""

    lengthscale: eqx.AbstractVar[Array]

    def distance_coordinates(self) -> Callable[[Array], Array]:
        return self._scale_rows

    def _scale_rows(self, rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
        check_coordinates(self, rows.shape[-1])
        return rows / lift(self.lengthscale, 2)

    @abc.abstractmethod
    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        """The kernel at scaled squared distance r²."""

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        x, y = as_samples(x, y)
        check_coordinates(self, x.shape[1])
        if not is_traced(self, x, y):
            return _compiled_gram(self, x, y)
        return self.profile(squared_distances(x, y, self.lengthscale))

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return self.profile((difference / lift(self.lengthscale, difference.ndim)) ** 2)

    def panels(self) -> Float[Array, "p #s"]:
        return _multiples(_EXPONENTIAL_PANELS, self.lengthscale)

    def restrict(self, coordinates: Columns) -> "RadialKernel":
        return eqx.tree_at(lambda k: k.lengthscale, self, take(self.lengthscale, coordinates))

    def stretch(self, factor: Any) -> "RadialKernel":
        factor = positive("factor", factor, number=True)
        xp = numpy_for(factor, self.lengthscale)
        stretched = as_jax(xp.asarray(factor) * xp.asarray(self.lengthscale))
        return eqx.tree_at(lambda k: k.lengthscale, self, stretched)

    def separable(self, dim: int) -> bool:
        return dim == 1


@eqx.filter_jit
def _compiled_gram(kernel: RadialKernel, x: Array, y: Array) -> Float[Array, "n m"]:
    return kernel.gram(x, y)


def squared_distances(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: ArrayLike = 1.0
) -> Float[Array, "n m"]:
    """Σ_j (x_ij - y_kj)² / lengthscale_j² by differences: all else cancels for close points."""
    scales = jnp.broadcast_to(1 / jnp.asarray(lengthscale), x.shape[1:])
    if len(scales) <= _UNROLLED:
        return _sum_squares(x.T, y.T, scales)
    missing = -len(scales) % _COORDINATES_AT_ONCE
    parts = [jnp.pad(x.T, [(0, missing), (0, 0)]), jnp.pad(y.T, [(0, missing), (0, 0)])]
    blocks = [part.reshape(-1, _COORDINATES_AT_ONCE, part.shape[1]) for part in parts]
    by_block = jnp.pad(scales, (0, missing)).reshape(-1, _COORDINATES_AT_ONCE)

    def add(total: Array, block: tuple[Array, ...]) -> tuple[Array, None]:
        return total + _sum_squares(*block), None

    start = jnp.zeros((len(x), len(y)), jnp.result_type(x, y, scales))
    return jax.lax.scan(add, start, (*blocks, by_block))[0]


def _sum_squares(x: Array, y: Array, scales: Array) -> Array:
    """Of columns, few at a time: one fused loop."""
    total: Any = 0.0
    columns = list(zip(x, y, scales, strict=True))
    for start in range(0, len(columns), _COORDINATES_AT_ONCE):
        part = columns[start : start + _COORDINATES_AT_ONCE]
        total = total + sum(((a[:, None] - b[None]) * scale) ** 2 for a, b, scale in part)
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

    def gaussian_coordinates(self) -> Callable[[Array], Array]:
        return self._scale_rows

    def row_sums(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        return self._fastest_sum(sum_rows, y, x, weights)

    def self_sum(self, x: Array, weights: Array) -> Float[Array, ""]:
        return self._fastest_sum(sum_pairs, x, x, weights)

    def _tile(self, y: Rows, x: Rows, weights: Array) -> Float[Array, " m"]:
        # One loop for exp and sum; other kernels vectorise worse with the sum.
        return jnp.sum(self.gram(join_columns(y), join_columns(x)) * weights[None], 1)

    def _far_tile(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        """Column after column: seldom needed, so that it should take no time to compile."""
        columns = self._scale_rows(y).T, self._scale_rows(x).T

        def add(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
            return total + (pair[0][:, None] - pair[1][None]) ** 2, None

        r2, _ = jax.lax.scan(add, jnp.zeros((y.shape[0], x.shape[0])), columns)
        return jnp.sum(self.profile(r2) * weights[None], 1)

    def _fastest_sum(self, add: Callable[..., Array], y: Array, x: Array, weights: Array) -> Array:
        """By differences, or beyond one coordinate by a product, which keeps fewer digits.

        y·x - |y|²/2 - |x|²/2 cancels by about 1e-16 times the largest squared norm: far-flung data
        take differences.
        """
        if x.shape[1] == 1:
            return add(self._tile, split_columns(y), split_columns(x), weights)
        center = jax.lax.stop_gradient(x.mean(0, keepdims=True))
        y_scaled, x_scaled = (self._scale_rows(rows - center) for rows in (y, x))
        features = gaussian_features(y_scaled, x_scaled)
        largest = jnp.maximum(*(jnp.sum(rows**2, 1).max() for rows in (y_scaled, x_scaled)))
        return jax.lax.cond(
            largest < _LARGE_SQUARED_NORM,
            lambda: add(_product_tile, *features, weights),
            lambda: add(self._far_tile, y, x, weights),
        )


def gaussian_features(
    y: Float[Array, "m d"], x: Float[Array, "n d"]
) -> tuple[Float[Array, "m e"], Float[Array, "n e"]]:
    """a and b with a_i · b_j = -|y_i - x_j|²/2; rows should be centred near 0."""
    y_norm, x_norm = (-0.5 * jnp.sum(rows**2, 1, keepdims=True) for rows in (y, x))
    return (
        jnp.concatenate([y, y_norm, jnp.ones_like(y_norm)], 1),
        jnp.concatenate([x, jnp.ones_like(x_norm), x_norm], 1),
    )


def _product_tile(y: Array, x: Array, weights: Array) -> Array:
    return jnp.sum(jnp.exp(y @ x.T) * weights[None], 1)


class Matern(RadialKernel):
    """The Matérn kernel of smoothness nu: 2^(1-nu)/Γ(nu) t^nu K_nu(t), t = sqrt(2 nu) r.

    Half-integer nu are exponentials times polynomials and fast; any other nu > 0 goes through the
    Bessel function (an integral of 192 terms for each value).

    >>> Matern(nu=1.5, lengthscale=1.0)(jnp.zeros(1), jnp.ones(1)).round(6)
    Array(0.483358, dtype=float64)
    """

    nu: float = eqx.field(static=True, converter=partial(_shape_parameter, "nu"), default=2.5)
    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)

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
        return 1 / jnp.sqrt(1 + r2)

    def panels(self) -> Float[Array, "p #s"]:
        return _multiples(_ALGEBRAIC_PANELS, self.lengthscale)


class RationalQuadratic(RadialKernel):
    """(1 + r²/(2 alpha))^(-alpha), a mixture of squared exponentials of many lengthscales.

    >>> RationalQuadratic(lengthscale=1.0, alpha=1.0)(jnp.zeros(1), jnp.ones(1)).round(6)
    Array(0.666667, dtype=float64)
    """

    lengthscale: Array = eqx.field(converter=_lengthscale, default=1.0)
    alpha: float = eqx.field(static=True, converter=partial(_shape_parameter, "alpha"), default=1.0)

    def profile(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-self.alpha * jnp.log1p(r2 / (2 * self.alpha)))

    def panels(self) -> Float[Array, "p #s"]:
        width = min(1.0, self.alpha**0.5) * self.lengthscale
        return _multiples(_ALGEBRAIC_PANELS, width)


def _multiples(factors: np.ndarray, lengthscale: Array) -> Float[Array, "p #s"]:
    return jnp.asarray(factors)[:, None] * jnp.atleast_1d(lengthscale)[None]
