"""Measures that are finite sums of atoms, or nearly so."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.special import gammaln, logsumexp, xlogy
from jaxtyping import Array, Float

from owlfi.checks import as_rows, as_weights, concrete, is_traced, positive
from owlfi.measures.base import Family, Measure, as_coordinates, coordinates

_NEGLIGIBLE = 1e-30


class DiscreteFamily(Family):
    """Independent coordinates, each on whole numbers."""

    def atoms(self) -> Float[Array, "a s"]:
        """Whole numbers that hold all the probability of each coordinate but 1e-30."""
        frozen = concrete(self).frozen()
        low, middle = np.atleast_1d(frozen.ppf(_NEGLIGIBLE)), np.atleast_1d(frozen.median())
        reach = 1.0 + middle - low
        while np.any(frozen.sf(middle + reach) > _NEGLIGIBLE):  # scipy's isf stops at 1e-16
            reach = reach * 1.5
        count = (middle - low + np.ceil(reach)).max() + 1
        with jax.ensure_compile_time_eval():
            return jnp.asarray(low + np.arange(count)[:, None])

    def probabilities(self, atoms: Float[Array, "a s"]) -> Float[Array, "a s"]:
        """The probability of each atom."""
        low, high = self.support
        return jnp.exp(self.coordinate_log_density(atoms, atoms - low, high - atoms))

    @abc.abstractmethod
    def frozen(self) -> Any: ...


class Poisson(DiscreteFamily):
    """The Poisson distribution with mean rate.

    >>> Poisson(rate=2.0).log_density([0.0])
    Array(-2., dtype=float64)
    """

    rate: Float[Array, " s"]

    def __init__(self, rate: Any = 1.0, dim: int | None = None):
        (self.rate,) = coordinates(dim, rate=positive("rate", rate))

    @property
    def dim(self) -> int:
        return self.rate.shape[0]

    @property
    def support(self) -> tuple[Array, Array]:
        return jnp.zeros_like(self.rate), jnp.full_like(self.rate, jnp.inf)

    def restrict(self, coordinates: slice) -> "Poisson":
        return Poisson(self.rate[coordinates])

    def frozen(self) -> Any:
        return scipy.stats.poisson(np.asarray(self.rate))

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        whole = u == jnp.round(u)
        return jnp.where(whole, xlogy(u, self.rate) - self.rate - gammaln(u + 1), -jnp.inf)


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

    @property
    def dim(self) -> int:
        return self.data.shape[1]

    @property
    def support(self) -> tuple[Array, Array]:
        return self.data.min(0), self.data.max(0)

    def from_uniform(self, v: Array) -> Array:
        edges = jnp.cumsum(self.weights)
        index = jnp.searchsorted(edges, v[..., 0] * edges[-1])
        return self.data[jnp.minimum(index, len(self.weights) - 1)]

    def log_density(self, u: Array) -> Array:
        same = (as_coordinates("u", u, self.dim)[..., None, :] == self.data).all(-1)
        return logsumexp(jnp.where(same, jnp.log(self.weights), -jnp.inf), axis=-1)


def as_probabilities(weights: Array) -> Array:
    """Weights that are not negative and sum to one."""
    if not is_traced(weights):
        total, least = float(weights.sum()), float(weights.min(initial=0.0))
        if least < 0:
            raise ValueError(f"weights must be at least 0, got {least}; they are probabilities")
        if abs(total - 1) > 1e-8:
            raise ValueError(f"weights must sum to 1, not {total}; divide them by their sum")
    return weights
