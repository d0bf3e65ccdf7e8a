"""The efficient discrepancy as a distance of simulations from the data, for ABC.

n (Q(theta) - Q at the estimate) is twice the logarithm of a ratio of quasi-likelihoods, and about
chi-squared with p degrees of freedom at the truth: distances have a unit.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import chdtri

from owlfi._tools.arrays import as_jax
from owlfi.inference.adjustment.features import Features as Combined
from owlfi.inference.adjustment.features import combine, mean_each
from owlfi.inference.efficient.features import Features
from owlfi.inference.efficient.free_mass import Balance
from owlfi.inference.efficient.weighting import full_weights
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations
from owlfi.weights.quadrature import Quadrature

_SEEN = 0.9  # of the distance of runs that have nothing in common with the data


class Columns(eqx.Module):
    """Some of the features of each row."""

    features: Features
    columns: Int[Array, " k"]

    def __call__(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        return self.features(rows)[0][:, self.columns]


class EfficientDistance(NamedTuple):
    """From the observations that fit, around their estimate."""

    functions: Columns
    weights: Float[np.ndarray, "k k"]
    observed: Float[np.ndarray, " k"]
    """The mean of the features of the observations that fit."""
    mass: float
    """At the estimate."""
    kept: float
    """How many observations fit."""
    p: int
    mean: Float[np.ndarray, " k"]
    """μ at the estimate, by all of its designs."""
    own: Float[np.ndarray, "m k"]
    """The features of rows there, on the points of the runs."""
    least: float
    """The discrepancy at the estimate."""

    def measure(self, runs: Simulations) -> Float[np.ndarray, " t"]:
        """Of each theta, +∞ where a simulation is NaN or infinite; below 0 if it fits better."""
        fine = np.isfinite(np.asarray(runs.y)).all((1, 2))
        found = np.full(len(fine), np.inf)
        if fine.any():
            near = runs if fine.all() else runs.at(fine)
            away = compare(self.weights, self.observed, self._means(near)) - self.least
            found[fine] = self.kept * away
        return found

    def _means(self, runs: Simulations) -> Float[np.ndarray, "t k"]:
        """μ at each theta: a design tells best how it differs from that at the estimate."""
        shares = np.broadcast_to(np.asarray(runs.quadrature.weights), runs.y.shape[:2])
        there = np.asarray(mean_each(self.functions, runs.y, as_jax(shares)))
        return self.mean + there - shares @ self.own

    def sees(self, runs: Simulations) -> Bool[np.ndarray, " t"]:
        """Whether the features of runs are not all 0, as they are far from the estimate."""
        farthest = self.kept * (self.observed @ self.weights @ self.observed - self.least)
        return self.measure(runs) < _SEEN * farthest

    def choose(self, samples: Float[Array, "r m d"]) -> Combined:
        """What an adjustment compares; the design's error is its own business."""
        return combine(self.functions, samples, self.observed / self.mass, self.kept)

    def explained(self, share: float) -> float:
        """The distance that a share of samples of a true model do not exceed."""
        return float(chdtri(self.p, 1 - share))


def distance_from(
    problem: Problem, found: Balance, quadrature: Quadrature
) -> tuple[EfficientDistance, int]:
    """The distance of runs on one design, by an efficient estimate, and the calls of it."""
    weights = full_weights(found.weighting, found.moments, found.mass)
    assert weights is not None  # the estimate was made with them
    columns = found.weighting.columns
    functions = Columns(found.model.features, as_jax(columns))
    observed, mean = np.asarray(found.data.mean)[columns], found.mean[columns]
    least = float(compare(weights[1], observed, mean[None])[0])
    y = problem.simulator.attempt(as_jax(found.theta), quadrature.points, problem.observed.shape[1])
    own = np.asarray(functions(y))
    own = np.where(np.isfinite(own), own, mean)  # rows that failed say nothing
    parts = observed, found.mass, float(found.kept.sum()), len(found.theta), mean, own, least
    return EfficientDistance(functions, weights[1], *parts), len(y)


def compare(
    weights: Float[np.ndarray, "k k"],
    observed: Float[np.ndarray, " k"],
    means: Float[np.ndarray, "t k"],
) -> Float[np.ndarray, " t"]:
    """Q = (f̄ - c μ)ᵀ W (f̄ - c μ) at the best mass c, for each mean μ.

    >>> compare(np.eye(2), np.array([1.0, 1.0]), np.array([[2.0, 2.0], [1.0, 0.0]]))
    array([0., 1.])
    """
    turned = means @ weights
    best = (turned @ observed) / np.maximum((turned * means).sum(1), np.finfo(float).tiny)
    rest = observed - best[:, None] * means
    return ((rest @ weights) * rest).sum(1)
