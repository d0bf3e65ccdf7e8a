"""Means of some functions of a row, in units of the noise that n observations have.

Simulations at all thetas share one design, so that their features have no sampling noise, where
those of the data have. What the data leave open is therefore the noise of their own features.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.kernels import Kernel
from owlfi.problem.problem import Problem
from owlfi.weights.quadrature import Quadrature

_PLACES = 32
_LEAST = 1e-3  # of the largest variance of a combination of features, below which it is left out


class UnadjustableError(ValueError):
    """What is simulated allows no adjustment."""


class AtPlaces(eqx.Module):
    """k(place, ·): its mean over a sample is the mean embedding at each place."""

    data_kernel: Kernel
    places: Float[Array, "l d"]

    def __call__(self, rows: Float[Array, "n d"]) -> Float[Array, "n l"]:
        return self.data_kernel.gram(rows, self.places)


class Features(NamedTuple):
    """q uncorrelated combinations of some functions, with variance 1 over samples of n rows."""

    functions: Callable[[Array], Array]
    """From rows (n, d) to (n, l)."""
    combinations: Float[np.ndarray, "l q"]
    observed: Float[np.ndarray, " q"]

    def of(
        self, y: Float[Array, "t m d"], weights: Float[Array | np.ndarray, "... m"]
    ) -> Float[np.ndarray, "t q"]:
        """Of weighted simulations, as if their weights summed to one.

        Kernels much wider than k see little else of a sample than this sum.
        """
        return np.asarray(mean_each(self.functions, y, _share(weights, y))) @ self.combinations

    def scatter_of(
        self, y: Float[Array, "t m d"], shares: Float[Array | np.ndarray, "... m"]
    ) -> Float[np.ndarray, "t q q"]:
        """The covariance of the features of a row, of each sample.

        shares: as of a `Quadrature`; where some are negative, so may a variance of nearly 0 be.
        """
        scatter = np.asarray(_scatter_each(self.functions, y, _share(shares, y)))
        sizes, axes = np.linalg.eigh(self.combinations.T @ scatter @ self.combinations)
        return (axes * np.maximum(sizes, 0.0)[:, None]) @ axes.swapaxes(1, 2)

    def of_rows(self, y: Float[Array, "m d"]) -> Float[np.ndarray, "m q"]:
        """Of each row."""
        return np.asarray(_apply(self.functions, y)) @ self.combinations


def _share(weights: Float[Array | np.ndarray, "... m"], y: Array) -> Float[Array, "t m"]:
    """Weights of each sample that sum to one."""
    w = np.asarray(weights)
    return as_jax(np.broadcast_to(w / w.sum(-1, keepdims=True), y.shape[:2]))


def choose_features(problem: Problem, samples: Float[Array, "r m d"]) -> Features:
    """The mean embedding at some rows of the model.

    samples: of the model near the data. Features at the observations themselves would lean to where
        these happen to be dense, and be most certain where they are smallest by chance.
    """
    rows = np.asarray(samples).reshape(-1, samples.shape[-1])
    places = as_jax(rows[np.linspace(0, len(rows) - 1, min(len(rows), _PLACES)).astype(int)])
    functions = AtPlaces(problem.data_kernel, places)
    observed = np.asarray(_apply(functions, problem.observed)).mean(0)
    return combine(functions, samples, observed, len(problem.observed))


def combine(
    functions: Callable[[Array], Array],
    samples: Float[Array, "r m d"],
    observed: Float[np.ndarray, " l"],
    n: float,
) -> Features:
    """Combinations of functions in units of their scatter over samples of n rows.

    observed: the mean of the functions over the data.

    Raises UnadjustableError where no function varies.
    """
    sizes, directions = np.linalg.eigh(_scatter(functions, samples))
    if sizes[-1] <= np.finfo(float).eps ** 2:
        raise UnadjustableError(
            f"the {samples.shape[1]} rows simulated at each of the nearest parameters are alike, "
            "so that the noise of the data is not known; take a rule with more points m"
        )
    kept = sizes > _LEAST * sizes[-1]
    combinations = directions[:, kept] / np.sqrt(sizes[kept] / n)
    return Features(functions, combinations, observed @ combinations)


def _scatter(
    functions: Callable[[Array], Array], samples: Float[Array, "r m d"]
) -> Float[np.ndarray, "l l"]:
    """The covariance of the functions of a row, from those of each sample."""
    r, m, d = samples.shape
    rows = np.asarray(_apply(functions, samples.reshape(r * m, d))).reshape(r, m, -1)
    centred = (rows - rows.mean(1, keepdims=True)).reshape(r * m, -1)
    return centred.T @ centred / (r * max(m - 1, 1))


def error_of_design(
    features: Features, k: Kernel, quadrature: Quadrature, y: Float[Array, "m d"]
) -> Float[np.ndarray, " q"]:
    """The variance of each feature over designs, as far as it is known without others.

    That of independent points, or as much of it as the known excess by k is of theirs. Points of
    each theta's own have errors that the regression sees.
    """
    if quadrature.points.ndim > 2:
        return np.zeros(features.combinations.shape[1])
    independent = error_of_independent(features, y)
    if quadrature.excess is None:
        return independent
    gram = np.asarray(k.gram(y, y))
    scatter = (np.diagonal(gram).mean() - gram.mean()) / len(y)
    return independent * min(float(quadrature.excess) / max(scatter, np.finfo(float).tiny), 1.0)


def error_of_independent(features: Features, y: Float[Array, "m d"]) -> Float[np.ndarray, " q"]:
    """The variance of each feature over independent points, as many as there are rows."""
    return features.of_rows(y).var(0) / len(y)


_apply = eqx.filter_jit(lambda functions, rows: functions(rows))


@eqx.filter_jit
def _scatter_each(
    functions: Callable[[Array], Array], y: Float[Array, "t m d"], w: Float[Array, "t m"]
) -> Float[Array, "t l l"]:
    """The covariance over the rows of each sample, by weights that sum to one."""

    def scatter(sample: tuple[Array, Array]) -> Float[Array, "l l"]:
        rows, shares = sample
        found = functions(rows)
        centred = found - (shares @ found)[None]
        degrees = len(rows) / max(len(rows) - 1, 1)  # as of equal ones
        return (centred * shares[:, None]).T @ centred * degrees

    return jax.lax.map(scatter, (y, w))


@eqx.filter_jit
def mean_each(
    functions: Callable[[Array], Array], y: Float[Array, "t m d"], w: Float[Array, "t m"]
) -> Float[Array, "t l"]:
    """The mean of the functions over each weighted sample."""
    return jax.lax.map(lambda pair: pair[1] @ functions(pair[0]), (y, w))
