"""The regularised inverse covariance of the features, and what it makes of theta and mass.

With J = [c ∂μ/∂theta, μ], W = (C + λ diag C)⁻¹ and B = (JᵀWJ)⁻¹JᵀW, the estimate moves with data as
B f(x): the regression of a parameter's score on the features. A larger λ, or a coarser lengthscale,
is chosen where half of the simulations say so of a B that is fitted to the other half.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from owlfi._tools.covariances import take_out_units
from owlfi.inference.efficient.features import SCALES, Features
from owlfi.inference.efficient.moments import Moments

_PENALTIES = (1e-1, 1e-2, 1e-3)
_FLAT = 1e-10  # of the largest information, in units of the parameters


class Weighting(NamedTuple):
    """W on some of the features."""

    columns: Int[np.ndarray, " k"]
    penalty: float
    units: Float[np.ndarray, " q"]
    """The standard deviations of all features."""

    def invert(self, covariance: Float[np.ndarray, "q q"]) -> Float[np.ndarray, "k k"]:
        """W from the covariance of all features."""
        units = self.units[self.columns]
        part = covariance[np.ix_(self.columns, self.columns)] / units[:, None] / units
        regular = part + self.penalty * np.eye(len(units))
        return np.linalg.inv(regular) / units[:, None] / units


def choose_weighting(
    features: Features, moments: Moments, mass: float, widths: Float[np.ndarray, " p"]
) -> Weighting | None:
    """The one with the smallest predicted errors, in widths of the prior.

    None where parameters are not told apart.
    """
    variances = np.diagonal(moments.covariances.mean(0))
    units = np.sqrt(np.where(variances > 1e-24, variances, 1.0))
    best: tuple[float, Weighting] | None = None
    for scale in range(len(SCALES)):
        for penalty in _PENALTIES:
            candidate = Weighting(features.choose(scale), penalty, units)
            covariance = cross_covariance(candidate, moments, mass)
            if covariance is None:
                continue
            size = float((np.sqrt(np.diagonal(covariance)[:-1]) / widths).mean())
            if np.isfinite(size) and (best is None or size < best[0]):
                best = size, candidate
    return None if best is None else best[1]


def cross_covariance(
    weighting: Weighting,
    moments: Moments,
    mass: float,
    spread: Float[np.ndarray, "q q"] | None = None,
) -> Float[np.ndarray, "a a"] | None:
    """Of theta and the mass for one observation: B of each half, as the other half sees it.

    spread: the covariance of the features of an observation; the model's where left out.
    """
    total = np.zeros((moments.slopes.shape[2] + 1,) * 2)
    for own, other in ((0, 1), (1, 0)):
        seen = moments.covariances[other] if spread is None else spread
        part = moments.covariances[own]
        found = solve_weights(weighting.invert(part), _jacobian(weighting, moments, mass, own))
        if found is None:
            return None
        jacobian = _jacobian(weighting, moments, mass, other)
        units = take_out_units(jacobian.T @ weighting.invert(part) @ jacobian)[1]
        turned = units[:, None] * (found @ jacobian) / units
        if np.linalg.cond(turned) > 1 / _FLAT:
            return None
        b = np.linalg.solve(turned, units[:, None] * found) / units[:, None]
        total = total + b @ seen[np.ix_(weighting.columns, weighting.columns)] @ b.T / 2
    return total


def full_weights(
    weighting: Weighting, moments: Moments, mass: float
) -> tuple[Float[np.ndarray, "a k"], Float[np.ndarray, "k k"], Float[np.ndarray, "k a"]] | None:
    """B, W and J from all simulations; None where parameters are not told apart."""
    jacobian = _jacobian(weighting, moments, mass, None)
    w = weighting.invert(moments.covariances.mean(0))
    b = solve_weights(w, jacobian)
    return None if b is None else (b, w, jacobian)


def solve_weights(
    w: Float[np.ndarray, "k k"], jacobian: Float[np.ndarray, "k a"]
) -> Float[np.ndarray, "a k"] | None:
    """B = (JᵀWJ)⁻¹JᵀW."""
    turned = jacobian.T @ w
    information = turned @ jacobian
    units = np.sqrt(np.diagonal(information))
    if not (np.isfinite(units).all() and (units > 0).all()):
        return None
    scaled = information / units[:, None] / units
    if np.linalg.eigvalsh(scaled)[0] < _FLAT:
        return None
    return np.linalg.solve(scaled, turned / units[:, None]) / units[:, None]


def _jacobian(
    weighting: Weighting, moments: Moments, mass: float, half: int | None
) -> Float[np.ndarray, "k a"]:
    slopes = moments.slopes.mean(0) if half is None else moments.slopes[half]
    mean = moments.mean if half is None else moments.means[half::2].mean(0)
    return np.column_stack([mass * slopes, mean])[weighting.columns]
