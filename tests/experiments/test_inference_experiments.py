"""What the experiments on inference show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from owlfi import models
from owlfi.experiments import EXPERIMENTS
from owlfi.experiments.experiment import Plan
from owlfi.experiments.likelihoods import (
    g_and_k_log_likelihood,
    maximum_likelihood,
    moving_average_log_likelihood,
)
from owlfi.models.moving_average import moving_average_covariance

KEY = jax.random.key(0)


def run_and_arrange(name, plan):
    experiment = EXPERIMENTS[name]
    records = list(experiment.run(KEY, plan))
    assert len(records) == experiment.steps(plan)
    return experiment.arrange(records)


def test_g_and_k_likelihood_is_the_derivative_of_the_distribution_function():
    """Of a g-and-k without skewness and kurtosis it is normal; otherwise it integrates to one."""
    x = jnp.array([[2.0], [3.5]])
    expected = scipy.stats.norm(3.0, 2.0).logpdf(np.asarray(x)).sum()
    found = g_and_k_log_likelihood(jnp.array([3.0, 2.0, 0.0, 0.0]), x)
    assert_allclose(found, expected, rtol=1e-10)
    theta, grid = jnp.array([3.0, 1.0, 0.5, 0.2]), jnp.linspace(-40, 80, 2401)
    each = jax.jit(jax.vmap(lambda number: g_and_k_log_likelihood(theta, number[None, None])))
    assert_allclose(jnp.exp(each(grid)).sum() * (grid[1] - grid[0]), 1, rtol=1e-4)


def test_g_and_k_likelihood_has_the_derivative_of_its_differences():
    x = models.g_and_k()([3.0, 1.0, 0.5, 0.2], [-1.0, 0.3, 2.0])
    theta, h = jnp.array([3.1, 0.9, 0.4, 0.3]), 1e-5
    value = jax.jit(g_and_k_log_likelihood)
    slopes = [(value(theta + e, x) - value(theta - e, x)) / (2 * h) for e in h * jnp.eye(4)]
    assert_allclose(jax.grad(g_and_k_log_likelihood)(theta, x), jnp.stack(slopes), rtol=1e-5)


def test_moving_average_likelihood_is_normal_and_its_maximum_is_near_the_truth():
    model = models.moving_average(5)
    x = model(model.theta, jax.random.normal(KEY, (2000, 7)))
    covariance = np.asarray(moving_average_covariance(model.theta, 5))
    expected = scipy.stats.multivariate_normal(np.zeros(5), covariance).logpdf(x).sum()
    assert_allclose(moving_average_log_likelihood(model.theta, x), expected, rtol=1e-9)
    found = maximum_likelihood(moving_average_log_likelihood, model.prior, jnp.zeros(2), x)
    assert_allclose(found, model.theta, atol=0.06)


@pytest.mark.slow
def test_wind_farm_figures():
    """Those of the published runs: width at 95% and overlap with the near-exact posterior."""
    results = run_and_arrange("windfarm", Plan(1, quick=True))
    expected = {"V": [(19.1, 0.72), (25.0, 0.41)], "OW": [(10.9, 0.86), (15.2, 0.59)]}
    for name, cells in expected.items():
        for share, (width, overlap) in zip(("5%", "10%"), cells, strict=True):
            assert_allclose(results[name][share]["width95"], width, atol=0.1)
            assert_allclose(results[name][share]["overlap"], overlap, atol=1e-9)
    assert set(results["live"]) == set(results) - {"live"}
    for share in ("5%", "10%"):
        exact, ow, tuned = (results[name][share] for name in ("near-exact", "OW", "tuned"))
        assert tuned["overlap"] > ow["overlap"]
        for quantity in ("width95", "rmse"):
            assert abs(tuned[quantity] - exact[quantity]) < abs(ow[quantity] - exact[quantity])


@pytest.mark.slow
def test_optimal_weights_concentrate_the_estimates():
    results = run_and_arrange("figure4", Plan(30))
    v = np.array(results["V"]["iqr"])
    for name in ("OW", "OW, Sobol", "tuned, Sobol"):
        assert np.all(np.array(results[name]["iqr"])[:3] < 0.8 * v[:3])
        assert sum(results["V"]["outliers"]) > 5 * sum(results[name]["outliers"])


@pytest.mark.slow
def test_estimates_are_near_maximum_likelihood_for_a_few_thousand_calls():
    results = run_and_arrange("accuracy", Plan(50))
    for task, ratio, calls in (("g-and-k", 1.4, 7000), ("MA(2)", 1.35, 3000)):
        cell = results[task]["tuned, Sobol points"]
        assert cell["over_mle"] <= ratio
        assert cell["calls"] <= calls
        assert 0.8 <= cell["coverage"] <= 0.97


@pytest.mark.slow
def test_exchange_rates_show_where_the_paper_s_weights_blow_up():
    """Squared MMDs far above 2, the most there can be; tuned weights are calm and fit as well."""
    results = run_and_arrange("exchange", Plan(4))
    assert results["OW"]["sum_of_absolute_weights"] > 30
    assert results["OW"]["largest_squared_mmd"] > 10
    calm = results["tuned, Sobol"]
    assert calm["largest_squared_mmd"] < 2
    assert calm["sum_of_absolute_weights"] <= 4  # since m Σ w² ≤ 16
    assert calm["squared_mmd_of_map"] <= 1.1 * results["V"]["squared_mmd_of_map"]


@pytest.mark.slow
def test_campaign_of_a_tenth_of_the_runs_is_no_farther_from_the_exact_posterior():
    results = run_and_arrange("windfarm-budget", Plan(5, quick=True))
    assert results["most_calls"] <= 1000
    assert results["no_farther"]["full"] == 5
    assert results["median"]["budgeted"] < results["median"]["full, shared u"]
    (wakes,) = results["wake_model"]  # through the store, with the wake model itself
    assert wakes["calls"] <= 1000
    assert wakes["budgeted"] < results["median"]["full"]
    assert results["table"]["largest_error"] < 1e-4  # the jumps of the model are 3e-4
