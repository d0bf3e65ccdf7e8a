"""Whitening uses correlated and skewed columns as maximum likelihood would, and does no harm."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

import owlfi
from owlfi import Normal, Prior, Problem, Simulator, Uniform, VStatistic
from owlfi.inference.search.whitening import whiten_data, whitened_kernel

KEY = jax.random.key(0)
COLUMNS, STEP = 25, 0.2


def diffuse(theta, u):
    """The Ornstein-Uhlenbeck process by exact steps, from its stationary law."""
    rate, mean, sigma = theta
    sd, decay = sigma / jnp.sqrt(2 * rate), jnp.exp(-rate * STEP)
    noise = sd * jnp.sqrt(1 - decay**2)

    def step(y, e):
        after = mean + decay * (y - mean) + noise * e
        return after, after

    first = mean + sd * u[:, 0]
    return jnp.concatenate([first[None], jax.lax.scan(step, first, u[:, 1:].T)[1]]).T


def diffusion_likelihood(theta, x):
    rate, mean, sigma = theta
    variance, decay = sigma**2 / 2 / rate, np.exp(-rate * STEP)
    inner = variance * (1 - decay**2)
    steps = x[:, 1:] - mean - decay * (x[:, :-1] - mean)
    return np.sum((x[:, 0] - mean) ** 2 / variance + np.log(variance)) + np.sum(
        steps**2 / inner + np.log(inner)
    )


def skewed(theta, u):
    """Log-normal columns with one correlation rho between all."""
    mean, sigma, rho = theta
    correlation = jnp.eye(3) * (1 - rho) + rho
    return jnp.exp(mean + sigma * u @ jnp.linalg.cholesky(correlation).T)


def skewed_likelihood(theta, y):
    mean, sigma, rho = theta
    covariance = sigma**2 * ((1 - rho) * np.eye(3) + rho)
    z = np.log(y) - mean
    squares = np.sum(z @ np.linalg.inv(covariance) * z)
    return squares + len(y) * np.linalg.slogdet(covariance)[1]


def make(generator, dim, **marginals):
    prior = Prior(**{name: Uniform(*ends) for name, ends in marginals.items()})
    return Simulator(generator, Normal(dim=dim), prior.names, prior=prior)


DIFFUSION = make(diffuse, COLUMNS, rate=(0.1, 4), mean=(-5, 5), sigma=(0.1, 3))
SKEWED = make(skewed, 3, mean=(-2, 2), sigma=(0.1, 2), rho=(-0.45, 0.95))
CASES = {
    "diffusion": (DIFFUSION, np.array([1.0, 2.0, 0.8]), 100, diffusion_likelihood),
    "skewed": (SKEWED, np.array([0.5, 0.7, 0.4]), 200, skewed_likelihood),
}


def data(name, seed):
    model, truth, n, _ = CASES[name]
    return model(truth, owlfi.iid(jax.random.key(1000 + seed), n, model.measure))


def most_likely(name, x):
    model, truth, _, likelihood = CASES[name]
    ends = np.stack(model.prior.bounds, 1)
    return scipy.optimize.minimize(likelihood, truth, np.asarray(x), bounds=ends).x


@cache
def fit(name, seed, m, *, whiten, **options):
    problem, rule = Problem(CASES[name][0], data(name, seed)), VStatistic(m, owlfi.sobol)
    return owlfi.minimum_distance(jax.random.key(seed), problem, rule, whiten=whiten, **options)


FEW = {"starts": 4, "refined": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "m", "of_likelihood"),
    [("diffusion", 64, 2.0), ("diffusion", 256, 1.3), ("skewed", 256, 1.3)],
)
def test_whitened_estimates_are_nearly_those_of_maximum_likelihood(name, m, of_likelihood):
    truth, seeds = CASES[name][1], range(20)

    def error(estimates):
        return np.sqrt(np.mean((np.stack(list(estimates)) - truth) ** 2, 0))

    best = error(most_likely(name, data(name, seed)) for seed in seeds)
    plain, white = (
        error(fit(name, seed, m, whiten=whiten).theta for seed in seeds) for whiten in (False, True)
    )
    assert (white < of_likelihood * best).all()
    assert (white < 1.05 * plain).all()


def test_whitened_fit_is_more_certain_of_skewed_columns():
    plain, white = (fit("skewed", 3, 64, whiten=whiten, **FEW) for whiten in (False, True))
    truth, most = CASES["skewed"][1], most_likely("skewed", data("skewed", 3))
    assert (white.standard_errors < plain.standard_errors).all()
    assert (jnp.abs(white.theta - truth) < 4 * white.standard_errors).all()
    assert_allclose(white.theta, most, atol=0.06)


def test_many_columns_are_whitened_at_new_rows_too():
    """The covariance of as few rows as columns would be far from this."""
    theta = jnp.array([1.0, 2.0, 0.8])
    k = whiten_data(KEY, Problem(DIFFUSION, data("diffusion", 0)), theta)[0].data_kernel
    y = DIFFUSION.rows(theta, owlfi.iid(jax.random.key(9), 4000, DIFFUSION.measure))
    z = np.asarray(k.function(y) @ k.kernel.matrix.T)
    variances = np.linalg.eigvalsh(np.cov(z.T))
    assert 0.6 < variances[0] < variances[-1] < 1.8


def test_rows_of_the_whitening_are_counted():
    problem = Problem(DIFFUSION, data("diffusion", 0))
    _, calls = whiten_data(KEY, problem, jnp.array([1.0, 2.0, 0.8]))
    assert calls == 512  # 20 a column, up to a power of two
    _, calls = whiten_data(KEY, Problem(SKEWED, data("skewed", 0)), jnp.array([0.5, 0.7, 0.4]))
    assert calls == 128


def test_whitened_model_is_normal_and_uncorrelated():
    theta = jnp.array([0.5, 1.2, 0.8])
    sample = np.asarray(SKEWED.rows(theta, owlfi.sobol(KEY, 4096, SKEWED.measure)))
    k = whitened_kernel(data("skewed", 0), sample)
    z = np.asarray(k.function(jnp.asarray(sample)) @ k.kernel.matrix.T)
    middle = z[(np.abs(z) < 2).all(1)]
    assert_allclose(np.median(z, 0), 0.0, atol=0.1)
    assert_allclose(np.cov(middle.T), 0.77 * np.eye(3), atol=0.1)  # of normal numbers below 2


def test_units_do_not_change_whitened_kernels():
    x, units = data("skewed", 0), jnp.array([[1.0, 1e6, 1e-9]])
    sample = np.asarray(data("skewed", 1))
    one = whitened_kernel(x, sample).gram(x, x)
    other = whitened_kernel(x * units, sample * np.asarray(units)).gram(x * units, x * units)
    assert_allclose(other, one, rtol=1e-6, atol=1e-12)


def test_columns_without_variance_are_left_alone():
    x = np.asarray(data("skewed", 0))
    sample = np.column_stack([np.asarray(data("skewed", 1))[:, :2], np.full(200, 3.0)])
    own = whitened_kernel(jnp.asarray(x), sample)  # constant in the model only
    z = np.asarray(own.function(jnp.asarray(x)) @ own.kernel.matrix.T)
    spread = np.diff(np.quantile(x[:, 2], [0.25, 0.75]))[0] / 1.349
    assert_allclose(z[:, 2], (x[:, 2] - 3.0) / spread, rtol=1e-9)
    flat = jnp.asarray(x).at[:, 2].set(3.0)  # and in the data
    y = flat.at[:, 2].set(99.0)
    k = whitened_kernel(flat, sample)
    assert_allclose(k.gram(y, flat), k.gram(flat, flat), rtol=1e-12)


def test_where_the_simulator_fails_the_kernel_stays():
    model = make(lambda theta, u: jnp.where(theta[0] > 0, u + theta[0], jnp.nan), 2, a=(-1, 1))
    problem = Problem(model, model([0.5], owlfi.iid(KEY, 20, model.measure)))
    same, calls = whiten_data(KEY, problem, jnp.array([-0.5]))
    assert same is problem
    assert calls == 128


@pytest.mark.slow
def test_whitening_serves_simulators_on_the_host():
    model, compiled = SKEWED, eqx.filter_jit(skewed)
    host = Simulator(
        lambda theta, u: np.asarray(compiled(jnp.asarray(theta), jnp.asarray(u))),
        model.measure,
        model.parameters,
        prior=model.prior,
        on_host=True,
    )
    problem, rule = Problem(host, data("skewed", 3)), VStatistic(64, owlfi.sobol)
    there = owlfi.minimum_distance(jax.random.key(3), problem, rule, whiten=True, **FEW)
    here = fit("skewed", 3, 64, whiten=True, **FEW)
    assert_allclose(there.theta, here.theta, atol=0.01)
