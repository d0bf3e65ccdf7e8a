"""The periodic kernel of rank-1 lattices."""

from functools import partial
from math import factorial, pi
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count, positive
from owlfi._tools.ranks import lift
from owlfi._tools.special import bernoulli_polynomial
from owlfi.kernels.base import Columns, CoordinateKernel, take
from owlfi.kernels.separable import product_over_coordinates


class Korobov(CoordinateKernel):
    """The periodic ∏_j (1 + weight_j Σ_{h≠0} |h|^(-2 alpha) exp(2πi h (x_j - y_j) / period)).

    Its functions have period `period` and alpha derivatives in each coordinate; the sum is a
    Bernoulli polynomial. With a rank-1 lattice its Gram matrix is diagonalised by the FFT.

    >>> Korobov(alpha=1)(jnp.zeros(2), jnp.ones(2)).round(6)  # one period apart: as at distance 0
    Array(18.402969, dtype=float64)
    """

    alpha: int = eqx.field(static=True, converter=partial(as_count, "alpha"), default=1)
    weight: Array = eqx.field(converter=partial(positive, "weight"), default=1.0)
    period: Array = eqx.field(converter=partial(positive, "period"), default=1.0)

    def __check_init__(self) -> None:
        if self.alpha > 4:
            raise ValueError(f"alpha must be 1, 2, 3 or 4, got {self.alpha}")

    @property
    def amplitude(self) -> Array:
        """What multiplies B_{2 alpha} in one coordinate."""
        degree = 2 * self.alpha
        return self.weight * ((-1) ** (self.alpha + 1) * (2 * pi) ** degree / factorial(degree))

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        return product_over_coordinates(self, x, y)

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        phase = jnp.abs(difference) / lift(self.period, difference.ndim)  # exactly symmetric
        fraction = phase - jnp.floor(phase)
        amplitude = lift(self.amplitude, difference.ndim)
        return 1 + amplitude * bernoulli_polynomial(2 * self.alpha, fraction)

    def panels(self) -> Float[Array, "p #s"]:
        return jnp.arange(0.5, 40.5, 0.5)[:, None] * jnp.atleast_1d(self.period)[None]

    def restrict(self, coordinates: Columns) -> "Korobov":
        return Korobov(self.alpha, take(self.weight, coordinates), take(self.period, coordinates))

    def separable(self, dim: int) -> bool:
        return True
