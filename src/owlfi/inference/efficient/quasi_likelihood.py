"""The efficient discrepancy around its estimate as a function of theta, for draws of a posterior.

With W as it is at the estimate, exp(-n/2 Q(theta)) is about as wide as the likelihood (Chernozhukov
and Hong 2003).
"""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import Ends, to_real
from owlfi.inference.efficient.free_mass import Balance
from owlfi.inference.efficient.moments import Thinned
from owlfi.inference.efficient.weighting import full_weights


class QuasiLikelihood(eqx.Module):
    """Q = (f̄ - c μ(v))ᵀ W (f̄ - c μ(v)) at the best mass c, at any place v on the real line."""

    model: Thinned
    columns: Int[Array, " k"]
    weights: Float[Array, "k k"]
    mean: Float[Array, " k"]
    """Of the features of the observations that fit."""
    beta: Float[Array, ""]
    """At which exp(-beta Q) is as wide as the likelihood."""

    def at(self, v: Float[Array, " p"]) -> Float[Array, ""]:
        """The value at a place."""
        mean = self.model.trace_mean(v)[self.columns]
        turned = self.weights @ mean
        rest = self.mean - (turned @ self.mean) / (turned @ mean) * mean
        return rest @ (self.weights @ rest)


def quasi_likelihood(found: Balance, ends: Ends) -> tuple[QuasiLikelihood, int]:
    """Around an estimate of a smooth simulator, and the calls it took."""
    weights = full_weights(found.weighting, found.moments, found.mass)
    assert weights is not None  # the estimate was made with them
    near, calls = found.model.thin(to_real(as_jax(found.theta), ends), found.mean)
    assert isinstance(near, Thinned), "rough simulators have no slopes to follow"
    columns = found.weighting.columns
    parts = columns, weights[1], np.asarray(found.data.mean)[columns], found.kept.sum() / 2
    return QuasiLikelihood(near, *map(as_jax, parts)), calls
