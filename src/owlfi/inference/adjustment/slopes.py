"""What slopes of features owe to single simulations, or to the choice of a design.

The same points stand behind the simulations at all thetas, so that an error of theirs that grows
with theta looks to a regression like what theta does. The scatter of slopes over points, or over
designs where there are some, says how much of them is chance: steps of theta count by that less.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from owlfi.inference.adjustment.cloud import Cloud
from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.polynomial import Polynomial, terms
from owlfi.problem.simulations import Simulations

_LARGEST = 2**18  # rows of simulations whose features are held at once
_FEWEST_POINTS = 32
_LEAST_SHARE = 0.1  # of a slope, that is taken for its own


class Scatter(eqx.Module):
    """How far slopes owe to what was drawn."""

    @abc.abstractmethod
    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        """Parts whose squares sum to the covariance of the slopes by ξ at one place."""


class OverPoints(Scatter):
    """Over the points of the design that all draws share."""

    features: Float[np.ndarray, "n k q"]
    """Of the simulations at each draw, on some of the points."""
    known: Float[np.ndarray, "k p q"]
    """Slopes by v of the simulations, whose mean is known from other designs."""
    variance: float
    """Of the mean of the design, where single points have variance 1."""

    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        each = _slope_of_draws(cloud, at, regression)
        found = np.einsum("pn,nkq->kpq", each, self.features[: len(cloud.xi)])
        left = found - cloud.root.T @ self.known
        return (left - left.mean(0)) * (self.variance / len(left)) ** 0.5


class OverDesigns(Scatter):
    """Over designs of which the mean is taken."""

    slopes: Float[np.ndarray, "k p q"]
    """By v."""

    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        k = len(self.slopes)
        return cloud.root.T @ (self.slopes - self.slopes.mean(0)) / (k * (k - 1)) ** 0.5


class Both(Scatter):
    """Independent of each other."""

    first: Scatter
    second: Scatter

    def apart(
        self, cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
    ) -> Float[np.ndarray, "k p q"]:
        parts = (each.apart(cloud, at, regression) for each in (self.first, self.second))
        return np.concatenate(list(parts))


class Slope(NamedTuple):
    """How far the slope of some features by ξ can be trusted."""

    told: Float[np.ndarray, "p p"]
    """What n observations tell of ξ, as far as the slope is its own."""
    shrink: Float[np.ndarray, "p p"]
    """The part of a step along ξ, by which the features move as much as they do on average."""
    doubt: float
    """The standard deviation of the log determinant of what they tell."""


def gather_points(
    features: Features,
    runs: Simulations,
    error: float,
    ends: Float[Array, "e m d"] | None = None,
    root: Float[np.ndarray, "p p"] | None = None,
) -> OverPoints:
    """Of nothing where thetas have points of their own, whose errors a regression sees.

    error: the variance of the design's means, in units of that of as many independent points.
    ends, root: simulations on the design at both ends of some axes, between which slopes are known.
    """
    t, m, d = runs.y.shape
    p, shared = runs.thetas.shape[1], runs.quadrature.points.ndim == 2
    some = np.linspace(0, m - 1, min(m, max(_FEWEST_POINTS, _LARGEST // t))).astype(int)

    def of_rows(y: Float[Array, "t m d"]) -> Float[np.ndarray, "t k q"]:
        return features.of_rows(y[:, some].reshape(-1, d)).reshape(len(y), len(some), -1)

    found = of_rows(runs.y)
    known = np.zeros((len(some), p, found.shape[-1]))
    if ends is not None and root is not None:
        known = slopes_between(of_rows(ends).transpose(1, 0, 2), root)
    return OverPoints(features=found, known=known, variance=shared * error / m)


def slopes_between(
    ends: Float[np.ndarray, "k e q"], root: Float[np.ndarray, "p p"]
) -> Float[np.ndarray, "k p q"]:
    """On the real line, of features at both ends of the axes of a root, first those above."""
    above, below = np.split(ends, 2, axis=1)
    return np.linalg.solve(root.T, (above - below) / 2)


def assess_slope(
    slope: Float[np.ndarray, "p r"],
    covariance: Float[np.ndarray, "r r"],
    apart: Float[np.ndarray, "k p r"],
) -> Slope:
    """Of combinations of features at one place.

    covariance: what n observations leave open of the combinations there; apart: as of `Scatter`.
    """
    told = slope @ np.linalg.solve(covariance, slope.T)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), apart.transpose(0, 2, 1))
    chance = np.einsum("krp,krq->pq", whitened, whitened)
    least = 1e-9 * np.trace(told + chance) + np.finfo(float).tiny
    told = told + least * np.eye(len(told))  # where nothing is told, too
    root = np.linalg.cholesky(told)
    sizes, axes = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, chance).T))
    own = np.maximum(1 - sizes, _LEAST_SHARE)
    shrink = np.linalg.solve(root.T, (axes * own) @ axes.T @ root.T)
    moved = np.einsum("kpr,rq->kpq", apart, np.linalg.solve(covariance, slope.T))
    moves = 2 * np.trace(np.linalg.solve(told, moved), axis1=1, axis2=2)
    doubt = float(np.sqrt(np.sum(moves**2)))
    return Slope(shrink.T @ told @ shrink, shrink, doubt)


def _slope_of_draws(
    cloud: Cloud, at: Float[np.ndarray, " p"], regression: Polynomial
) -> Float[np.ndarray, "p n"]:
    """How much the value at each draw adds to the slope of a regression at one place."""
    basis = np.sqrt(cloud.weights)[:, None] * terms(cloud.xi, regression.degree)
    by_term = regression.steps(at) @ np.linalg.solve(regression.root, np.eye(len(regression.root)))
    return by_term @ np.linalg.solve(regression.root.T, basis.T) * np.sqrt(cloud.weights)
