"""The mean embedding at some places, in units of the noise that n observations have.

Simulations at all thetas share one design, so that their features have no sampling noise, where
those of the data have. What the data leave open is therefore the noise of their own features.
"""

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


class Features(NamedTuple):
    """q uncorrelated combinations of k(place, ·), with variance 1 over samples of n rows."""

    data_kernel: Kernel
    places: Float[Array, "l d"]
    combinations: Float[np.ndarray, "l q"]
    observed: Float[np.ndarray, " q"]

    def of(
        self, y: Float[Array, "t m d"], weights: Float[Array | np.ndarray, "... m"]
    ) -> Float[np.ndarray, "t q"]:
        """Of weighted simulations, as if their weights summed to one.

        Kernels much wider than k see little else of a sample than this sum.
        """
        w = np.asarray(weights)
        shares = as_jax(np.broadcast_to(w / w.sum(-1, keepdims=True), y.shape[:2]))
        return np.asarray(_embed_each(self.data_kernel, self.places, y, shares)) @ self.combinations

    def scatter_of(self, y: Float[Array, "t m d"]) -> Float[np.ndarray, "t q q"]:
        """The covariance of the features of a row, of each sample."""
        scatter = np.asarray(_scatter_each(self.data_kernel, self.places, y))
        return self.combinations.T @ scatter @ self.combinations

    def of_rows(self, y: Float[Array, "m d"]) -> Float[np.ndarray, "m q"]:
        """Of each row."""
        return np.asarray(self.data_kernel.gram(y, self.places)) @ self.combinations


def choose_features(problem: Problem, samples: Float[Array, "r m d"]) -> Features:
    """At some rows of the model, in units of their scatter.

    samples: of the model near the data. Features at the observations themselves would lean to where
        these happen to be dense, and be most certain where they are smallest by chance.
    """
    x, n, k = problem.observed, len(problem.observed), problem.data_kernel
    rows = np.asarray(samples).reshape(-1, samples.shape[-1])
    places = as_jax(rows[np.linspace(0, len(rows) - 1, min(len(rows), _PLACES)).astype(int)])
    sizes, directions = np.linalg.eigh(_scatter(k, places, samples))
    kept = sizes > _LEAST * sizes[-1]
    combinations = directions[:, kept] / np.sqrt(sizes[kept] / n)
    return Features(k, places, combinations, np.asarray(_gram(k, x, places)).mean(0) @ combinations)


def _scatter(
    k: Kernel, places: Float[Array, "l d"], samples: Float[Array, "r m d"]
) -> Float[np.ndarray, "l l"]:
    """The covariance of the features of a row, from those of each sample."""
    r, m, d = samples.shape
    rows = np.asarray(_gram(k, samples.reshape(r * m, d), places)).reshape(r, m, -1)
    centred = (rows - rows.mean(1, keepdims=True)).reshape(r * m, -1)
    return centred.T @ centred / (r * max(m - 1, 1))


def error_of_design(
    features: Features, quadrature: Quadrature, y: Float[Array, "m d"]
) -> Float[np.ndarray, " q"]:
    """The variance of each feature over designs, as far as it is known without others.

    That of independent points, or as much of it as the known excess is of theirs. Points of each
    theta's own have errors that the regression sees.
    """
    if quadrature.points.ndim > 2:
        return np.zeros(features.combinations.shape[1])
    independent = features.of_rows(y).var(0) / len(y)
    if quadrature.excess is None:
        return independent
    gram = np.asarray(features.data_kernel.gram(y, y))
    scatter = (np.diagonal(gram).mean() - gram.mean()) / len(y)
    return independent * min(float(quadrature.excess) / max(scatter, np.finfo(float).tiny), 1.0)


_gram = eqx.filter_jit(lambda k, x, places: k.gram(x, places))


@eqx.filter_jit
def _scatter_each(
    k: Kernel, places: Float[Array, "l d"], y: Float[Array, "t m d"]
) -> Float[Array, "t l l"]:
    """The covariance over the rows of each sample of k at some places."""

    def scatter(rows: Float[Array, "m d"]) -> Float[Array, "l l"]:
        features = k.gram(rows, places)
        centred = features - features.mean(0, keepdims=True)
        return centred.T @ centred / max(len(rows) - 1, 1)

    return jax.lax.map(scatter, y)


@eqx.filter_jit
def _embed_each(
    k: Kernel, places: Float[Array, "l d"], y: Float[Array, "t m d"], w: Float[Array, "t m"]
) -> Float[Array, "t l"]:
    """The mean embedding of each weighted sample at some places."""
    return jax.lax.map(lambda pair: k.row_sums(places, pair[0], pair[1]), (y, w))
