"""The four tasks: their data, the simulator with its calls counted, summaries, likelihoods."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from owlfi.experiments import contamination, efficiency
from owlfi.experiments.likelihoods import (
    LogLikelihood,
    g_and_k_log_likelihood,
    moving_average_log_likelihood,
)
from owlfi.experiments.ou_and_ricker import OU_NOISE, ROWS, summarise_counts
from owlfi.problem.problem import Problem
from owlfi.problem.simulator import Simulator

SEED = 0
SHARE = efficiency.SHARE
_OU_DT = 5 / 26
_CHUNK = 10_000  # rows simulated together


class SpentError(Exception):
    """The budget does not do for the next simulation."""


@dataclass(frozen=True)
class Task:
    """A simulator at its truth, and what likelihood-free methods compare.

    observe: rows (n, d) of a key, the first share of them strays.
    summarise: a data set (..., rows, d) to its summaries (..., q).
    describe: rows (n, d) to what a method for single rows looks at.
    """

    name: str
    make: Callable[[], Simulator]
    truth: tuple[float, ...]
    n: int
    observe: Callable[[Any, float], Any]
    summarise: Callable[[np.ndarray], np.ndarray]
    summaries: Callable[[Any], Any] | None = None
    describe: Callable[[np.ndarray], np.ndarray] = np.asarray
    log_likelihood: LogLikelihood | None = None

    @cached_property
    def simulator(self) -> Simulator:
        return self.make()

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the uniform prior."""
        assert self.simulator.prior is not None
        low, high = self.simulator.prior.bounds
        return np.asarray(low), np.asarray(high)

    def data(self, number: int, spoilt: bool) -> np.ndarray:
        """A data set; spoilt and clean ones of a number have the other rows in common."""
        key = jax.random.fold_in(jax.random.key(SEED), crc32(self.name.encode()))
        return np.asarray(self.observe(jax.random.fold_in(key, number), SHARE * spoilt))

    def pose(self, x: np.ndarray) -> Problem:
        """The same as owlfi is asked."""
        return Problem(self.simulator, x, summaries=self.summaries)

    @cached_property
    def _simulate_each(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        if not self.simulator.on_host:
            return jax.jit(jax.vmap(self.simulator.generator))
        generate = self.simulator.generator
        return lambda thetas, u: np.stack([generate(*pair) for pair in zip(thetas, u, strict=True)])

    def simulate(self, thetas: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Rows at each of thetas (k, p): (k, rows, d)."""
        measure, size = self.simulator.measure, max(1, _CHUNK // rows)
        parts = []
        for start in range(0, len(thetas), size):
            some = thetas[start : start + size]
            u = measure.from_uniform(rng.random((len(some) * rows, measure.dim)))
            noise = np.asarray(u).reshape(len(some), rows, -1)
            parts.append(np.asarray(self._simulate_each(some, noise)))
        return np.concatenate(parts)


class Purse:
    """The simulator for one fit: every row is counted, and none beyond the budget is made."""

    def __init__(self, task: Task, budget: int, seed: int) -> None:
        self.task, self.budget, self.calls = task, budget, 0
        self.rng = np.random.default_rng((seed, crc32(task.name.encode()), budget))

    def draw_prior(self, count: int) -> np.ndarray:
        """Parameters (count, p)."""
        low, high = self.task.bounds
        return self.rng.uniform(low, high, (count, len(low)))

    def simulate(self, thetas: np.ndarray, rows: int) -> np.ndarray:
        """Rows at each of thetas (k, p): (k, rows, d); raises SpentError beyond the budget."""
        if self.calls + len(thetas) * rows > self.budget:
            raise SpentError(f"{self.calls:,} of {self.budget:,} calls are made")
        self.calls += len(thetas) * rows
        return self.task.simulate(thetas, rows, self.rng)


def _observe_with_far_rows(name: str) -> Callable[[Any, float], np.ndarray]:
    case = efficiency.TASKS[name].case

    def observe(key: Any, share: float) -> np.ndarray:
        data_key, stray_key = jax.random.split(key)
        x = np.asarray(case.observe(data_key))
        return efficiency.spoil(stray_key, x, "far" if share else "clean")

    return observe


def _observe_published(name: str) -> Callable[[Any, float], Any]:
    return lambda key, share: contamination.observe(key, contamination.SETTINGS[name], share)


def find_octiles(y: np.ndarray) -> np.ndarray:
    """The seven octiles of each data set (..., rows, 1)."""
    return np.moveaxis(np.quantile(y[..., 0], np.arange(1, 8) / 8, axis=-1), 0, -1)


def find_autocovariances(y: np.ndarray) -> np.ndarray:
    """Of lags 0, 1 and 2, mean over the rows."""
    d = y.shape[-1]
    products = [(y[..., lag:] * y[..., : d - lag]).mean((-1, -2)) for lag in range(3)]
    return np.stack(products, -1)


def follow_means(y: np.ndarray) -> np.ndarray:
    """The mean path at every fourth time, and the log deviation between rows at the last."""
    means = y[..., 4::4].mean(-2)
    spread = np.log(y[..., -1].std(-1, keepdims=True) + 1e-12)
    return np.concatenate([means, spread], -1)


def average_counts(y: np.ndarray) -> np.ndarray:
    """The six summaries of a row, mean over the rows."""
    described = summarise_counts(y.reshape(-1, y.shape[-1]))
    return described.reshape(*y.shape[:-1], -1).mean(-2)


def process_log_likelihood(theta: Any, x: Any) -> Any:
    """Of increments, which are normal."""
    mean = x[:, :-1] + theta[0] * (jnp.exp(theta[1]) - x[:, :-1]) * _OU_DT
    return norm.logpdf(x[:, 1:], mean, 0.5 * _OU_DT**0.5 * OU_NOISE).sum()


def _published(name: str, summarise: Any, **rest: Any) -> Task:
    case = contamination.SETTINGS[name].case
    observe = _observe_published(name)
    return Task(name, case.make, case.theta, ROWS, observe, summarise, **rest)


def _usual(name: str, summarise: Any, log_likelihood: LogLikelihood) -> Task:
    case = efficiency.TASKS[name].case
    observe = _observe_with_far_rows(name)
    return Task(
        name, case.make, case.theta, case.n, observe, summarise, log_likelihood=log_likelihood
    )


TASKS = (
    _usual("g-and-k", find_octiles, g_and_k_log_likelihood),
    _usual("MA(2)", find_autocovariances, moving_average_log_likelihood),
    _published(
        "Ornstein-Uhlenbeck",
        follow_means,
        describe=lambda y: y[:, 1:],  # the first value is the same in all rows
        log_likelihood=process_log_likelihood,
    ),
    _published("Ricker", average_counts, summaries=summarise_counts, describe=summarise_counts),
)
