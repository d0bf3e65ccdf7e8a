"""The models: known moments and distributions, gradients, and their all-uniform form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from owlfi import models
from owlfi.models.g_and_k import g_and_k_quantile
from owlfi.models.moving_average import moving_average_covariance

MODELS = {
    "g_and_k": (models.g_and_k, 1, 1),
    "two_moons": (models.two_moons, 2, 2),
    "bivariate_beta": (models.bivariate_beta, 5, 2),
    "moving_average": (models.moving_average, 12, 10),
    "queue": (models.queue, 10, 5),
    "lotka_volterra": (models.lotka_volterra, 600, 2),
    "multivariate_g_and_k": (models.multivariate_g_and_k, 10, 10),
    "wind_farm": (models.wind_farm, 1, 1),
}
over_models = pytest.mark.parametrize("name", MODELS)


def draws(simulator, n, theta=None):
    u = simulator.measure.sample(jax.random.key(0), n)
    return np.asarray(rows(simulator, jnp.asarray(simulator.theta if theta is None else theta), u))


@eqx.filter_jit
def rows(simulator, theta, u):
    return simulator.rows(theta, u)


@over_models
def test_dimensions_are_those_of_the_paper(name):
    make, s, d = MODELS[name]
    simulator = make()
    assert simulator.measure.dim == s
    assert draws(simulator, 3).shape == (3, d)


@over_models
def test_model_is_a_differentiable_jax_function(name):
    simulator = MODELS[name][0]()
    assert not simulator.on_host
    u = simulator.measure.sample(jax.random.key(1), 4)

    @jax.jit
    def total(theta):
        return jnp.sum(jnp.sin(simulator.rows(theta, u)))

    theta = simulator.theta * 1.01 + 0.003
    slope = jax.jit(jax.grad(total))(theta)
    for j, step in enumerate(1e-6 * jnp.eye(len(theta)) * jnp.maximum(1e-2, theta)[None]):
        expected = (total(theta + step) - total(theta - step)) / (2 * step[j])
        assert_allclose(slope[j], expected, rtol=2e-5, atol=1e-6)
    by_noise = jax.jit(jax.grad(lambda v: jnp.sum(simulator.rows(theta, v))))(u)
    assert np.isfinite(by_noise).all()


@over_models
def test_prior_and_usual_theta_fit_the_parameters(name):
    simulator = MODELS[name][0]()
    assert simulator.prior.names == simulator.parameters
    assert np.isfinite(simulator.prior.log_density(simulator.theta))
    for theta in simulator.prior.sample(jax.random.key(2), 3):
        assert np.isfinite(draws(simulator, 4, theta)).all()


@over_models
def test_uniform_form_gives_the_same_numbers_at_the_quantiles(name):
    simulator = MODELS[name][0]()
    v = jax.random.uniform(jax.random.key(3), (5, simulator.measure.dim))
    expected = simulator(simulator.theta, simulator.measure.from_uniform(v))
    uniform = simulator.uniform()
    assert not uniform.on_host
    assert_allclose(uniform(simulator.theta, v), expected, rtol=1e-12)


# Known distributions


def test_g_and_k_without_skewness_and_kurtosis_is_normal():
    y = draws(models.g_and_k(), 2000, [3.0, 2.0, 0.0, 0.0])[:, 0]
    assert scipy.stats.kstest(y, scipy.stats.norm(3, 2).cdf).pvalue > 1e-3


def test_g_and_k_is_the_textbook_formula():
    a, b, g, k = theta = [1.0, 2.0, 0.7, 0.3]
    z = np.linspace(-3, 3, 7)
    expected = a + b * (1 + 0.8 * (1 - np.exp(-g * z)) / (1 + np.exp(-g * z))) * (1 + z**2) ** k * z
    assert_allclose(models.g_and_k()(theta, z)[:, 0], expected, rtol=1e-14)


def test_g_and_k_has_finite_gradients_at_extreme_parameters():
    theta, z = jnp.array([3.0, 1.0, 500.0, 3.0]), jnp.linspace(-4, 4, 41)[:, None]
    assert np.isfinite(jax.jacobian(g_and_k_quantile)(theta, z)).all()


@pytest.mark.parametrize("beside", [-0.4, 0.0, 0.1, 0.5])
def test_multivariate_g_and_k_takes_the_symmetric_root_of_sigma(beside):
    dim = 4
    sigma = np.eye(dim) + beside * (np.eye(dim, k=1) + np.eye(dim, k=-1))
    values, vectors = np.linalg.eigh(sigma)
    u = np.random.default_rng(0).normal(size=(3, dim))
    z = u @ (vectors * np.sqrt(values)) @ vectors.T
    simulator = models.multivariate_g_and_k(dim)
    assert_allclose(simulator([0.0, 1.0, 0.0, 0.0, beside], u), z, atol=1e-14)
    slope = jax.jacobian(lambda t: simulator.rows(t, jnp.asarray(u)))(
        jnp.array([3, 1, 0.1, 0.1, beside])
    )
    assert np.isfinite(slope).all()


def test_multivariate_g_and_k_with_an_indefinite_sigma_says_so():
    with pytest.raises(ValueError, match="NaN or infinite"):
        models.multivariate_g_and_k(5)([3.0, 1.0, 0.1, 0.1, 0.6], np.ones((1, 5)))


def test_two_moons_is_a_crescent_about_its_shift():
    y = draws(models.two_moons(), 4000, [0.3, -0.5])
    centre = np.array([0.25 - 0.2 / np.sqrt(2), -0.8 / np.sqrt(2)])
    radius = np.hypot(*(y - centre).T)
    assert scipy.stats.kstest(radius, scipy.stats.norm(0.1, 0.01).cdf).pvalue > 1e-3
    assert (y[:, 0] > centre[0]).all()


def test_bivariate_beta_has_beta_marginals():
    theta = [1.3, 0.4, 2.0, 0.8, 1.7]
    y = draws(models.bivariate_beta(), 2000, theta)
    first = scipy.stats.beta(theta[0] + theta[2], theta[3] + theta[4])
    second = scipy.stats.beta(theta[1] + theta[3], theta[2] + theta[4])
    assert scipy.stats.kstest(y[:, 0], first.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(y[:, 1], second.cdf).pvalue > 1e-3


def test_moving_average_has_its_covariance():
    theta, n = np.array([0.6, 0.2]), 20_000
    y = draws(models.moving_average(), n)
    covariance = moving_average_covariance(jnp.asarray(theta), 10)
    bands = [1 + 0.36 + 0.04, 0.6 * 1.2, 0.2]
    expected = sum(b * (np.eye(10, k=i) + np.eye(10, k=-i)) for i, b in enumerate(bands))
    assert_allclose(covariance, expected - bands[0] * np.eye(10), rtol=1e-14)
    assert_allclose(y.T @ y / n, covariance, atol=5 * 2 / np.sqrt(n))


def test_queue_follows_arrivals_and_services_one_by_one():
    theta, u = np.array([1.0, 5.0, 0.2]), np.random.default_rng(0).uniform(size=(50, 10))
    expected = np.empty((50, 5))
    for i, row in enumerate(u):
        arrival = departure = 0.0
        for t in range(5):
            arrival += row[5 + t] / theta[2]
            service = theta[0] + theta[1] * row[t]
            leaves = service + max(arrival, departure)
            expected[i, t], departure = leaves - departure, leaves
    assert_allclose(models.queue()(theta, u), expected, rtol=1e-12)


def test_lotka_volterra_without_noise_solves_its_differential_equation():
    from scipy.integrate import solve_ivp

    theta = np.array([5.0, 0.025, 6.0])

    def field(_, state):
        prey, predators = state
        return theta[0] * prey - theta[1] * prey * predators, theta[1] * prey * predators - theta[
            2
        ] * predators

    exact = solve_ivp(field, (0, 1), [100.0, 100.0], rtol=1e-10, atol=1e-10).y[:, -1]
    coarse, fine = (
        np.asarray(models.lotka_volterra(n)(theta, np.zeros((1, 2 * n))))[0] for n in (1000, 2000)
    )
    assert_allclose(2 * fine - coarse, exact, rtol=1e-3)  # Euler's error halves with the step


def test_lotka_volterra_step_has_the_covariance_of_its_reactions():
    theta = np.array([5.0, 0.025, 6.0])
    y = draws(models.lotka_volterra(1), 40_000, theta * 1e-3)  # one small step, never below 0
    births, eaten, deaths = 1e-3 * np.array([500.0, 250.0, 600.0])
    expected = np.array([[births + eaten, -eaten], [-eaten, eaten + deaths]])
    assert_allclose(np.cov(y.T), expected, atol=5 * 1.4 / np.sqrt(40_000))


def test_extinct_populations_stay_extinct_with_finite_gradients():
    simulator = models.lotka_volterra(20)
    u = jnp.full((2, 40), -30.0)
    slope = jax.jacobian(lambda theta: simulator.rows(theta, u))(simulator.theta)
    assert np.isfinite(slope).all()
    assert (np.asarray(simulator(simulator.theta, u)) >= 0).all()
