"""What a problem of the trust experiment is: data, how they are fitted, and the best answer."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.experiments.likelihoods import LogLikelihood, maximum_likelihood
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import OptimallyWeighted, Rule
from owlfi.problem.simulator import Simulator

Reference = Callable[[Prior, Array, Array], Float[np.ndarray, " p"]]
"""An estimate by the likelihood from the prior, the truth and the rows."""


class Case(NamedTuple):
    """A simulator at its truth, the number of rows, and how they are fitted."""

    make: Callable[[], Simulator]
    theta: tuple[float, ...]
    n: int
    rule: Rule = OptimallyWeighted(m=128)
    whiten: bool = False
    summaries: Callable[[Any], Any] | None = None
    reference: Reference | None = None
    data_sets: Fraction = Fraction(1)
    """In each repeat."""
    doubt: str = ""
    """What a good method warns of, known from the problem alone; nothing where it can be solved."""

    def numbers(self, repeat: int) -> range:
        """The data sets of one repeat: more repeats leave those of the first as they are."""
        return range(int(self.data_sets * repeat), int(self.data_sets * (repeat + 1)))

    def observe(self, key: Key[Array, ""]) -> Float[Array, "n d"]:
        """Rows drawn at the truth."""
        simulator = self.make()
        return simulator.rows(jnp.array(self.theta), simulator.measure.sample(key, self.n))

    def pose(self, x: Float[Array | np.ndarray, "n d"]) -> Problem:
        """What is asked of the rows x."""
        return Problem(self.make(), x, summaries=self.summaries)

    def refer(self, x: Float[Array | np.ndarray, "n d"]) -> list[float] | None:
        """The estimate by the likelihood, where there is one."""
        prior = self.make().prior
        if self.reference is None or prior is None:
            return None
        return self.reference(prior, jnp.array(self.theta), jnp.asarray(x)).tolist()

    def rmse(self, thetas: list[list[float]]) -> float:
        """Of estimates, over the prior's standard deviation, mean over the parameters."""
        prior = self.make().prior
        if prior is None or not thetas:
            return float("nan")
        low, high = (np.asarray(end) for end in prior.bounds)
        errors = (np.array(thetas) - np.array(self.theta)) / ((high - low) / 12**0.5)
        return float(np.sqrt((errors**2).mean(0)).mean())


def make_simulator(generator: Any, noise: Any, *, on_host: bool = False, **prior: Any) -> Simulator:
    """A simulator of the parameters of its prior."""
    return Simulator(generator, noise, list(prior), prior=Prior(**prior), on_host=on_host)


def by_search(log_likelihood: LogLikelihood) -> Reference:
    """The maximum of the likelihood, searched from the truth."""
    return partial(maximum_likelihood, log_likelihood)


def by_formula(estimate: Callable[[np.ndarray], Any]) -> Reference:
    """A maximum with a formula, moved into the ranges of the prior."""

    def refer(prior: Prior, truth: Array, x: Array) -> Float[np.ndarray, " p"]:
        low, high = (np.asarray(end) for end in prior.bounds)
        return np.clip(np.asarray(estimate(np.asarray(x))), low, high)

    return refer
