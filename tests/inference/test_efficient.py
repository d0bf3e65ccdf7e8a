"""The efficient discrepancy: as good as the likelihood where the answer is known, and robust."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

import owlfi
from gaussian import RULE, gaussian_problem
from owlfi._tools.real_line import to_real
from owlfi.experiments.likelihoods import g_and_k_log_likelihood, maximum_likelihood
from owlfi.inference.efficient.distance import distance_from
from owlfi.inference.efficient.features import make_features, sum_features, weigh_features
from owlfi.inference.efficient.moments import model_around
from owlfi.inference.efficient.weighting import choose_weighting, full_weights
from owlfi.inference.fit import find_minimum
from owlfi.inference.outliers import chances_of, find_outliers
from owlfi.inference.refined_fit import refine_fit
from owlfi.inference.search.stage import Stage

KEY = jax.random.key(1)
RULE_OF_COUNTS = owlfi.VStatistic(64, owlfi.sobol)


def fit(problem, rule=RULE, **options):
    return owlfi.minimum_distance(KEY, problem, rule, discrepancy="efficient", **options)


def with_strays(problem, strays):
    """The first rows at 50, which the model never gives."""
    x = np.array(problem.observed)
    x[:strays] = 50 + np.linspace(-1, 1, strays)[:, None]
    return owlfi.Problem(problem.simulator, x, data_kernel=problem.data_kernel)


def test_the_mean_of_normal_data_is_estimated_as_by_the_likelihood():
    problem = gaussian_problem()
    x = np.asarray(problem.observed)
    found = fit(problem)
    error = 1 / np.sqrt(len(x))
    assert abs(found["mean"] - x.mean()) < 0.1 * error  # features stand for the score to 1%
    np.testing.assert_allclose(found.standard_errors, [x.std() / np.sqrt(len(x))], rtol=0.1)
    assert found.warnings == ()
    assert found.outliers == ()
    np.testing.assert_allclose(found.mass, 1.0, atol=0.01)
    assert found.misfit > 1e-3


@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_far_rows_lose_all_influence_and_are_named():
    problem = with_strays(gaussian_problem(), 8)
    inliers = np.asarray(problem.observed)[8:]
    found = fit(problem)
    assert found.outliers == tuple(range(8))
    assert abs(found["mean"] - inliers.mean()) < 0.1 / np.sqrt(len(inliers))
    np.testing.assert_allclose(found.mass, 0.9, atol=0.02)
    assert "8 of 80 observations do not fit" in found.warnings[0]
    assert np.all(np.asarray(found.influence)[:, :8] == 0)
    assert "The model explains 89.9%" in found.summary()


@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
@pytest.mark.parametrize("strays", [0, 8])
def test_bootstrap_draws_are_as_wide_as_the_likelihood_of_the_inliers_leaves_them(strays):
    problem, draws = with_strays(gaussian_problem(), strays), 200
    x = np.asarray(problem.observed)[strays:]
    found = owlfi.posterior_bootstrap(KEY, problem, RULE, draws=draws, discrepancy="efficient")
    error = x.std() / np.sqrt(len(x))
    assert abs(found.mean[0] - x.mean()) < (0.1 + 4 / np.sqrt(draws)) * error
    np.testing.assert_allclose(found.sd, [error], rtol=0.1 + 4 / np.sqrt(2 * draws))
    assert found.about["failed"] == 0
    plain = owlfi.posterior_bootstrap(KEY, problem, RULE, draws=draws)
    assert found.calls < plain.calls
    assert found.sd[0] < plain.sd[0]


def test_distance_of_runs_is_the_ratio_of_likelihoods():
    """n (theta - mean)² of normal data with variance 1, up to 2 standard errors away."""
    problem = gaussian_problem()
    x, quadrature = np.asarray(problem.observed), RULE.quadrature(KEY, problem)
    fit_of = find_minimum("a test", KEY, problem, RULE)
    distance, calls = distance_from(
        problem, refine_fit(KEY, RULE, fit_of, False).refined.balance, quadrature
    )
    assert calls == 64
    thetas = x.mean() + np.linspace(-2, 2, 9)[:, None] / np.sqrt(len(x))
    runs = owlfi.simulate(problem.simulator, jnp.asarray(thetas), quadrature)
    ratios = len(x) * ((thetas - x.mean()) ** 2)[:, 0] / x.var()
    np.testing.assert_allclose(distance.measure(runs), ratios, rtol=0.1, atol=0.05)
    assert distance.explained(0.95) == pytest.approx(1.959964**2)


@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_abc_by_the_efficient_discrepancy_does_without_strays():
    """Draws between ± 1.96 errors of the inliers' mean are all as good: a uniform law."""
    problem = with_strays(gaussian_problem(), 8)
    x = np.asarray(problem.observed)[8:]
    found = owlfi.sequential_abc(KEY, problem, RULE, discrepancy="efficient")
    error, effective = x.std() / np.sqrt(len(x)), found.about["effective_draws"]
    assert found.about["thresholds"][-1] == pytest.approx(1.959964**2)
    assert abs(found.mean[0] - x.mean()) < (0.1 + 4 / np.sqrt(effective)) * error
    np.testing.assert_allclose(found.sd, [1.96 / 3**0.5 * error], rtol=0.1 + 3 / effective**0.5)
    assert "8 of 80 observations do not fit" in found.warnings[0]
    plain = owlfi.rejection_abc(KEY, problem, RULE, discrepancy="mmd", adjust=True)
    adjusted = owlfi.rejection_abc(KEY, problem, RULE, discrepancy="efficient", adjust=True)
    assert abs(adjusted.mean[0] - x.mean()) < 0.4 * error < abs(plain.mean[0] - x.mean())
    np.testing.assert_allclose(adjusted.sd, [error], rtol=0.25)


def test_abc_refuses_another_discrepancy_before_any_run():
    problem = gaussian_problem()
    for method in (owlfi.rejection_abc, owlfi.sequential_abc):
        with pytest.raises(ValueError, match="discrepancy must be 'mmd' or 'efficient', got 'ml'"):
            method(KEY, problem, RULE, discrepancy="ml")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_bootstrap_of_counts_simulates_nothing_beyond_the_fit():
    prior = owlfi.Prior(rate=owlfi.Uniform(0.1, 20.0))
    model = owlfi.Simulator(
        lambda theta, u: poisson.ppf(u, theta[0]).astype(float),
        owlfi.Uniform(),
        prior.names,
        prior=prior,
        on_host=True,
    )
    x = np.random.default_rng(0).poisson(4.0, 100)
    problem, rule = owlfi.Problem(model, x), RULE_OF_COUNTS
    few, many = (
        owlfi.posterior_bootstrap(KEY, problem, rule, draws=draws, discrepancy="efficient")
        for draws in (50, 400)
    )
    assert few.calls == many.calls
    error = np.sqrt(x.mean() / 100)
    assert abs(many.mean[0] - x.mean()) < 0.5 * error
    np.testing.assert_allclose(many.sd, [error], rtol=0.35)


@pytest.mark.slow
def test_generalised_posterior_is_as_wide_as_the_likelihood_leaves_it():
    problem, draws = gaussian_problem(), 250
    x = np.asarray(problem.observed)
    options = {"draws": draws, "warmup": 200, "discrepancy": "efficient"}
    for beta in (None, len(x) / 2):
        found = owlfi.mmd_bayes(KEY, problem, RULE, beta=beta, **options)
        error, effective = x.std() / np.sqrt(len(x)), found.about["effective_draws"][0]
        assert abs(found.mean[0] - x.mean()) < (0.1 + 4 / np.sqrt(effective)) * error
        np.testing.assert_allclose(found.sd, [error], rtol=0.1 + 4 / np.sqrt(2 * effective))


def test_generalised_posterior_of_counts_needs_the_plain_discrepancy():
    prior = owlfi.Prior(rate=owlfi.Uniform(0.5, 20.0))
    model = owlfi.Simulator(
        lambda theta, u: jnp.floor(theta[0] * u), owlfi.Uniform(), prior.names, prior=prior
    )
    x = model([8.0], owlfi.iid(KEY, 80, model.measure))
    with pytest.raises(ValueError, match="discrepancy='efficient' needs the derivatives"):
        owlfi.mmd_bayes(KEY, owlfi.Problem(model, x), RULE_OF_COUNTS, discrepancy="efficient")


def test_bootstrap_refuses_a_prior_strength_that_would_be_left_out():
    options = {"discrepancy": "efficient", "prior_strength": 2.0}
    with pytest.raises(ValueError, match="prior_strength must be 0 with discrepancy='efficient'"):
        owlfi.posterior_bootstrap(KEY, gaussian_problem(), RULE, **options)


@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_a_model_that_does_not_fit_is_said_not_to():
    signs = np.tile([-2.0, 2.0], 40)
    x = signs + 0.3 * np.random.default_rng(0).normal(size=80)
    problem = gaussian_problem()
    told = fit(owlfi.Problem(problem.simulator, x, data_kernel=problem.data_kernel))
    assert told.misfit < 1e-3
    assert any("the model does not fit" in sentence for sentence in told.warnings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning", "ignore::RuntimeWarning")
def test_parameters_that_are_not_told_apart_get_a_word():
    prior = owlfi.Prior(a=owlfi.Uniform(-3, 3), b=owlfi.Uniform(-3, 3))
    model = owlfi.Simulator(
        lambda theta, u: theta[0] + theta[1] + u, owlfi.Normal(), prior.names, prior=prior
    )
    problem = owlfi.Problem(model, gaussian_problem().observed)
    found = fit(problem)
    assert found.mass is None
    assert any("cannot tell the parameters apart" in sentence for sentence in found.warnings)
    assert np.isinf(found.standard_errors).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_too_few_observations_get_the_plain_estimate_and_a_word():
    problem = gaussian_problem(n=2)
    found = fit(problem)
    assert found.mass is None
    assert found.warnings


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_too_few_calls_leave_the_plain_estimate():
    problem = gaussian_problem()
    plain = owlfi.minimum_distance(KEY, problem, RULE)
    found = fit(problem, max_calls=plain.calls + 600)
    assert found.theta == plain.theta
    assert any("calls ended" in sentence for sentence in found.warnings)
    assert found.calls <= plain.calls + 600


def test_another_discrepancy_is_refused():
    with pytest.raises(ValueError, match="discrepancy must be 'mmd' or 'efficient', got 'best'"):
        owlfi.minimum_distance(KEY, gaussian_problem(), RULE, discrepancy="best")


def test_what_is_known_of_observations_is_kept_in_files(tmp_path):
    found = fit(gaussian_problem())
    again = owlfi.load(found.save(tmp_path / "estimate"))
    assert again.mass == found.mass
    assert again.misfit == found.misfit
    np.testing.assert_array_equal(again.chances, found.chances)
    assert again.influence.shape == (1, 80)


def test_an_observation_moves_the_estimate_by_its_influence():
    problem = gaussian_problem()
    found = fit(problem)
    moved = np.asarray(found.influence)[0] * float(found.standard_errors[0])
    x = np.asarray(problem.observed)[:, 0]
    expected = (x - found["mean"]) / len(x)  # that of the mean
    usual = np.abs(x - found["mean"]) < 2
    np.testing.assert_allclose(moved[usual], expected[usual], atol=0.15 / len(x))


class TestFeatures:
    y = jnp.asarray(np.random.default_rng(0).normal(size=(64, 2)))
    features = make_features(y, jnp.stack([jnp.ones_like(y), y]), y)
    rows = jnp.asarray(np.random.default_rng(1).normal(size=(300, 2)))

    def test_they_are_bounded_and_vanish_far_away(self):
        far, distances = self.features(jnp.array([[1e3, 0.0], [1e8, -1e8]]))
        assert np.abs(far).max() < 1e-12
        assert np.all(np.asarray(distances) > 500)

    def test_the_slopes_of_the_embedding_are_among_them(self):
        h = 1e-5
        one, other = (
            jnp.exp(
                -0.5
                * ((self.features.whitening(self.rows)[:, None] - centres[None]) ** 2).sum(2)
                / self.features.lengthscales[0] ** 2
            ).mean(1)
            for centres in (self.features.whitening(self.y * (1 + s)) for s in (-h, h))
        )
        slope = (other - one) / (2 * h)
        np.testing.assert_allclose(self.features(self.rows)[0][:, 2], slope, atol=1e-6)

    def test_sums_over_blocks_are_those_over_all_rows(self):
        shares = np.random.default_rng(2).dirichlet(np.ones(300))
        found, distances = map(np.asarray, self.features(self.rows))
        sums = sum_features(self.features, self.rows, jnp.asarray(shares))
        np.testing.assert_allclose(sums.mean, shares @ found, rtol=1e-10, atol=1e-14)
        covariance = np.cov(found.T, aweights=shares, bias=True)
        np.testing.assert_allclose(sums.covariance, covariance, atol=1e-12)
        np.testing.assert_allclose(sums.distances, distances)
        b = np.random.default_rng(3).normal(size=(2, found.shape[1]))
        np.testing.assert_allclose(
            weigh_features(self.features, self.rows, jnp.asarray(b)), b @ found.T, rtol=1e-9
        )


class TestMoments:
    problem = gaussian_problem()
    stage = Stage(problem, RULE.quadrature(KEY, problem))
    v = to_real(jnp.array([1.3]), problem.prior.bounds)

    def test_slopes_are_those_of_the_mean(self):
        model, _ = model_around(KEY, RULE, self.stage, self.v, None)
        h = 1e-4
        moments, calls = model.look(self.v)
        change = (model.mean(self.v + h)[0] - model.mean(self.v - h)[0]) / (2 * h)
        np.testing.assert_allclose(moments.slopes.mean(0)[:, 0], change, atol=1e-6)
        assert calls == model.objective.m

    def test_the_weights_know_the_parameters_from_the_mass(self):
        model, _ = model_around(KEY, RULE, self.stage, self.v, None)
        moments, _ = model.look(self.v)
        chosen = choose_weighting(model.features, moments, 0.9, np.ones(1))
        b, _, jacobian = full_weights(chosen, moments, 0.9)
        np.testing.assert_allclose(b @ jacobian, np.eye(2), atol=1e-8)


class TestOutliers:
    def test_chances_are_uniform_where_the_model_is_right(self):
        rng = np.random.default_rng(0)
        chances = chances_of(rng.normal(size=4000) ** 2, rng.normal(size=4000) ** 2)
        for level in (0.5, 0.1, 0.01):  # four standard errors of both samples
            spread = 4 * np.sqrt(2 * level * (1 - level) / 4000)
            np.testing.assert_allclose((chances <= level).mean(), level, atol=spread)

    def test_a_single_far_row_is_seen_beyond_all_simulations(self):
        rng = np.random.default_rng(1)
        distances = np.append(rng.normal(size=99) ** 2, 100.0)
        chances = chances_of(distances, rng.normal(size=200) ** 2)
        assert np.flatnonzero(find_outliers(chances)).tolist() == [99]

    def test_simulations_that_all_agree_have_ranks_alone(self):
        chances = chances_of(np.array([0.0, 1.0]), np.zeros(10))
        np.testing.assert_allclose(chances, [1.0, 1 / 11])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
@pytest.mark.parametrize("strays", [0, 20])
def test_g_and_k_is_fitted_about_as_well_as_by_the_likelihood(strays):
    truth = np.array([3.0, 1.0, 0.5, 0.2])
    model = owlfi.models.g_and_k()
    low, high = map(np.asarray, model.prior.bounds)
    errors, best, covered = [], [], []
    for number in range(20):
        x = np.array(model(truth, owlfi.iid(jax.random.key(number), 200, model.measure)))
        best.append(
            maximum_likelihood(
                g_and_k_log_likelihood, model.prior, jnp.asarray(truth), jnp.asarray(x[strays:])
            )
            - truth
        )
        x[:strays] = 50 + np.linspace(-1, 1, strays)[:, None]
        found = fit(owlfi.Problem(model, x), owlfi.VStatistic(128, owlfi.sobol), refined=1)
        errors.append(np.asarray(found.theta) - truth)
        low_end, high_end = map(np.asarray, found.interval())
        covered.append((low_end <= truth) & (truth <= high_end))
    rmse, reference = (
        (np.sqrt(np.mean(np.square(e), 0)) / (high - low)).mean() for e in (errors, best)
    )
    assert rmse < 1.25 * reference  # 1.0 to 1.05 over 100 data sets
    assert np.mean(covered) > 0.8  # 80 intervals, of which 4 in 5 data sets are independent


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")  # 64 points are few for so many
def test_memory_does_not_grow_with_a_hundred_thousand_rows():
    model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    x = model([3.0, 1.0], owlfi.iid(KEY, 100_000, model.measure))
    found = fit(owlfi.Problem(model, x), owlfi.VStatistic(64, owlfi.sobol))
    assert found.outliers == ()
    away = (np.asarray(found.theta) - [3.0, 1.0]) / np.asarray(found.standard_errors)
    assert np.abs(away).max() < 4
