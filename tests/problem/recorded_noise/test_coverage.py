"""Whether answers about ordinary simulators can be trusted: smooth, counts, loops that change."""

import warnings

import jax
import numpy as np
import pytest
from scipy.stats import binom, binomtest

import owlfi
from ordinary_simulators import SIMULATORS, SMOOTH, growth, inventory, wright_fisher
from owlfi import HealthWarning, OptimallyWeighted, Problem, Simulator

DATA_SETS, ROWS, LEVEL = 40, 60, 0.9
RULE = OptimallyWeighted(m=64)
INTERVALS = {
    "minimum_distance": {},
    "posterior_bootstrap": {"draws": 200},
    "rejection_abc": {"draws": 1000, "share": 0.1, "adjust": True},
}


def apply(method, function, data_sets=DATA_SETS, **options):
    """The truth and the answers of a method on data sets that are drawn there."""
    prior = {**SIMULATORS, **SMOOTH}[function]
    theta = np.asarray(prior.from_uniform(np.full((1, len(prior.names)), 0.6)))[0]
    simulator = Simulator.from_random(function, prior.names, prior=prior)
    for i in range(data_sets):
        data_key, key = jax.random.split(jax.random.fold_in(jax.random.key(7), i))
        x = simulator(theta, simulator.measure.sample(data_key, ROWS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)
            yield theta, getattr(owlfi, method)(key, Problem(simulator, x), RULE, **options)


def count_covered(answers):
    """Intervals that hold the truth, and all of them, of results without a warning."""
    covered = []
    for theta, result in answers:
        low, high = (np.asarray(end) for end in result.interval(LEVEL))
        covered += [] if result.warnings else list((low <= theta) & (theta <= high))
        print(sum(covered), len(covered), result.warnings, flush=True)
    return int(sum(covered)), len(covered)


@pytest.mark.slow
@pytest.mark.parametrize("method", INTERVALS)
@pytest.mark.parametrize("function", [growth, wright_fisher, inventory])
def test_intervals_cover(method, function):
    covered, count = count_covered(apply(method, function, **INTERVALS[method]))
    assert count >= DATA_SETS // 2
    assert binomtest(covered, count).proportion_ci(0.99).high > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("function", [growth, wright_fisher, inventory])
def test_true_models_are_not_rejected(function):
    tests = [test for _, test in apply("goodness_of_fit", function, resamples=99)]
    assert sum(test.rejected for test in tests) <= binom.ppf(0.995, DATA_SETS, 0.05)
