"""What slopes of features owe to single simulations.

The same points stand behind the simulations at all thetas, so that an error of theirs that grows
with theta looks to a regression like what theta does. A slope is a weighted sum over the points,
whose scatter says how much of it is chance: squares of slopes are too large by as much.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.polynomial import Polynomial, terms
from owlfi.problem.simulations import Simulations

_LARGEST = 2**18  # rows of simulations whose features are held at once
_FEWEST_POINTS = 32
_LEAST_SHARE = 0.1  # of a slope, that is taken for its own


class Points(NamedTuple):
    """The features of each simulation at each draw, of some points of the design that all share."""

    features: Float[np.ndarray, "n m q"]
    variance: float
    """Of a mean over the design, where single points have variance 1."""


class Slope(NamedTuple):
    """The slope of some features by ξ, and how far it can be trusted."""

    told: Float[np.ndarray, "p p"]
    """What n observations tell of ξ, as far as the slope is its own."""
    shrink: Float[np.ndarray, "p p"]
    """The part of a step along ξ, by which the features move as much as they do on average."""
    doubt: float
    """The standard deviation of the log determinant of what they tell."""


def gather_points(features: Features, runs: Simulations, error: float) -> Points | None:
    """None where thetas have points of their own, whose errors a regression sees.

    error: the variance of the design's means, in units of that of as many independent points.
    """
    if runs.quadrature.points.ndim > 2:
        return None
    t, m, d = runs.y.shape
    some = np.linspace(0, m - 1, min(m, max(_FEWEST_POINTS, _LARGEST // t))).astype(int)
    found = features.of_rows(runs.y[:, some].reshape(-1, d)).reshape(t, len(some), -1)
    return Points(found, error / m)


def assess_slope(
    xi: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, " n"],
    at: Float[np.ndarray, " p"],
    regression: Polynomial,
    directions: Float[np.ndarray, "q r"],
    covariance: Float[np.ndarray, "r r"],
    points: Points | None,
) -> Slope:
    """Of combinations of features at one place.

    covariance: what n observations leave open of the combinations there.
    """
    slope = regression.slope(at)  # (p, r)
    told = slope @ np.linalg.solve(covariance, slope.T)
    if points is None:
        return Slope(told, np.eye(len(told)), 0.0)
    each = _slope_of_draws(xi, weights, at, regression)
    found = np.einsum("pn,nmq->mpq", each, points.features[: len(xi)]) @ directions
    apart = found - found.mean(0)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), apart.transpose(0, 2, 1))
    chance = points.variance * np.einsum("mrp,mrq->pq", whitened, whitened) / len(found)
    least = 1e-9 * np.trace(told + chance) + np.finfo(float).tiny
    told = told + least * np.eye(len(told))  # where nothing is told, too
    root = np.linalg.cholesky(told)
    sizes, axes = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, chance).T))
    own = np.maximum(1 - sizes, _LEAST_SHARE)
    shrink = np.linalg.solve(root.T, (axes * own) @ axes.T @ root.T)
    moved = np.einsum("mpr,rq->mpq", apart, np.linalg.solve(covariance, slope.T))
    moves = 2 * np.trace(np.linalg.solve(told, moved), axis1=1, axis2=2)
    doubt = float(np.sqrt(points.variance * np.mean(moves**2)))
    return Slope(shrink.T @ told @ shrink, shrink, doubt)


def _slope_of_draws(
    xi: np.ndarray, weights: np.ndarray, at: np.ndarray, regression: Polynomial
) -> Float[np.ndarray, "p n"]:
    """How much the value at each draw adds to the slope of a regression at one place."""
    basis = np.sqrt(weights)[:, None] * terms(xi, regression.degree)
    by_term = regression.steps(at) @ np.linalg.solve(regression.root, np.eye(len(regression.root)))
    return by_term @ np.linalg.solve(regression.root.T, basis.T) * np.sqrt(weights)
