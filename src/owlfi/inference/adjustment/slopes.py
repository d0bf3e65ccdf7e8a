"""What slopes of features owe to single simulations, or to the choice of a design.

The same points stand behind the simulations at all thetas, so that an error of theirs that grows
with theta looks to a regression like what theta does. The scatter of slopes over points, or over
designs where there are some, says how much of them is chance: their squares are too large by that.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from owlfi.inference.adjustment.cloud import Cloud
from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.polynomial import Polynomial, terms
from owlfi.problem.simulations import Simulations

_LARGEST = 2**18  # rows of simulations whose features are held at once
_FEWEST_POINTS = 32
_LEAST_SHARE = 0.1  # of a slope, that is taken for its own


class Scatter(eqx.Module):
    """Of slopes, over what they are means of."""

    variance: eqx.AbstractVar[float]
    """Of the mean, where single slopes have variance 1."""

    @abc.abstractmethod
    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        """The slopes by ξ at one place, less their mean."""


class OverPoints(Scatter):
    """The features of each simulation at each draw, of some points of the design that all share."""

    features: Float[np.ndarray, "n m q"]
    variance: float

    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        each = _slope_of_draws(cloud, at, regression)
        found = np.einsum("pn,nmq->mpq", each, self.features[: len(cloud.xi)])
        return found - found.mean(0)


class OverDesigns(Scatter):
    """The slopes by v, of each of some designs."""

    slopes: Float[np.ndarray, "k p q"]
    variance: float

    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        return cloud.root.T @ (self.slopes - self.slopes.mean(0))


class Slope(NamedTuple):
    """How far the slope of some features by ξ can be trusted."""

    told: Float[np.ndarray, "p p"]
    """What n observations tell of ξ, as far as the slope is its own."""
    shrink: Float[np.ndarray, "p p"]
    """The part of a step along ξ, by which the features move as much as they do on average."""
    doubt: float
    """The standard deviation of the log determinant of what they tell."""


def gather_points(features: Features, runs: Simulations, error: float) -> OverPoints:
    """Of nothing where thetas have points of their own, whose errors a regression sees.

    error: the variance of the design's means, in units of that of as many independent points.
    """
    if runs.quadrature.points.ndim > 2:
        error = 0.0
    t, m, d = runs.y.shape
    some = np.linspace(0, m - 1, min(m, max(_FEWEST_POINTS, _LARGEST // t))).astype(int)
    found = features.of_rows(runs.y[:, some].reshape(-1, d)).reshape(t, len(some), -1)
    return OverPoints(features=found, variance=error / m)


def assess_slope(
    slope: Float[np.ndarray, "p r"],
    covariance: Float[np.ndarray, "r r"],
    apart: Float[np.ndarray, "k p r"],
    variance: float,
) -> Slope:
    """Of combinations of features at one place.

    covariance: what n observations leave open of the combinations there.
    """
    told = slope @ np.linalg.solve(covariance, slope.T)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), apart.transpose(0, 2, 1))
    chance = variance * np.einsum("krp,krq->pq", whitened, whitened) / max(len(apart), 1)
    least = 1e-9 * np.trace(told + chance) + np.finfo(float).tiny
    told = told + least * np.eye(len(told))  # where nothing is told, too
    root = np.linalg.cholesky(told)
    sizes, axes = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, chance).T))
    own = np.maximum(1 - sizes, _LEAST_SHARE)
    shrink = np.linalg.solve(root.T, (axes * own) @ axes.T @ root.T)
    moved = np.einsum("kpr,rq->kpq", apart, np.linalg.solve(covariance, slope.T))
    moves = 2 * np.trace(np.linalg.solve(told, moved), axis1=1, axis2=2)
    doubt = float(np.sqrt(variance * np.sum(moves**2) / max(len(apart), 1)))
    return Slope(shrink.T @ told @ shrink, shrink, doubt)


def _slope_of_draws(
    cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
) -> Float[np.ndarray, "p n"]:
    """How much the value at each draw adds to the slope of a regression at one place."""
    basis = np.sqrt(cloud.weights)[:, None] * terms(cloud.xi, regression.degree)
    by_term = regression.steps(at) @ np.linalg.solve(regression.root, np.eye(len(regression.root)))
    return by_term @ np.linalg.solve(regression.root.T, basis.T) * np.sqrt(cloud.weights)
