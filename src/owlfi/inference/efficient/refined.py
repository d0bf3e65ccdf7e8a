"""The efficient estimate with what it says of the observations."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.inference.efficient.features import weigh_features
from owlfi.inference.efficient.free_mass import Balance
from owlfi.inference.efficient.misfit import misfit_of
from owlfi.inference.efficient.weighting import full_weights

MISFIT = 1e-3
"""The chance of a difference, below which the model is said not to fit."""
_FEW = 2  # near ones: of 20 that do not fit, 0.2 are said not to by chance
_FAR = 10.0  # times the distance of the farthest simulations; distances are squared


class Refined(NamedTuple):
    """What an estimate shows, and what it was made of."""

    theta: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    mass: float
    mass_error: float
    misfit: float
    left_out: Float[np.ndarray, " n"]
    influence: Float[np.ndarray, "p n"]
    balance: Balance

    @property
    def settled(self) -> bool:
        return self.balance.settled

    def describe(self) -> dict[str, Any]:
        """The fields of an `Estimate`."""
        arrays = {"theta": self.theta, "covariance": self.covariance, "left_out": self.left_out}
        arrays |= {"influence": self.influence, "chances": self.balance.chances}
        numbers = {"mass": self.mass, "mass_error": self.mass_error, "misfit": self.misfit}
        return numbers | {name: as_jax(array) for name, array in arrays.items()}

    @property
    def needs_guard(self) -> bool:
        """Where observations do not fit, others may be hidden among those that seem to.

        Not where those that do not fit are far away, but for a few that chance may have made.
        """
        reach = np.quantile(self.balance.moments.distances, 0.99)
        near = (self.balance.far < _FAR * reach) & (self.left_out > 0)
        return bool(near.sum() > _FEW) or self.misfit < MISFIT


def describe_balance(observed: Float[Array, "n d"], found: Balance) -> Refined | None:
    """None where parameters are not told apart."""
    weights = full_weights(found.weighting, found.moments, found.mass)
    if weights is None:
        return None
    p, kept = len(found.theta), float(found.kept.sum())
    covariance, share = found.errors[:p, :p], kept / len(found.kept)
    return Refined(
        found.theta,
        covariance,
        share * found.mass,
        share * float(np.sqrt(found.errors[p, p])),
        misfit_of(found, weights, kept),
        1.0 - found.kept,
        _influence(observed, found, weights[0][:p]) / np.sqrt(np.diagonal(covariance))[:, None],
        found,
    )


def _influence(
    observed: Float[Array, "n d"], found: Balance, weights: Float[np.ndarray, "p k"]
) -> Float[np.ndarray, "p n"]:
    """B (f(x) - c μ) / n: how far each observation moves theta."""
    b = np.zeros((len(weights), len(found.mean)))
    b[:, found.weighting.columns] = weights
    pulled = np.asarray(weigh_features(found.model.features, observed, as_jax(b)))
    centred = pulled - found.mass * (b @ found.mean)[:, None]
    return centred * found.kept / found.kept.sum()
