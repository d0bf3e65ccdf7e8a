"""The composite test keeps its level, has power, counts its cost, and says what is wrong."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import owlfi
from gaussian import LENGTHSCALE, RULE, exact_estimate, gaussian_problem, location
from owlfi import (
    Adam,
    Matern,
    OptimallyWeighted,
    Prior,
    Problem,
    Simulator,
    VStatistic,
    goodness_of_fit,
    wild_goodness_of_fit,
)
from owlfi.experiments.composite_cases import MEDIAN, SOBOL, g_and_k_law, model, prior
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.inference.search.newton import minimise
from owlfi.inference.search.objective import objective_of
from owlfi.inference.search.starts import compare_starts
from owlfi.inference.search.ways import ByRegression
from owlfi.problem.fresh_data import draw_data
from owlfi.results.health import keep_quiet
from owlfi.show.plots import null_histogram
from owlfi.testing.cost import plan_goodness_of_fit
from owlfi.testing.procedure import Designs, Procedure
from owlfi.testing.searches import Newton, Regression
from owlfi.testing.views import rank_scores
from strictness import unchecked

KEY = jax.random.key(2)
PRIOR = gaussian_problem().prior
MANY = 128  # rows: as many as the programs for 80 have room for


@cache
def g_and_k_problem(theta_4=0.1, seed=0):
    return Problem(model(), g_and_k_law(theta_4)(jax.random.key(seed)), prior=prior())


@cache
def usual_test():
    return goodness_of_fit(KEY, gaussian_problem(), RULE, resamples=99)


@cache
def large_test():
    return goodness_of_fit(KEY, gaussian_problem(n=MANY), RULE, resamples=300)


def on_host(problem):
    """The same problem with a generator in NumPy that counts its rows."""
    rows = []

    def generator(theta, u):
        rows.append(len(u))
        return np.float64(theta[0] + u)

    old = problem.simulator
    host = Simulator(generator, old.measure, old.parameters, prior=old.prior, on_host=True)
    return Problem(host, problem.observed, data_kernel=problem.data_kernel), rows


# The procedure


def exact_statistic(problem, theta):
    exact = 1 / np.sqrt(1 + 2 / LENGTHSCALE**2)  # E k(y, y') of two normals
    x = np.asarray(problem.observed)[:, 0]
    wide = LENGTHSCALE**2 + 1
    cross = LENGTHSCALE / np.sqrt(wide) * np.exp(-0.5 * (x - float(theta[0])) ** 2 / wide)
    return exact - 2 * cross.mean() + float(problem.data_term())


def test_statistic_is_the_squared_mmd_at_the_minimum():
    problem, test = gaussian_problem(), usual_test()
    estimate = owlfi.minimum_distance(KEY, problem, RULE)
    assert_allclose(test.theta, estimate.theta, atol=1e-3)  # on other points
    assert_allclose(test.statistic, exact_statistic(problem, test.theta), atol=1e-6)


def test_retuned_weights_make_independent_points_nearly_exact():
    problem = gaussian_problem()
    plain, tuned = (
        goodness_of_fit(KEY, problem, VStatistic(64), resamples=19, retune=retune)
        for retune in (False, True)
    )
    errors = [abs(test.statistic - exact_statistic(problem, test.theta)) for test in (plain, tuned)]
    assert errors[1] < 0.05 * errors[0]
    with pytest.raises(ValueError, match="U-statistic has no weights"):
        goodness_of_fit(KEY, problem, owlfi.UStatistic(8), retune=True)


def test_null_statistics_are_those_of_fits_to_simulated_data():
    """Their mean is the known one of a fitted normal: (1 - E k)/n less what the fit explains."""
    null = np.asarray(large_test().null)
    wide = LENGTHSCALE**2 + 1
    norm2 = 1 / np.sqrt(1 + 2 / LENGTHSCALE**2)
    u, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    mean = LENGTHSCALE / np.sqrt(wide) * np.exp(-0.5 * u**2 / wide)
    slope = mean * u / wide
    metric = LENGTHSCALE / (LENGTHSCALE**2 + 2) ** 1.5  # |∂μ|² of a shifted normal
    expected = (1 - norm2 - (w @ slope**2) / metric) / MANY
    assert_allclose(null.mean(), expected, atol=4 * null.std() / np.sqrt(300) + 0.02 * expected)


def test_observed_data_go_through_the_procedure_of_the_replicates():
    """A replicate equal to the observed data has its statistic."""
    problem = gaussian_problem()
    quadrature = RULE.quadrature(KEY, problem)
    u, w = quadrature.points[None], quadrature.weights[None]
    designs = Designs(u, w, u[:, None], w[:, None])
    objective = objective_of(problem, quadrature)
    procedure = Procedure(objective, designs, jnp.zeros((0, 1)), (1.0,), Newton(0))
    one = procedure.refit(KEY, problem.observed, problem.data_kernel, jnp.array([1.0]))
    two = procedure.refit(KEY, problem.observed, problem.data_kernel, one.theta)
    assert_allclose(one.statistics, two.statistics, atol=1e-9)


@pytest.mark.slow
def test_a_coarse_design_moves_replicates_no_more_than_the_data():
    """Fits on these 16 points are off by more than 0.1, those of the replicates by the same."""
    problem = gaussian_problem(n=MANY)
    test = goodness_of_fit(KEY, problem, VStatistic(16), resamples=99)
    assert abs(float(test.theta[0]) - exact_estimate(problem)) > 0.1
    thetas = np.asarray(test.null_thetas)[:, 0]
    noise = thetas.std() / np.sqrt(99)
    assert_allclose(thetas.mean(), test.theta[0], atol=4 * noise + 0.01)  # of 1,024 points


@pytest.mark.slow
def test_estimate_is_in_the_lowest_minimum():
    """The best start, judged by a quarter of the points, is in the basin of a higher one."""
    data_key, key = jax.random.split(
        jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 46), 0)
    )
    problem = Problem(model(), g_and_k_law(0.1)(data_key), prior=prior())
    test = goodness_of_fit(key, problem, SOBOL, resamples=19)
    assert_allclose(test.theta, [3.0, 1.0, 0.1, 0.1], atol=0.2)


def test_same_key_gives_the_same_test_whatever_the_threads():
    again = goodness_of_fit(KEY, gaussian_problem(), RULE, resamples=99)
    assert again.p_value == usual_test().p_value
    assert jnp.array_equal(again.null, usual_test().null)


class InUnits(eqx.Module):
    unit: jax.Array  # no constant: both share one program

    def __call__(self, theta, u):
        return self.unit * (theta[0] + u)


def test_lengthscale_is_chosen_again_in_each_replicate():
    """So the statistic does not change with the unit of the data."""
    problem = gaussian_problem()
    free, twice = (
        goodness_of_fit(
            KEY,
            Problem(
                Simulator(InUnits(jnp.array(c)), owlfi.Normal(), ["mean"]),
                c * problem.observed,
                prior=problem.prior,
            ),
            RULE,
            resamples=39,
        )
        for c in (1.0, 2.0)
    )
    assert_allclose(free.null, twice.null, rtol=1e-5)
    assert free.p_value == twice.p_value


@pytest.mark.slow
def test_host_simulator_gives_the_same_test():
    problem, _ = on_host(gaussian_problem())
    options = {"resamples": 20, "restarts": 0}
    host = goodness_of_fit(KEY, problem, RULE, **options)
    usual = goodness_of_fit(KEY, gaussian_problem(), RULE, **options)
    assert_allclose(host.null, usual.null, atol=1e-8)
    assert host.p_value == usual.p_value


# Level and power


def rejections(repeats, n=80, resamples=19, level=0.05, **options):
    """Of a true hypothesis."""
    return sum(
        goodness_of_fit(
            jax.random.key(i),
            gaussian_problem(seed=100 + i, n=n),
            options.get("rule", RULE),
            resamples=resamples,
            level=level,
            **{name: value for name, value in options.items() if name != "rule"},
        ).rejected
        for i in range(repeats)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"theta": [1.3]}, {"rule": VStatistic(30), "designs": 8}, {"aggregate": True}],
)
def test_level_is_kept(options):
    count = rejections(60, level=0.2, **options)
    assert scipy.stats.binomtest(count, 60, 0.2).pvalue > 1e-3


def told(words):
    return pytest.warns(owlfi.HealthWarning, match=words)


def test_wrong_variance_is_seen():
    problem = gaussian_problem(n=MANY)
    spread = 1.3 + 2 * (problem.observed - 1.3)
    wrong = Problem(problem.simulator, spread, prior=problem.prior)
    assert goodness_of_fit(KEY, wrong, RULE, resamples=99).p_value == 0.01
    with told(f"beyond what {MANY} observations"), told("observations are unlike all simulations"):
        assert wild_goodness_of_fit(KEY, wrong, RULE).p_value == 0.001


def test_wrong_theta_is_seen_and_right_theta_is_not():
    problem = gaussian_problem(n=MANY)
    assert goodness_of_fit(KEY, problem, RULE, theta=[1.8], resamples=99).rejected
    assert not goodness_of_fit(KEY, problem, RULE, theta=[1.3], resamples=99).rejected


@pytest.mark.slow
def test_heavier_tails_are_seen_by_the_aggregate():
    test = goodness_of_fit(KEY, g_and_k_problem(0.5), MEDIAN, aggregate=True, resamples=39)
    assert test.rejected
    assert test.about["failed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", [RULE, VStatistic(40)])
def test_wild_bootstrap_keeps_its_level(rule):
    with keep_quiet():  # 40 independent points are few, as one result in 200 says
        p = [
            wild_goodness_of_fit(
                jax.random.key(i), gaussian_problem(seed=i, n=100), rule, resamples=99
            ).p_value
            for i in range(200)
        ]
    assert scipy.stats.binomtest(sum(v <= 0.2 for v in p), 200, 0.2).pvalue > 1e-3


def test_wild_null_has_the_distribution_of_the_parametric_one():
    problem = gaussian_problem(n=MANY)
    wild = wild_goodness_of_fit(KEY, problem, RULE, resamples=999)
    refitted = large_test()
    assert_allclose(wild.null.mean(), refitted.null.mean(), rtol=0.2)
    assert_allclose(wild.critical_value, refitted.critical_value, rtol=0.3)


@pytest.mark.slow
def test_second_order_fits_are_as_good_as_those_of_adam():
    problem = g_and_k_problem()
    quadrature = MEDIAN.quadrature(KEY, problem)
    objective = objective_of(problem, quadrature)
    theta = minimise(
        objective, compare_starts(KEY, problem, objective, quadrature, 16).thetas[0]
    ).theta
    bank = quadrature.points[None], quadrature.weights[None]
    trials = problem.prior.starts(KEY, 50)
    trials = jnp.concatenate([trials[:1], trials])  # the first is the estimate, which it ignores
    by_adam = eqx.filter_jit(lambda k, o: Adam().minimise(k, o, bank, trials).value)
    better = 0
    for i in range(40):
        key, adam_key = jax.random.split(jax.random.key(i))
        x = problem.simulator.rows(theta, owlfi.iid(key, 500, problem.simulator.measure))
        other = objective.with_data(x)
        better += bool(minimise(other, theta).value <= by_adam(adam_key, other) + 1e-9)
    assert better >= 38


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"aggregate": True}, {"rule": VStatistic(40)}])
def test_level_is_kept_over_many_tests(options):
    count = rejections(400, n=100, resamples=99, **options)
    assert scipy.stats.binomtest(count, 400, 0.05).pvalue > 1e-3


# Cost


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (RULE, {}),
        (RULE, {"theta": [1.3]}),
        (RULE, {"aggregate": True}),
        (VStatistic(64), {}),
        pytest.param(VStatistic(64), {"retune": True, "aggregate": True}, marks=pytest.mark.slow),
        pytest.param(
            OptimallyWeighted(m=16, thetas=20),
            {"theta": [1.3], "designs": 2},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_plan_bounds_the_calls(rule, options):
    problem = gaussian_problem()
    test = goodness_of_fit(KEY, problem, rule, resamples=39, **options)
    cost = plan_goodness_of_fit(problem, rule, resamples=39, **options)
    assert test.calls <= cost.at_most
    assert 0.2 * cost.expected <= test.calls <= 2 * cost.expected


@pytest.mark.parametrize("retune", [pytest.param(False, marks=pytest.mark.slow), True])
def test_calls_are_the_rows_that_were_simulated(retune):
    problem, rows = on_host(gaussian_problem())
    rows.clear()
    options = {"resamples": 9, "level": 0.2, "retune": retune}
    test = goodness_of_fit(KEY, problem, RULE, **options)
    assert test.calls == sum(rows)
    assert test.calls <= plan_goodness_of_fit(problem, RULE, **options).at_most


def test_adam_costs_what_the_plan_says():
    problem, settings = gaussian_problem(), Adam(trials=6, restarts=2, steps=60, rate=0.1)
    test = goodness_of_fit(KEY, problem, RULE, resamples=19, search=settings)
    assert test.calls == plan_goodness_of_fit(problem, RULE, resamples=19, search=settings).expected
    assert_allclose(test.theta, usual_test().theta, atol=0.1)


# Failures and bad input


def test_other_rows_are_drawn_for_those_of_replicates_that_fail():
    """A model that breaks on rare noise, which the design has not seen."""

    def fragile(theta, u):
        return jnp.where(u > 2.8, jnp.nan, theta[0] + u)

    old = gaussian_problem()
    simulator = Simulator(fragile, owlfi.Normal(), ["mean"], prior=old.prior)
    points = owlfi.Uniform(-2.0, 2.0)
    rule = OptimallyWeighted(
        m=16, points=lambda key, m, _: owlfi.sobol(key, m, points), base_kernel=Matern(1.5, 1.0)
    )
    problem = Problem(simulator, old.observed, data_kernel=old.data_kernel)
    with pytest.warns(owlfi.HealthWarning, match="less than 1% of the simulations failed"):
        test = goodness_of_fit(KEY, problem, rule, resamples=99)
    assert test.about["failed"] == 0
    assert np.isfinite(test.null).all()


def test_failed_replicates_are_counted_and_only_make_p_larger(monkeypatch):
    def fails_often(simulator, key, *settings):
        fresh = draw_data(simulator, key, *settings)
        bad = jax.random.uniform(key) < 0.1
        return fresh._replace(rows=jnp.where(bad, jnp.nan, fresh.rows))

    monkeypatch.setattr("owlfi.testing.goodness_of_fit.draw_data", fails_often)
    with pytest.warns(owlfi.HealthWarning, match=r"of 99 fits to replicates failed and count as"):
        test = goodness_of_fit(KEY, gaussian_problem(), RULE, resamples=99)
    assert 2 <= test.about["failed"] <= 50
    assert np.isinf(test.null).sum() == test.about["failed"]
    assert test.p_value >= (1 + test.about["failed"]) / 100
    assert f"{test.about['failed']} fits to replicates failed" in test.summary()


def test_wild_bootstrap_refuses_a_model_that_breaks_at_the_estimate():
    old = gaussian_problem()
    fragile = Simulator(
        lambda theta, u: jnp.where(u > 2.2, jnp.nan, theta[0] + u),
        owlfi.Normal(),
        ["mean"],
        prior=old.prior,
    )
    rule = OptimallyWeighted(m=8, base_kernel=Matern(1.5, 1.0))
    with pytest.raises(ValueError, match="y is NaN or infinite for some u at the estimate"):
        wild_goodness_of_fit(KEY, Problem(fragile, old.observed, data_kernel=old.data_kernel), rule)


def rounded_problem(spread=2.0):
    """Whole numbers, which have no slopes; the model has a spread of 2."""
    rounded = Simulator(
        lambda theta, u: jnp.round(theta[0] + 2 * u), owlfi.Normal(), ["mean"], prior=PRIOR
    )
    u = owlfi.iid(KEY, 100, rounded.measure)
    return Problem(rounded, rounded([1.3], spread / 2 * u))


def test_regressions_on_more_points_stay_at_the_estimate():
    """Whatever ends the prior has: where it has two, theta is its own place."""
    prior = owlfi.Prior(mean=owlfi.Uniform(20.0, 40.0))
    model = Simulator(
        lambda theta, u: jnp.round(theta[0] + 2 * u), owlfi.Normal(), prior.names, prior=prior
    )
    problem = Problem(model, model([31.0], owlfi.iid(KEY, 100, model.measure)))
    objective = objective_of(problem, VStatistic(64, owlfi.sobol).quadrature(KEY, problem))
    landing = ByRegression().search(objective, jnp.array([30.0]))
    refined = Regression.at(landing).refine(objective, landing.minimum.theta)
    assert_allclose(refined.theta, landing.minimum.theta, atol=0.1)


def test_models_without_slopes_are_fitted_by_regression():
    rule = VStatistic(64, owlfi.sobol)
    true = goodness_of_fit(KEY, rounded_problem(), rule, resamples=39)
    wrong = goodness_of_fit(KEY, rounded_problem(spread=5.0), rule, resamples=39)
    assert true.p_value > 0.05
    assert abs(true.theta[0] - 1.3) < 1.0
    assert wrong.p_value == 1 / 40


def test_models_without_slopes_have_tangents_by_regression():
    rule = VStatistic(64, owlfi.sobol)
    assert wild_goodness_of_fit(KEY, rounded_problem(), rule, designs=4).p_value > 0.05
    with told("beyond what 100 observations"), told("observations are unlike all simulations"):
        test = wild_goodness_of_fit(KEY, rounded_problem(spread=5.0), rule, designs=4)
    assert test.p_value < 0.02


def test_adam_refuses_models_without_slopes():
    with pytest.raises(ValueError, match="Adam needs the derivatives"):
        goodness_of_fit(KEY, rounded_problem(), RULE, resamples=19, search=Adam())


def test_discrete_data_serve_with_weights_that_tune_themselves():
    x = (np.random.default_rng(0).normal(size=40) > 1).astype(float)
    problem = Problem(gaussian_problem().simulator, x, data_kernel=Matern(1.5, 1.0))
    quadrature = OptimallyWeighted(m=16).quadrature(KEY, problem)
    assert_allclose(quadrature.sum_of_weights, 1.0, atol=0.1)


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (4, {}, "observed has 4 rows"),
        (50, {"resamples": 18}, "use at least 19"),
        (50, {"level": 0.0}, "level must lie between 0 and 1"),
        (50, {"theta": [1.0, 2.0]}, r"theta must hold 1 numbers \(mean\)"),
        (50, {"designs": 0}, "designs must be a whole number"),
    ],
)
def test_bad_options_are_named(n, options, message):
    with pytest.raises(ValueError, match=message):
        goodness_of_fit(KEY, gaussian_problem(n=n), RULE, **options)


def test_constant_data_are_refused():
    simulator = gaussian_problem().simulator
    with pytest.raises(ValueError, match="20 rows that are all equal"):
        Problem(simulator, np.ones(20))
    problem = Problem(simulator, np.ones(20), data_kernel=Matern(1.5, 1.0))
    with pytest.raises(ValueError, match="observed is constant"):
        goodness_of_fit(KEY, problem, RULE)


def test_aggregate_stretches_kernels_of_any_kind():
    """A sum has no lengthscale of its own: its terms are stretched, as the data would be shrunk."""
    old, k = gaussian_problem(), Matern(1.5, 1.0) + 0.1
    x = old.observed
    assert_allclose(k.stretch(2.0).gram(x, x), k.gram(x / 2, x / 2), rtol=1e-12)
    problem = Problem(old.simulator, x, data_kernel=k)
    test = goodness_of_fit(KEY, problem, RULE, theta=[1.3], aggregate=True, resamples=19)
    assert len(test.about["statistics"]) == 6 + 2


def test_discrete_parameters_and_the_u_statistic_are_refused_where_they_cannot_be():
    simulator = Simulator(location, owlfi.Normal(), ["mean"])
    discrete = Problem(simulator, gaussian_problem().observed, prior=Prior(mean=owlfi.Poisson(2.0)))
    with pytest.raises(ValueError, match="needs continuous parameters"):
        goodness_of_fit(KEY, discrete, RULE)
    with pytest.raises(ValueError, match="use VStatistic"):
        wild_goodness_of_fit(KEY, gaussian_problem(), owlfi.UStatistic(32))


def test_u_statistic_serves():
    test = goodness_of_fit(KEY, gaussian_problem(), owlfi.UStatistic(64), resamples=39)
    assert not test.rejected


def test_test_survives_a_file_and_has_a_picture(tmp_path):
    test = usual_test()
    again = owlfi.load(test.save(tmp_path / "test"))
    assert again.summary() == test.summary()
    assert jnp.array_equal(again.null_thetas, test.null_thetas)
    null_histogram(test).savefig(tmp_path / "null.png")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 5}, "restarts = 10 of trials = 5"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"rate": -0.1}, "rate must be positive"),
    ],
)
def test_settings_of_adam_are_looked_at_when_they_are_made(settings, message):
    with pytest.raises(ValueError, match=message):
        Adam(**settings)


@pytest.mark.parametrize("search", ["adam", None])
def test_other_searches_are_refused(search):
    with pytest.raises(ValueError, match=r"search must be 'newton' or Adam"):
        goodness_of_fit(KEY, gaussian_problem(), RULE, search=search)


@pytest.mark.slow
def test_failures_on_the_host_are_not_taken_for_a_constant_model():
    def fragile(theta, u):
        return np.where(np.abs(u) > 2.3, np.nan, theta[0] + u)

    old = gaussian_problem()
    host = Simulator(fragile, owlfi.Normal(), ["mean"], prior=old.prior, on_host=True)
    problem, rule = Problem(host, old.observed), VStatistic(64, owlfi.sobol)
    with pytest.warns(owlfi.HealthWarning, match="2% of the simulations failed at the estimate"):
        goodness_of_fit(jax.random.key(3), problem, rule, resamples=19)


def test_what_is_no_rule_is_refused_and_so_is_adam_without_gradients():
    with unchecked(), pytest.raises(ValueError, match="rule must be a rule"):
        goodness_of_fit(KEY, gaussian_problem(), "optimal")
    with pytest.raises(ValueError, match="use search='newton'"):
        goodness_of_fit(KEY, on_host(gaussian_problem())[0], RULE, search=Adam())


def test_host_simulators_of_another_dimension_are_named():
    wide = Simulator(
        lambda theta, u: np.hstack([theta[0] + u] * 2),
        owlfi.Normal(),
        ["mean"],
        prior=PRIOR,
        on_host=True,
    )
    with pytest.raises(ValueError, match="observed has 1 columns where the simulator gives 2"):
        goodness_of_fit(KEY, Problem(wide, gaussian_problem().observed), RULE)


def test_plan_takes_and_checks_the_options_of_the_test():
    assert plan_goodness_of_fit(gaussian_problem(), RULE, designs=4).expected > 0
    with pytest.raises(ValueError, match="resamples = 1 can never reject"):
        plan_goodness_of_fit(gaussian_problem(), RULE, resamples=1)


# Views of the aggregate


def test_ranks_are_those_of_scipy_with_ties():
    rows = np.array([[1.0, 5.0], [2.0, 5.0], [2.0, 1.0], [7.0, 3.0]])
    expected = scipy.stats.norm.ppf((scipy.stats.rankdata(rows, axis=0) - 0.5) / 4)
    assert_allclose(rank_scores(jnp.asarray(rows)), expected, atol=1e-12)


@cache
def copula_test(student, seed, aggregate=True):
    """The log-normal copula, or Student's with 3 degrees of freedom and the same margins."""
    data_key, scale_key, key = jax.random.split(jax.random.key(seed), 3)
    case = PROBLEMS["log-normal copula"]
    z = (np.log(np.asarray(case.observe(data_key))) - 0.5) / 0.7
    scale = np.sqrt(3 / scipy.stats.chi2(3).ppf(jax.random.uniform(scale_key, (len(z), 1))))
    z = scipy.stats.norm.ppf(scipy.stats.t(3).cdf(z * scale)) if student else z
    problem = Problem(case.make(), np.exp(0.5 + 0.7 * z))
    rule = owlfi.OptimallyWeighted(m=64)
    return goodness_of_fit(key, problem, rule, aggregate=aggregate, resamples=99)


@pytest.mark.slow
def test_a_wrong_copula_under_right_margins_is_seen_by_ranks():
    tests = [copula_test(True, seed) for seed in range(20)]
    assert np.mean([test.rejected for test in tests]) >= 0.5
    assert any("ranks" in test.about["largest"] for test in tests if test.rejected)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", [False, True])
def test_p_values_of_a_true_copula_are_uniform(aggregate):
    found = [copula_test(False, seed, aggregate).p_value for seed in range(150)]
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.01


def test_wild_bootstrap_sees_beforehand_that_memory_will_not_do():
    with pytest.raises(ValueError, match=r"half of the memory.*take fewer designs, or goodness_of"):
        wild_goodness_of_fit(KEY, gaussian_problem(), RULE, designs=100_000)
