"""Problems without a data kernel: units, constant columns and counts are no obstacle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Normal, Prior, Problem, Simulator, Uniform, VStatistic
from owlfi.problem.predicted_spreads import predict_spreads

KEY = jax.random.key(0)
PRIOR = Prior(mean=Uniform(-5, 5), sd=Uniform(0.1, 3))
UNITS = jnp.array([[1.0, 1e6]])


class NormalPairs(eqx.Module):
    units: jax.Array  # no constant: all units share one program

    def __call__(self, theta, u):
        return self.units * (theta[0] + theta[1] * u @ jnp.array([[1.0, 0.5], [0.0, 1.0]]))


PAIRS = NormalPairs(jnp.ones((1, 2)))


def model(generator=PAIRS, dim=2, prior=PRIOR):
    return Simulator(generator, Normal(dim=dim), prior.names, prior=prior)


def observed(n=60):
    return model()([1.0, 0.7], owlfi.iid(jax.random.key(5), n, Normal(dim=2)))


def in_other_units(n=60):
    return Problem(model(NormalPairs(UNITS)), observed(n) * UNITS)


RULES = {
    "equal": VStatistic(64, owlfi.sobol),
    "tuned": owlfi.OptimallyWeighted(32, thetas=4),
    "adaptive": owlfi.Adaptive(40, thetas=3),
}


@pytest.mark.parametrize(
    "name",
    ["equal", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tuned", "adaptive"))],
)
def test_estimates_do_not_depend_on_units(name):
    options = {"starts": 4, "refined": 1}
    one = owlfi.minimum_distance(KEY, Problem(model(), observed()), RULES[name], **options)
    other = owlfi.minimum_distance(KEY, in_other_units(), RULES[name], **options)
    assert_allclose(other.theta, one.theta, rtol=1e-6)
    assert_allclose(other.standard_errors, one.standard_errors, rtol=1e-5)


@pytest.mark.slow
def test_whitened_estimates_do_not_depend_on_units():
    options = {"starts": 4, "refined": 1, "whiten": True}
    one = owlfi.minimum_distance(KEY, Problem(model(), observed()), RULES["equal"], **options)
    other = owlfi.minimum_distance(KEY, in_other_units(), RULES["equal"], **options)
    assert_allclose(other.theta, one.theta, rtol=1e-6)


@pytest.mark.slow
def test_goodness_of_fit_does_not_depend_on_units():
    def test(problem):
        return owlfi.goodness_of_fit(KEY, problem, RULES["equal"], resamples=19, restarts=0)

    one = test(Problem(model(), observed(20)))
    other = test(in_other_units(20))
    assert_allclose(other.statistic, one.statistic, rtol=1e-6)
    assert_allclose(other.null, one.null, rtol=1e-5)


def test_replicates_choose_their_kernel_as_the_observations_did():
    problem, x = Problem(model(), observed()), 3.0 * observed()
    assert_allclose(
        problem.kernel_of(x).lengthscale, 3 * problem.data_kernel.lengthscale, rtol=1e-12
    )
    given = problem.with_kernel(owlfi.Matern(1.5, 2.0))
    assert given.kernel_of(x) is given.data_kernel


# Constant columns


def with_zeros(theta, u):
    """A count that is 0 at small theta, and a column that never varies."""
    count = jnp.floor(jnp.maximum(theta[0], 0.0)) * jnp.ones(len(u))
    return jnp.stack([theta[0] + u[:, 0], count, jnp.full(len(u), 7.0)], 1)


def test_constant_columns_take_their_spread_from_the_prior_or_are_left_out():
    simulator = model(with_zeros, 1)
    x = jnp.stack([jnp.linspace(-2.0, 1.0, 20), jnp.zeros(20), jnp.full(20, 0.1)], 1)
    problem = Problem(simulator, x)
    spreads = predict_spreads(simulator, PRIOR, 3)
    first, second, third = problem.data_kernel.lengthscale
    assert 0.3 < spreads[1] < 3
    own = jnp.diff(jnp.quantile(x[:, 0], jnp.array([0.25, 0.75])))[0] / 1.349
    assert_allclose(second / spreads[1], first / own, rtol=1e-12)
    assert third == jnp.inf
    with pytest.warns(owlfi.HealthWarning, match="hardly determine sd"):
        estimate = owlfi.minimum_distance(KEY, problem, RULES["equal"], starts=4, refined=1)
    assert abs(float(estimate["mean"]) + 0.5) < 0.5


def test_replicates_with_constant_columns_have_a_statistic():
    """The column of rare events is constant in some replicates."""

    def rare(theta, u):
        return jnp.stack([theta[0] + u[:, 0], 1.0 * (u[:, 1] > 1.7)], 1)

    simulator = model(rare, prior=Prior(mean=Uniform(-5, 5)))
    x = simulator([1.0], owlfi.iid(jax.random.key(3), 25, Normal(dim=2)))
    assert 0 < x[:, 1].sum() < 6
    rule = VStatistic(64, owlfi.sobol)
    test = owlfi.goodness_of_fit(KEY, Problem(simulator, x), rule, theta=[1.0], resamples=40)
    assert test.about["failed"] == 0
    assert np.isfinite(test.null).all()


def test_prior_predictions_that_fail_are_left_out():
    def failing(theta, u):
        y = jnp.stack([u[:, 0], theta[0] * jnp.ones(len(u))], 1)
        return jnp.where(theta[0] > 0, y, jnp.nan)

    prior = Prior(a=Uniform(-4, 4))
    found = predict_spreads(model(failing, 1, prior), prior, 2)
    assert 0.5 < found[1] < 4
    never = Prior(a=Uniform(-4, -3))
    assert (predict_spreads(model(failing, 1, never), never, 2) == 0).all()


def test_a_host_simulator_of_other_columns_is_refused_where_it_is_asked_for_a_spread():
    simulator = Simulator(
        lambda theta, u: np.ones((len(u), 3)), Normal(), PRIOR.names, prior=PRIOR, on_host=True
    )
    with pytest.raises(ValueError, match="observed has 2 columns where the simulator gives 3"):
        Problem(simulator, np.column_stack([np.arange(5.0), np.zeros(5)]))


# Counts


def test_counts_are_no_error():
    """Half of all pairs of observations coincide."""

    def counts(theta, u):  # smooth in theta on average
        return 1.0 * (u < jnp.exp(-theta[0]))

    prior = Prior(rate=Uniform(0.1, 5))
    simulator = Simulator(counts, Uniform(), prior.names, prior=prior)
    x = simulator([2.0], owlfi.iid(KEY, 100, Uniform()))
    assert x.sum() < 20
    posterior = owlfi.rejection_abc(KEY, Problem(simulator, x), VStatistic(64), draws=1000)
    assert abs(jnp.exp(-posterior.mean[0]) - x.mean()) < 0.1
    with_tuning = owlfi.OptimallyWeighted(16, thetas=4).quadrature(KEY, Problem(simulator, x))
    assert jnp.isfinite(with_tuning.weights).all()


def test_two_samples_of_counts_and_of_columns_in_other_units_are_compared():
    rng = np.random.default_rng(1)
    few, more = rng.poisson(0.1, 80), rng.poisson(0.8, 80)
    assert owlfi.two_sample(KEY, few, more).rejected
    x, y = rng.normal(size=(60, 2)), rng.normal([1.0, 0.0], size=(60, 2))
    unit = np.array([1e-6, 1.0])
    one, other = owlfi.two_sample(KEY, x, y), owlfi.two_sample(KEY, x * unit, y * unit)
    assert_allclose(other.statistic, one.statistic, rtol=1e-9)
    assert other.rejected


def test_recommendation_is_the_same_in_other_units():
    one = owlfi.recommend(model(), 64, theta=[1.0, 0.7])
    other = owlfi.recommend(in_other_units().simulator, 64, theta=[1.0, 0.7])
    assert_allclose(other.excess, one.excess, rtol=0.01)  # a fit ends where rounding lets it
