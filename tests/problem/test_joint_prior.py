"""Priors of parameters that depend on each other."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import owlfi
from owlfi import (
    Empirical,
    LogDensity,
    Mixture,
    MultivariateNormal,
    Normal,
    Prior,
    Problem,
    Simulator,
    Smoothed,
    Uniform,
)
from owlfi.results.health import HealthWarning

KEY = jax.random.key(0)
MEAN, COVARIANCE = np.array([1.0, -2.0]), np.array([[1.0, 0.9], [0.9, 1.5]])
OTHER = np.array([[0.5, -0.2], [-0.2, 0.3]])
NORMAL = MultivariateNormal(MEAN, COVARIANCE)
MIXTURE = Mixture([NORMAL, MultivariateNormal([5.0, 5.0], OTHER)], [0.3, 0.7])


def log_banana(theta):
    return -0.5 * theta[0] ** 2 - 2 * (theta[1] - theta[0] ** 2) ** 2


BANANA = LogDensity(log_banana, [-3.0, -2.0], [3.0, 8.0])
ON_HOST = LogDensity(lambda theta: -float(theta[0]) - float(theta[1]), [0.0, 1.0], [2.0, 4.0])
FORMER = np.random.default_rng(3).multivariate_normal(MEAN, COVARIANCE, 400)
SMOOTHED = Smoothed(FORMER)
MEASURES = {
    "normal": NORMAL,
    "mixture": MIXTURE,
    "banana": BANANA,
    "on host": ON_HOST,
    "smoothed": SMOOTHED,
}


def test_densities_are_those_of_scipy():
    points = np.random.default_rng(0).normal(size=(5, 2))
    expected = scipy.stats.multivariate_normal(MEAN, COVARIANCE).logpdf(points)
    assert_allclose(NORMAL.log_density(points), expected, rtol=1e-12)
    other = scipy.stats.multivariate_normal([5.0, 5.0], OTHER).logpdf(points)
    both = np.log(0.3 * np.exp(expected) + 0.7 * np.exp(other))
    assert_allclose(MIXTURE.log_density(points), both, rtol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_points_follow_the_density(name):
    """Moments of 4096 Sobol points against those of the density on a fine grid."""
    measure = MEASURES[name]
    points = np.asarray(owlfi.sobol(KEY, 4096, measure))
    low, high = points.min(0) - 1, points.max(0) + 1
    if name not in ("normal", "mixture", "smoothed"):
        low, high = (np.asarray(end) for end in measure.support)
    steps = (np.arange(120) + 0.5) / 120
    grid = (
        np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2) * (high - low) + low
    )
    mass = np.exp(np.asarray(measure.log_density(grid)))
    assert_allclose(mass.sum() * np.prod((high - low) / 120), 1.0, atol=2e-3)
    mean = mass @ grid / mass.sum()
    spread = np.sqrt(mass @ (grid - mean) ** 2 / mass.sum())
    assert_allclose(points.mean(0), mean, atol=0.01 * spread.max())
    assert_allclose(points.std(0), spread, rtol=0.02)
    product = mass @ np.prod(grid - mean, 1) / mass.sum()
    assert_allclose(np.mean(np.prod(points - mean, 1)), product, atol=0.03 * np.prod(spread))


def test_joint_prior_beside_independent_parameters():
    prior = Prior.joint(["a", "b"], NORMAL).beside(Prior(c=Uniform(2, 3)))
    theta = np.asarray(prior.sample(KEY, 500))
    assert prior.names == ("a", "b", "c")
    assert_allclose(np.corrcoef(theta[:, :2].T)[0, 1], 0.9 / np.sqrt(1.5), atol=0.1)
    expected = scipy.stats.multivariate_normal(MEAN, COVARIANCE).logpdf(theta[:, :2])
    assert_allclose(prior.log_density(theta), expected, rtol=1e-9)
    assert_allclose(prior.widths()[:2], 1.349 * np.sqrt([1.0, 1.5]), rtol=0.02)
    assert prior.table()[0][0] == "a, b"


@pytest.mark.parametrize("name", MEASURES)
def test_levels_come_back(name):
    prior = Prior.joint(["a", "b"], MEASURES[name]).beside(Prior(c=Normal()))
    v = np.random.default_rng(0).uniform(0.05, 0.95, (4, 3))
    assert_allclose(prior.to_uniform(prior.from_uniform(v)), v, atol=1e-6)


def test_parts_and_orders():
    prior = Prior.joint(["a", "b"], NORMAL).beside(Prior(c=Uniform()))
    assert prior.of(("c", "a", "b")).names == ("c", "a", "b")
    with pytest.raises(ValueError, match="prior of a, b is one of all of them"):
        prior.of(("a", "c"))
    with pytest.raises(ValueError, match="prior of a, b is one of all of them"):
        prior.of(("b", "a"))
    with pytest.raises(ValueError, match="names must be 2 different ones"):
        Prior.joint(["a"], NORMAL)
    with pytest.raises(ValueError, match="both priors have the parameters a"):
        prior.beside(Prior(a=Uniform()))


def test_former_draws_are_a_prior():
    draws = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 4000)
    fitted = MultivariateNormal.of_draws(draws)
    assert_allclose(fitted.covariance, np.cov(draws.T), rtol=1e-9)
    sampled = np.asarray(Prior.joint(["a", "b"], Empirical(draws)).sample(KEY, 50))
    assert {tuple(row) for row in sampled} <= {tuple(row) for row in draws}
    with pytest.raises(ValueError, match=r"the prior of a, b is discrete.*give Smoothed\(draws\)"):
        Prior.joint(["a", "b"], Empirical(draws)).check_continuous("minimum_distance")


def test_smoothed_draws_have_the_mean_and_covariance_of_the_draws_and_the_density_of_their_law():
    points = np.asarray(owlfi.sobol(KEY, 8192, SMOOTHED))
    assert_allclose(points.mean(0), FORMER.mean(0), atol=0.02)
    assert_allclose(np.cov(points.T), np.cov(FORMER.T), atol=0.05)
    at = FORMER[:50]
    expected = scipy.stats.multivariate_normal(MEAN, COVARIANCE).logpdf(at)
    found = np.asarray(SMOOTHED.log_density(at))
    assert abs(np.mean(found - expected)) < 0.2  # nats
    assert_allclose(jax.jit(lambda at: SMOOTHED.log_density(at))(at), found, rtol=1e-9)


def test_smoothed_draws_keep_their_modes_ends_and_weights():
    random = np.random.default_rng(0)
    modes = np.concatenate([random.normal(-3, 0.1, 300), random.normal(3, 0.1, 300)])[:, None]
    chain = np.repeat(modes, 3, 0)  # as Metropolis steps that stay
    law = Smoothed(chain, np.repeat([1.0, 3.0], 900))
    points = np.asarray(owlfi.sobol(KEY, 2048, law))[:, 0]
    assert_allclose(np.mean(points > 0), 0.75, atol=0.01)
    assert np.std(points[points > 0]) < 0.2
    scale = Smoothed(random.exponential(size=(500, 1)), low=0.0)
    assert np.asarray(owlfi.sobol(KEY, 512, scale)).min() > 0
    assert np.isneginf(scale.log_density([-0.1]))
    fine = np.geomspace(1e-4, 30, 10_001)[:, None]
    assert_allclose(np.trapezoid(np.exp(scale.log_density(fine)), fine[:, 0]), 1.0, atol=2e-3)


def test_draws_that_cannot_be_smoothed_are_refused():
    with pytest.raises(ValueError, match="at least 4 different rows for 2 columns, got 1"):
        Smoothed(np.ones((10, 2)))
    with pytest.raises(ValueError, match="inside of low"):
        Smoothed(np.zeros((10, 1)), low=0.0)
    with pytest.raises(ValueError, match="weights must be at least 0"):
        Smoothed(FORMER, -np.ones(len(FORMER)))


def test_wrong_densities_are_refused():
    with pytest.raises(ValueError, match="low must lie below high"):
        LogDensity(log_banana, [0.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"at most 3 dimensions.*prior.beside"):
        LogDensity(lambda t: 0.0, np.zeros(4), np.ones(4))
    with pytest.raises(ValueError, match="logarithm of a density inside the box, got NaN"):
        LogDensity(lambda t: jnp.nan * t[0], [0.0], [1.0])
    with pytest.raises(ValueError, match="symmetric and positive definite"):
        MultivariateNormal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])


def line(theta, u):
    return theta[0] + jnp.exp(0.3 * theta[1]) * u


METHODS = {
    "minimum_distance": {},
    "rejection_abc": {"draws": 200, "share": 0.3},
    "random_restarts": {"starts": 8, "restarts": 2},
    "sequential_abc": {"draws": 100, "rounds": 2, "keep": 60},
    "posterior_bootstrap": {"draws": 60, "prior_strength": 1.0},
    "pseudo_marginal": {"draws": 200, "chains": 1, "designs": 2},
    "mmd_bayes": {"draws": 100, "chains": 2, "warmup": 50},
    "goodness_of_fit": {"resamples": 39},
}


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["normal", "mixture", "banana", "smoothed"])
@pytest.mark.parametrize("method", METHODS)
def test_all_methods_take_them(method, measure):
    prior = Prior.joint(["a", "b"], MEASURES[measure])
    model = Simulator(line, Normal(), prior.names, prior=prior)
    x = model([1.0, 0.5], owlfi.iid(KEY, 80, model.measure))
    rule = owlfi.OptimallyWeighted(64, base_kernel=owlfi.SquaredExponential(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        result = getattr(owlfi, method)(KEY, Problem(model, x), rule, **METHODS[method])
    center = result.theta if hasattr(result, "theta") else result.mean
    assert abs(float(center[0]) - 1.0) < 0.6


def test_draws_of_abc_are_those_of_the_prior_where_all_are_kept():
    prior = Prior.joint(["a", "b"], NORMAL)
    model = Simulator(line, Normal(), prior.names, prior=prior)
    x = model([1.0, 0.5], owlfi.iid(KEY, 80, model.measure))
    rule = owlfi.VStatistic(16)
    found = owlfi.rejection_abc(KEY, Problem(model, x), rule, draws=400, share=1.0)
    assert_allclose(np.corrcoef(np.asarray(found.draws).T)[0, 1], 0.9 / np.sqrt(1.5), atol=0.1)


def test_what_a_prior_excludes_inside_of_its_ends():
    ordered = LogDensity(lambda t: jnp.where(t[0] < t[1], 0.0, -jnp.inf), [0.0, 0.0], [1.0, 1.0])
    gap = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5])
    prior = Prior.joint(["a", "b"], ordered).beside(Prior(c=gap, d=Uniform(0, 1)))
    rows = np.array([[0.2, 0.8, 0.5, 0.5], [0.8, 0.2, 0.5, 0.5], [0.2, 0.8, 1.5, 0.5]])
    assert prior.excludes(jnp.asarray(rows)).tolist() == [False, True, True]


def test_ends_of_some_of_the_columns_are_kept():
    random = np.random.default_rng(0)
    draws = np.column_stack([random.normal(size=300), random.exponential(size=300)])
    law = Smoothed(draws, low=[-np.inf, 0.0], high=[np.inf, np.inf])
    points = np.asarray(law.sample(jax.random.key(0), 2000))
    assert points[:, 0].min() < -1.0
    assert points[:, 1].min() > 0.0
    error = 4 * draws.std(0) / np.sqrt(len(points))
    assert np.all(np.abs(points.mean(0) - draws.mean(0)) < error + 0.1 * draws.std(0))
    for wrong in ([np.nan, 0.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="draws must lie inside of low"):
            Smoothed(draws, low=wrong)
