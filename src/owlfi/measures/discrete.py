"""Measures that are finite sums of atoms, or nearly so."""

from math import inf, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import gammaln, logsumexp, xlogy
from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows, as_weights, brief, concrete, is_traced, positive
from owlfi._tools.display import count
from owlfi._tools.ranks import lift
from owlfi.measures.base import Family, Measure, as_coordinates
from owlfi.measures.parameters import coordinates

_NEGLIGIBLE = 1e-26
_TOLERABLE = 1e-13  # with a heavy tail, where fewer digits at the last quantiles must do
_LARGEST_COUNT = 2**20
_LARGEST_RATE = 1e9  # above, scipy's quantiles are NaN here and there
_MANY = 64.0  # from where Stirling's series has all digits


class DiscreteFamily(Family):
    """Independent coordinates, each on whole numbers."""

    def atoms(self) -> Float[Array, "a s"]:
        """Whole numbers, a step of 1 apart, that hold nearly all probability of each coordinate.

        Raises ValueError where a million of them do not.
        """
        frozen = concrete(self).as_scipy()
        low, middle = np.atleast_1d(frozen.ppf(_NEGLIGIBLE)), np.atleast_1d(frozen.median())
        top = np.minimum(low + _LARGEST_COUNT - 1, frozen.support()[1])
        high = middle + 1.0
        while np.any(frozen.sf(high) > _NEGLIGIBLE) and np.any(high < top):  # isf stops at 1e-16
            high = np.minimum(middle + np.ceil(1.5 * (high - middle)), top)
        if np.any(middle > top) or np.any(frozen.sf(np.minimum(high, top)) > _TOLERABLE):
            raise ValueError(
                f"measure is {frozen.dist.name} over more than {_LARGEST_COUNT} whole numbers, too "
                "many to sum over; use a continuous measure or Empirical(a sample of it)"
            )
        steps = (high - low).max() + 1
        with jax.ensure_compile_time_eval():
            return jnp.asarray(low + np.arange(steps)[:, None])

    def probabilities(self, atoms: Float[Array, "a s"]) -> Float[Array, "a s"]:
        """The probability of each atom."""
        low, high = (end[None] for end in self.support)
        return jnp.exp(self.coordinate_log_density(atoms, atoms - low, high - atoms))


class Poisson(DiscreteFamily):
    """The Poisson distribution with mean rate.

    Raises ValueError for a rate that is not positive or above 1e9.

    >>> Poisson(rate=2.0).log_density([0.0])
    Array(-2., dtype=float64)
    """

    rate: Float[Array, " s"]
    ends = 0.0, inf

    def __init__(self, rate: Any = 1.0, dim: Any = None):
        (self.rate,) = coordinates(dim, rate=positive("rate", rate))
        if not is_traced(self.rate) and (self.rate > _LARGEST_RATE).any():
            raise ValueError(
                f"rate must be at most {_LARGEST_RATE:g}, got {brief(rate)}; "
                "use Normal(rate, sqrt(rate)), close to it for so large a rate"
            )

    @property
    def dim(self) -> int:
        return self.rate.shape[0]

    def restrict(self, coordinates: slice) -> "Poisson":
        return Poisson(self.rate[coordinates])

    def as_scipy(self) -> Any:
        return scipy.stats.poisson(np.asarray(self.rate))

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        rate = lift(self.rate, u.ndim)
        few = xlogy(u, rate) - rate - gammaln(u + 1)
        value = jnp.where(u < _MANY, few, self._log_density_of_many(jnp.maximum(u, _MANY)))
        return jnp.where(u == jnp.round(u), value, -jnp.inf)

    def _log_density_of_many(self, u: Array) -> Array:
        """By Stirling's series around the mean, without the cancellation of large terms."""
        rate = lift(self.rate, u.ndim)
        excess = (u - rate) / rate
        deviance = rate * ((1 + excess) * jnp.log1p(excess) - excess)
        series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / u**2) / u**2) / u**2) / u
        return -deviance - 0.5 * jnp.log(2 * pi * u) - series


class Empirical(Measure):
    """Atoms at the rows of data (n, d), with equal weights or weights of your own (summing to 1).

    In d > 1 only the first coordinate of a uniform point chooses the row (rows are ordered by their
    first column), so low-discrepancy points bring little there.

    >>> Empirical([3.0, 1.0]).from_uniform(jnp.array([[0.2], [0.9]])).ravel()
    Array([1., 3.], dtype=float64)
    """

    data: Float[Array, "n d"]
    weights: Float[Array, " n"]

    def __init__(self, data: Any, weights: Any = None):
        rows = as_rows("data", data)
        if weights is None:
            weights = jnp.full(rows.shape[0], 1 / rows.shape[0])
        probabilities = as_probabilities(as_weights("weights", weights, rows))
        order = jnp.argsort(rows[:, 0])
        self.data, self.weights = rows[order], probabilities[order]

    def __repr__(self) -> str:
        atoms, dim = self.data.shape
        return f"Empirical({count(atoms, 'atom')} in {count(dim, 'dimension')})"

    @property
    def dim(self) -> int:
        return self.data.shape[1]

    @property
    def support(self) -> tuple[Array, Array]:
        return self.data.min(0), self.data.max(0)

    def at_levels(self, v: Array) -> Array:
        edges = jnp.cumsum(self.weights)
        index = jnp.searchsorted(edges, v[..., 0] * edges[-1])
        return self.data[jnp.minimum(index, len(self.weights) - 1)]

    def log_density(self, u: Any) -> Array:
        u = as_coordinates("u", u, self.dim)
        same = (u[..., None, :] == lift(self.data, u.ndim + 1)).all(-1)
        logarithms = lift(jnp.log(self.weights), u.ndim)
        return logsumexp(jnp.where(same, logarithms, -jnp.inf), axis=-1)


def as_probabilities(weights: Array) -> Array:
    """Weights that are not negative and sum to one."""
    if not is_traced(weights):
        total, least = float(weights.sum()), float(weights.min(initial=0.0))
        if least < 0:
            raise ValueError(f"weights must be at least 0, got {least}; they are probabilities")
        if abs(total - 1) > 1e-8:
            raise ValueError(f"weights must sum to 1, not {total}; divide them by their sum")
    return weights
