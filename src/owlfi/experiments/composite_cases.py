"""The composite test of section 5.2, many times over: data from several laws, several rules.

The model is the multivariate g-and-k distribution (d = 5) with theta_4 = 0.1 known and the other
parameters not; n = 500, m = 100, B = 200, level 0.05.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import binomtest

from owlfi import models
from owlfi.experiments.experiment import Record, group
from owlfi.measures import Uniform
from owlfi.points.sequences import iid, sobol
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import OptimallyWeighted, VStatistic
from owlfi.problem.simulator import Simulator
from owlfi.testing.goodness_of_fit import goodness_of_fit

DIM, OBSERVED, SIMULATED, RESAMPLES, LEVEL = 5, 500, 100, 200, 0.05
BANK = 64
THETA = (3.0, 1.0, 0.1, 0.1, 0.1)
_LARGEST_CORRELATION = 0.577  # Σ is definite below 1 / (2 cos(π / 6))

Law = Callable[[Key[Array, ""]], Float[Array, "n d"]]
Ways = Mapping[str, Mapping[str, Any]]  # the rule and the options of each test

EQUAL = VStatistic(SIMULATED)
MEDIAN = OptimallyWeighted(SIMULATED, iid, "median")
TUNED = OptimallyWeighted(SIMULATED, iid, thetas=8)
SOBOL = OptimallyWeighted(SIMULATED, sobol, "median")


@cache
def model() -> Simulator:
    """With theta_4 = 0.1; both signs of the skewness theta_3 are possible."""
    return models.multivariate_g_and_k(DIM).fix(theta_4=0.1)


@cache
def prior() -> Prior:
    """The ranges of its parameters."""
    return Prior(
        theta_1=Uniform(0, 10),
        theta_2=Uniform(0, 5),
        theta_3=Uniform(-3, 3),
        theta_5=Uniform(-_LARGEST_CORRELATION, _LARGEST_CORRELATION),
    )


def g_and_k_law(theta_4: float) -> Law:
    """The model itself at theta_4 = 0.1, heavier or lighter tails at other values."""
    simulator = models.multivariate_g_and_k(DIM)
    theta = jnp.array(THETA).at[3].set(theta_4)
    return lambda key: simulator.rows(theta, iid(key, OBSERVED, simulator.measure))


def equicorrelated_law(correlation: float) -> Law:
    """The right marginals, but all pairs of coordinates alike instead of neighbours only."""
    theta = jnp.array(THETA).at[4].set(0.0)
    simulator = models.multivariate_g_and_k(DIM)

    def draw(key: Key[Array, ""]) -> Array:
        common_key, key = jax.random.split(key)
        common = jax.random.normal(common_key, (OBSERVED, 1))
        own = iid(key, OBSERVED, simulator.measure)
        return simulator.rows(theta, correlation**0.5 * common + (1 - correlation) ** 0.5 * own)

    return draw


def contaminated_law(share: float) -> Law:
    """The model, with a share of rows from a narrow cluster beside its middle."""
    usual = g_and_k_law(0.1)

    def draw(key: Key[Array, ""]) -> Array:
        key, cluster_key, row_key = jax.random.split(key, 3)
        cluster = 4.0 + 0.1 * jax.random.normal(cluster_key, (OBSERVED, DIM))
        chosen = jax.random.uniform(row_key, (OBSERVED, 1)) < share
        return jnp.where(chosen, cluster, usual(key))

    return draw


def run_tests(
    key: Key[Array, ""],
    laws: dict[str, Law],
    ways: Ways,
    steps: list[tuple[int, str, str]],
    quick: bool,
) -> Iterator[Record]:
    """A record of each step: a repeat, the law of its data, and the way to test."""
    for repeat, law, way in steps:
        own = jax.random.fold_in(jax.random.fold_in(key, repeat), list(laws).index(law))
        data_key, test_key = jax.random.split(own)  # all ways see the same data
        options = {"resamples": 39 if quick else RESAMPLES, "level": LEVEL, **ways[way]}
        x, start = laws[law](data_key), time.perf_counter()
        problem = Problem(model(), x, prior=prior())
        test = goodness_of_fit(test_key, problem, **options)
        yield {
            "case": law,
            "rule": way,
            "repeat": repeat,
            "p_value": test.p_value,
            "rejected": test.rejected,
            "statistic": test.statistic,
            "critical_value": test.critical_value,
            "theta": np.asarray(test.theta).tolist(),
            "failed": test.about["failed"],
            "calls": test.calls,
            "seconds": time.perf_counter() - start,
            **({"null": np.asarray(test.null).tolist()} if repeat == 0 else {}),
        }


def arrange(records: list[Record]) -> dict[str, dict[str, Record]]:
    """Rejections, their rate with a 95% interval, and seconds, by case and rule."""
    return {
        case: {rule: _rate(tests) for rule, tests in group(of_case, "rule").items()}
        for case, of_case in group(records, "case").items()
    }


def _rate(tests: list[Record]) -> Record:
    rejections = sum(test["rejected"] for test in tests)
    interval = binomtest(rejections, len(tests)).proportion_ci(0.95, method="wilson")
    return {
        "rejections": rejections,
        "repeats": len(tests),
        "rate": rejections / len(tests),
        "interval": [interval.low, interval.high],
        "failed_fits": sum(test["failed"] for test in tests),
        "seconds_per_test": float(np.median([test["seconds"] for test in tests])),
        "calls_per_test": float(np.mean([test["calls"] for test in tests])),
    }
