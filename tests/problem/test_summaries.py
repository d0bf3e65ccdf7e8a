"""Summaries take the place of rows, of observations and simulations alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Normal, Prior, Problem, Simulator, Uniform

KEY = jax.random.key(0)


def series(theta, u):
    return theta[0] + theta[1] * u


def model(on_host=False):
    prior = Prior(mean=Uniform(-5, 5), spread=Uniform(0.1, 3))
    generator = (lambda theta, u: np.asarray(theta[0] + theta[1] * u)) if on_host else series
    noise = Normal(dim=8)
    return Simulator(generator, noise, ["mean", "spread"], prior=prior, on_host=on_host or None)


def observations():
    return model()([1.0, 0.5], owlfi.iid(KEY, 100, Normal(dim=8)))


def moments_in_jax(rows):
    return jnp.stack([rows.mean(1), jnp.log(rows.std(1))], 1)


def moments_in_numpy(rows):
    return np.stack([np.mean(rows, 1), np.log(np.std(np.asarray(rows), 1))], 1)


BY_NAME = {"mean": lambda rows: rows.mean(1), "log_sd": lambda rows: jnp.log(rows.std(1))}


@pytest.mark.parametrize(
    ("summaries", "on_host", "in_jax"),
    [
        (moments_in_jax, False, True),
        (BY_NAME, False, True),
        (moments_in_numpy, False, False),
        (moments_in_numpy, True, False),
    ],
)
def test_simulations_and_observations_are_summarised_alike(summaries, on_host, in_jax):
    x = observations()
    problem = Problem(model(on_host), x, summaries=summaries)
    u = owlfi.iid(KEY, 100, Normal(dim=8))
    assert_allclose(problem.observed, moments_in_numpy(np.asarray(x)), rtol=1e-12)
    assert_allclose(problem.simulator.rows(jnp.array([1.0, 0.5]), u), problem.observed, rtol=1e-9)
    assert problem.simulator.on_host is not in_jax


def test_fits_are_of_the_summaries():
    problem = Problem(model(), observations(), summaries=moments_in_jax)
    estimate = owlfi.minimum_distance(KEY, problem, owlfi.VStatistic(128, owlfi.sobol))
    assert_allclose(estimate.theta, [1.0, 0.5], atol=0.1)


def test_columns_have_names():
    assert Problem(model(), observations(), summaries=BY_NAME).columns == ("mean", "log_sd")
    assert Problem(model(), observations()).columns[:2] == ("column_0", "column_1")
    named = Problem(model(), observations(), summaries=moments_in_jax, columns=["a", "b"])
    assert named.with_kernel(owlfi.SquaredExponential(1.0)).columns == ("a", "b")


def test_another_kernel_does_not_summarise_twice():
    problem = Problem(model(), observations(), summaries=moments_in_jax)
    other = problem.stretch(2.0)
    assert_allclose(other.observed, problem.observed)


@pytest.mark.parametrize(
    ("summaries", "message"),
    [
        (lambda rows: rows.mean(0), "one row for each of the 100 rows"),
        ({"broken": lambda rows: np.log(rows[:, 0] - 1e9)}, "broken is NaN or infinite for row 0"),
        (3.0, "summaries must be a function of rows"),
        ({}, "summaries must be a function of rows"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_summaries_that_cannot_serve_are_refused(summaries, message):
    with pytest.raises(ValueError, match=message):
        Problem(model(), observations(), summaries=summaries)
