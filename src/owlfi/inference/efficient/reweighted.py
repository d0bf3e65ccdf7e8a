"""The efficient estimates of other weightings of the data, from that of all of them.

With W and the slopes as they are there: theta moves by B f̄, as far as the features of the weighted
data differ; it is simulated, and further steps take back what the model is not linear in.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import to_real
from owlfi.inference.efficient.features import mean_features
from owlfi.inference.efficient.free_mass import Balance, Place, move, move_theta
from owlfi.inference.efficient.moments import Model, Thinned
from owlfi.inference.efficient.weighting import full_weights
from owlfi.inference.search.newton import Minimum
from owlfi.problem.problem import Problem

_STEPS = 6  # that are simulated, at most
_SMALL = 0.3  # standard errors of a step, after which another would hardly move theta


class Reweighted(NamedTuple):
    """The estimate of all data, where others begin."""

    problem: Problem
    balance: Balance

    @property
    def theta(self) -> Float[np.ndarray, " p"]:
        return self.balance.theta

    @property
    def by_designs(self) -> Float[np.ndarray, "p p"]:
        """The covariance of theta over designs."""
        return self.balance.by_designs[:-1, :-1]

    @property
    def idle(self) -> Bool[np.ndarray, " p"]:
        """None: a parameter that changes nothing has no efficient estimate."""
        return np.zeros(len(self.theta), bool)

    @property
    def flat(self) -> Bool[np.ndarray, " p"]:
        """None either."""
        return self.idle

    @property
    def fitted(self) -> int:
        """How many numbers are fitted, the mass among them."""
        return len(self.theta) + 1

    def refit_each(
        self, observed: Float[Array, "b n d"] | None, shares: Float[Array, "b n"]
    ) -> Minimum:
        """The estimate of each weighting, of the observations that fit."""
        assert observed is None, "rows that are no observations have no share of the mass"
        at = self.balance
        kept = np.asarray(shares) * at.kept
        kept /= kept.sum(1, keepdims=True)
        means = mean_features(at.model.features, self.problem.observed, as_jax(kept))
        sought = np.asarray(means) - np.asarray(at.data.mean) + at.mass * at.mean
        weights = full_weights(at.weighting, at.moments, at.mass)
        assert weights is not None  # the estimate was made with them
        v = to_real(as_jax(at.theta), self.problem.prior.bounds)
        near, looked = at.model.thin(v, at.mean)
        found = [self._fit(near, mean, weights[0]) for mean in sought]
        theta, calls, settled = (as_jax(np.stack(part)) for part in zip(*found, strict=True))
        calls = calls.at[0].add(looked)
        none = jnp.zeros(len(theta))
        return Minimum(theta, none, calls, settled, theta[:, None], none[:, None])

    def _fit(
        self,
        model: Model | Thinned,
        mean: Float[np.ndarray, " q"],
        weights: Float[np.ndarray, "a k"],
    ) -> tuple[Float[np.ndarray, " p"], int, bool]:
        """Where c μ(theta) has a mean, the calls, and whether the steps became small."""
        at, ends = self.balance, self.problem.prior.bounds
        columns, units = at.weighting.columns, np.sqrt(np.diagonal(at.errors)[:-1])
        place, calls, small = Place(at.theta, at.mass, at.mean), 0, False
        step, theta = weights @ place.rest(mean)[columns], at.theta
        for _ in range(_STEPS):
            place, spent = move(model, place, step, ends)
            step, calls = weights @ place.rest(mean)[columns], calls + spent
            theta = move_theta(place.theta, step[:-1], ends)[0]
            small = bool((np.abs(theta - place.theta) < _SMALL * units).all())  # not where NaN
            if small:
                break
        return theta, calls, small
