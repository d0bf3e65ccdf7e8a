"""Results that say how probable each value of a parameter is."""

import abc
from math import inf
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, as_kind
from owlfi._tools.keys import split_key
from owlfi.problem.checks import as_theta
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.results.result import Result


class Distribution(Result):
    """What is known of parameters: an estimate with its errors, or draws.

    Calibration, reports and corrections need no more than this.
    """

    @property
    @abc.abstractmethod
    def center(self) -> Float[np.ndarray, " p"]:
        """The estimate, or the mean."""

    @property
    @abc.abstractmethod
    def spread(self) -> Float[np.ndarray, " p"]:
        """Its standard error, or the standard deviation."""

    @property
    def effective_draws(self) -> float:
        """How many independent draws stand for the distribution; infinite for a formula."""
        return inf

    @abc.abstractmethod
    def level_of(self, theta: Any) -> Float[np.ndarray, " p"]:
        """The probability of smaller values than theta (p,), parameter by parameter."""

    @abc.abstractmethod
    def interval(self, level: Any = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the interval that holds each parameter with this probability."""

    @abc.abstractmethod
    def resample(self, key: Key[Array, ""], n: int) -> Float[Array | np.ndarray, "n p"]:
        """n draws of equal weight, of all parameters together."""

    def predictive(
        self, key: Key[Array, ""], simulator: Simulator, samples: int, rows: int
    ) -> Float[Array, "samples rows d"]:
        """Data sets of `rows` rows, each simulated at a draw."""
        theta_key, noise_key = split_key(key)
        keys = split_key(noise_key, as_count("samples", samples))
        rows, measure = as_count("rows", rows), as_simulator(simulator).measure
        pairs = zip(self.resample(theta_key, samples), keys, strict=True)
        return jnp.stack([simulator(t, measure.sample(k, rows)) for t, k in pairs])

    def scores_of(self, theta: Any) -> Float[np.ndarray, " p"]:
        """How many standard deviations theta (p,) lies above the center."""
        away = np.asarray(as_theta(theta, self.names)) - self.center
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(away == 0, 0.0, away / self._sides(away))

    def at_scores(self, scores: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The values that lie so many standard deviations above the center."""
        with np.errstate(invalid="ignore"):  # none of an infinite one
            moved = np.where(scores == 0, 0.0, scores * self._sides(scores))
        return self.center + moved

    def _sides(self, direction: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The standard deviation of each parameter to the side that a direction points to."""
        return self.spread


def as_distribution(
    name: str, value: Any, parameters: tuple[str, ...], problem: str = "this problem"
) -> Distribution:
    """Raises ValueError for anything else, and for a result of other parameters."""
    as_kind(name, value, Distribution, "an Estimate or a Posterior")
    if value.names != parameters:
        raise ValueError(
            f"{name} has the parameters {value.names}, not {parameters}; give a result of {problem}"
        )
    return value
