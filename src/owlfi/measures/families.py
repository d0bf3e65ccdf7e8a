"""Continuous one-dimensional families, repeated over independent coordinates."""

from math import inf
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import betaln, gammaln
from jaxtyping import Array

from owlfi._tools.checks import positive
from owlfi.measures.base import LineFamily
from owlfi.measures.parameters import Coordinates, Ends, check_order, coordinates


class Uniform(LineFamily):
    """The uniform distribution on [low, high].

    >>> Uniform(low=0, high=2, dim=3).log_density([1.0, 1.0, 1.0]).round(6)
    Array(-2.079442, dtype=float64)
    """

    low: Coordinates
    high: Coordinates

    def __init__(self, low: Any = 0.0, high: Any = 1.0, dim: Any = None):
        self.low, self.high = coordinates(dim, low=low, high=high)
        check_order(self.low, self.high)

    @property
    def support(self) -> Ends:
        return self.low, self.high

    def as_scipy(self) -> Any:
        return scipy.stats.uniform(np.asarray(self.low), np.asarray(self.high - self.low))

    def at_levels(self, v: Array) -> Array:
        low, high = self.beside(v)
        return low + (high - low) * v

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        low, high = self.beside(u)
        return jnp.zeros_like(u) - jnp.log(high - low)


class Exponential(LineFamily):
    """The exponential distribution with mean 1/rate.

    >>> Exponential(rate=2.0).log_density([0.0]).round(6)
    Array(0.693147, dtype=float64)
    """

    rate: Coordinates
    ends = 0.0, inf

    def __init__(self, rate: Any = 1.0, dim: Any = None):
        (self.rate,) = coordinates(dim, rate=positive("rate", rate))

    def as_scipy(self) -> Any:
        return scipy.stats.expon(0, 1 / np.asarray(self.rate))

    def at_levels(self, v: Array) -> Array:
        (rate,) = self.beside(v)
        return -jnp.log1p(-v) / rate

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        (rate,) = self.beside(u)
        return jnp.log(rate) - rate * u


class Gamma(LineFamily):
    """The gamma distribution with mean shape/rate.

    >>> Gamma(shape=2.0, rate=1.0).log_density([1.0])
    Array(-1., dtype=float64)
    """

    shape: Coordinates
    rate: Coordinates
    ends = 0.0, inf

    def __init__(self, shape: Any = 1.0, rate: Any = 1.0, dim: Any = None):
        self.shape, self.rate = coordinates(
            dim, shape=positive("shape", shape), rate=positive("rate", rate)
        )

    def as_scipy(self) -> Any:
        return scipy.stats.gamma(np.asarray(self.shape), scale=1 / np.asarray(self.rate))

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        shape, rate = self.beside(u)
        power = _power(shape - 1, from_low)
        return shape * jnp.log(rate) + power - rate * u - gammaln(shape)


class Beta(LineFamily):
    """The beta distribution on [0, 1] with density proportional to u^(a-1) (1-u)^(b-1).

    >>> Beta(a=2.0, b=1.0).log_density([1.0]).round(6)
    Array(0.693147, dtype=float64)
    """

    a: Coordinates
    b: Coordinates
    ends = 0.0, 1.0

    def __init__(self, a: Any = 1.0, b: Any = 1.0, dim: Any = None):
        self.a, self.b = coordinates(dim, a=positive("a", a), b=positive("b", b))

    def as_scipy(self) -> Any:
        return scipy.stats.beta(np.asarray(self.a), np.asarray(self.b))

    def tail_distances(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = np.asarray(self.a), np.asarray(self.b)  # mirrored: 1 - u would round to 0
        return scipy.stats.beta(a, b).ppf(level), scipy.stats.beta(b, a).ppf(level)

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        a, b = self.beside(u)
        return _power(a - 1, from_low) + _power(b - 1, to_high) - betaln(a, b)


class Laplace(LineFamily):
    """The Laplace distribution with density exp(-|u - loc| / scale) / (2 scale).

    >>> Laplace(loc=0.0, scale=1.0).log_density([0.0]).round(6)
    Array(-0.693147, dtype=float64)
    """

    loc: Coordinates
    scale: Coordinates

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, dim: Any = None):
        self.loc, self.scale = coordinates(dim, loc=loc, scale=positive("scale", scale))

    def as_scipy(self) -> Any:
        return scipy.stats.laplace(np.asarray(self.loc), np.asarray(self.scale))

    def at_levels(self, v: Array) -> Array:
        loc, scale = self.beside(v)
        tail = jnp.log(2 * jnp.minimum(v, 1 - v))
        return loc + scale * jnp.where(v < 0.5, tail, -tail)

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        loc, scale = self.beside(u)
        return -jnp.abs(u - loc) / scale - jnp.log(2 * scale)


class StudentT(LineFamily):
    """Student's t distribution with df degrees of freedom.

    >>> StudentT(df=1.0).log_density([0.0]).round(6)
    Array(-1.14473, dtype=float64)
    """

    df: Coordinates
    loc: Coordinates
    scale: Coordinates

    def __init__(self, df: Any = 1.0, loc: Any = 0.0, scale: Any = 1.0, dim: Any = None):
        self.df, self.loc, self.scale = coordinates(
            dim, df=positive("df", df), loc=loc, scale=positive("scale", scale)
        )

    def as_scipy(self) -> Any:
        return scipy.stats.t(np.asarray(self.df), np.asarray(self.loc), np.asarray(self.scale))

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        df, loc, scale = self.beside(u)
        z = (u - loc) / scale
        constant = -betaln(0.5, df / 2) - 0.5 * jnp.log(df) - jnp.log(scale)
        return constant - 0.5 * (df + 1) * jnp.log1p(z**2 / df)


def _power(exponent: Array, base: Array) -> Array:
    """exponent · log(base), 0 where both are 0."""
    flat = (exponent == 0) | (base == 0)
    at_zero = jnp.where(exponent == 0, 0.0, jnp.where(exponent > 0, -jnp.inf, jnp.inf))
    return jnp.where(flat, at_zero, exponent * jnp.log(jnp.where(base == 0, 1.0, base)))
