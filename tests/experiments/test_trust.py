"""Whether intervals and warnings are true: the problems, and how they are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_equal

from owlfi.experiments import EXPERIMENTS
from owlfi.experiments.experiment import Plan
from owlfi.experiments.ou_and_ricker import ornstein_uhlenbeck, process_maximum_likelihood
from owlfi.experiments.trust import as_written, counts, estimates, series, smooth
from owlfi.experiments.trust.case import Case, make_simulator
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.experiments.trust.written import WRITTEN
from owlfi.measures import Normal, Uniform
from owlfi.results.uniformity import binomial_band

KEY = jax.random.key(8)
CHEAP = ["exponential, 1e-6", "zero-inflated Poisson"]


# The problems


@pytest.mark.parametrize("name", PROBLEMS)
def test_truth_is_possible_and_rows_are_finite(name):
    case = PROBLEMS[name]
    prior = case.make().prior
    assert np.isfinite(prior.log_density(jnp.array(case.theta)))
    x = case._replace(n=20).observe(KEY)
    assert len(x) == 20
    assert np.isfinite(x).all()


DENSITIES = {
    "two scales": (
        smooth.two_scales_log_likelihood,
        [2.0, 3.0, 0.5],
        [[1.5, 2.0], [2.5, 4.0]],
        lambda x: scipy.stats.norm([2.0, 3.0], [1.0, 1.5]).logpdf(x),
    ),
    "skew normal": (
        smooth.skew_normal_log_likelihood,
        [1.0, 2.0, 3.0],
        [[0.5], [2.0]],
        scipy.stats.skewnorm(3.0, 1.0, 2.0).logpdf,
    ),
    "two modes": (
        counts.two_modes_log_likelihood,
        [0.3, -1.0, 2.0, 0.5],
        [[0.0], [1.7]],
        lambda x: np.log(
            0.3 * scipy.stats.norm(-1, 0.5).pdf(x) + 0.7 * scipy.stats.norm(2, 0.5).pdf(x)
        ),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_likelihoods_are_those_of_scipy(name):
    log_likelihood, theta, x, expected = DENSITIES[name]
    found = log_likelihood(jnp.array(theta), jnp.array(x))
    assert_allclose(found, expected(np.array(x)).sum(), rtol=1e-12)


def test_copula_s_likelihood_is_that_of_normal_logarithms():
    x, theta = np.array([[1.0, 2.0, 0.5], [3.0, 1.0, 1.5]]), jnp.array([0.5, 0.7, 0.4])
    covariance = 0.49 * (0.6 * np.eye(3) + 0.4)
    expected = scipy.stats.multivariate_normal([0.5] * 3, covariance).logpdf(np.log(x)).sum()
    found = smooth.copula_log_likelihood(theta, jnp.asarray(x))
    assert_allclose(found, expected, rtol=1e-12)


def test_stationary_process_is_an_autoregression():
    """Two formulas of one likelihood."""
    kappa, sigma = 1.3, 0.8
    phi = np.exp(-kappa * 0.2)
    x = series.stationary_process()([kappa, 0.0, sigma], np.full((4, 25), 0.3))
    step = sigma / np.sqrt(2 * kappa) * np.sqrt(1 - phi**2)
    expected = series.autoregression_log_likelihood(jnp.array([phi, step]), x)
    found = series.stationary_log_likelihood(jnp.array([kappa, 0.0, sigma]), x)
    assert_allclose(found, expected, rtol=1e-10)


COUNTS = {
    "negative binomial": (
        counts.negative_binomial_log_likelihood,
        [[5.0, 1.5], [3.0, 4.0]],
        lambda theta, x: scipy.stats.nbinom(theta[1], theta[1] / theta.sum()).logpmf(x),
    ),
    "zero-inflated Poisson": (
        counts.inflated_poisson_log_likelihood,
        [[0.3, 3.0], [0.6, 1.0]],
        lambda theta, x: np.log(
            theta[0] * (x == 0) + (1 - theta[0]) * scipy.stats.poisson(theta[1]).pmf(x)
        ),
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_likelihoods_of_counts_are_those_of_scipy_up_to_a_constant(name):
    log_likelihood, thetas, expected = COUNTS[name]
    x = np.array([[0.0], [2.0], [7.0]])
    found = [log_likelihood(jnp.array(theta), jnp.asarray(x)) for theta in thetas]
    wanted = [expected(np.array(theta), x).sum() for theta in thetas]
    assert_allclose(found[0] - found[1], wanted[0] - wanted[1], rtol=1e-12)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_the_shares_of_their_likelihood(name):
    case = PROBLEMS[name]
    u = (np.arange(20_000)[:, None] + 0.5) / 20_000
    y = np.asarray(case.make()(case.theta, u))[:, 0]
    values = np.arange(6.0)
    shares = [(y == value).mean() for value in values]
    assert_allclose(shares, np.exp(COUNTS[name][2](np.array(case.theta), values)), atol=1e-4)


def test_references_are_near_the_truth_with_many_rows():
    for name in ("shifted log-normal", "mean at a bound", "zero-inflated Poisson", "two scales"):
        case = PROBLEMS[name]._replace(n=20_000)
        assert_allclose(case.refer(case.observe(KEY)), case.theta, rtol=0.2, atol=0.01)


def test_process_has_its_least_squares():
    model = ornstein_uhlenbeck()
    x = np.asarray(model.rows(model.theta, 0.1 * jax.random.normal(KEY, (500, 24))))
    assert (x[:, 0] == 10).all()
    assert_allclose(process_maximum_likelihood(x), [0.5, 1.0], atol=0.01)


def test_a_problem_may_have_more_data_sets_and_the_first_stay_the_same():
    assert [len(PROBLEMS[name].numbers(0)) for name in CHEAP] == [1, 1]
    numbers = [i for repeat in range(60) for i in PROBLEMS["SIR"].numbers(repeat)]
    assert numbers == list(range(100))
    plan = EXPERIMENTS["trust"].plan()
    assert EXPERIMENTS["trust"].steps(plan) == 60 * len(PROBLEMS) + 40
    assert len(PROBLEMS) >= 16


# How they are counted


def make_record(theta, reach, **more):
    theta, reach = np.array(theta), np.array(reach)
    ends = {"low": (theta - reach).tolist(), "high": (theta + reach).tolist()}
    return {"theta": theta.tolist(), **ends, "warnings": [], **more}


def test_parameters_that_are_missed_together_count_once():
    truth = np.zeros(2)
    together = [make_record([2.0 * (i < 2)] * 2, [1.0, 1.0]) for i in range(10)]
    apart = [make_record([2.0 * (i < 2), 2.0 * (i > 7)], [1.0, 1.0]) for i in range(10)]
    wide, narrow = (estimates.measure_coverage(truth, records) for records in (together, apart))
    assert wide["coverage"] == narrow["coverage"] == 0.8
    assert_allclose(wide["coverage_interval"], binomial_band(8, 10, 0.99))
    assert_allclose(narrow["coverage_interval"], binomial_band(16, 20, 0.99))


def test_distance_is_in_errors_of_the_side_of_the_truth():
    record = {"theta": [1.0], "low": [0.0], "high": [1.1]}
    assert_allclose(estimates.distance_in_errors(np.array([0.0]), record), 1.645, rtol=1e-3)
    assert_allclose(estimates.distance_in_errors(np.array([2.0]), record), 16.45, rtol=1e-3)
    unknown = {"theta": [1.0], "low": [float("nan")], "high": [float("nan")]}
    assert estimates.distance_in_errors(np.array([1.0]), unknown) == np.inf


def fail(theta, u):
    raise RuntimeError("no licence")


def test_a_fit_that_raises_is_recorded_and_counts_as_warned(monkeypatch):
    def observe(self, key):
        return jax.random.normal(key, (self.n, 1))

    broken = Case(lambda: make_simulator(fail, Normal(), on_host=True, a=Uniform(0, 1)), (0.5,), 9)
    monkeypatch.setattr(estimates, "PROBLEMS", {"broken": broken})
    monkeypatch.setattr(Case, "observe", observe)
    records = list(estimates.run(KEY, Plan(2)))
    assert all("no licence" in record["error"] for record in records)
    result = estimates.arrange(records)["broken"]
    assert result["warned"] == 1
    assert result["far"] == 0
    assert len(estimates.table(records).rows) == 1
    estimates.picture(records)


def test_cheapest_problems_from_data_to_a_table(monkeypatch, tmp_path):
    monkeypatch.setattr(estimates, "PROBLEMS", {name: PROBLEMS[name] for name in CHEAP})
    experiment, plan = EXPERIMENTS["trust"], Plan(2)
    records = list(experiment.run(KEY, plan))
    assert len(records) == experiment.steps(plan)
    assert [record["problem"] for record in records] == 2 * CHEAP
    results = estimates.arrange(records)
    for name, result in results.items():
        assert result["data_sets"] == 2
        assert result["calls"] > 0
        assert result["over_reference"] > 0
        assert 0 <= result["coverage_interval"][0] <= result["coverage_interval"][1] <= 1, name
    assert results["exponential, 1e-6"]["rmse"] < 0.05
    _, picture = experiment.write(tmp_path, 8, plan, records)
    assert picture.stat().st_size > 5000

    def forget_time(record):
        return {name: value for name, value in record.items() if name != "seconds"}

    (last,) = experiment.run(KEY, plan, 3)
    for record in (last, estimates.fit_one(KEY, CHEAP[1], 1)):
        assert_equal(forget_time(record), forget_time(records[3]))


def check_trust(results):
    """At most 3 silent results far off, and coverages that 0.85 to 0.95 explain."""
    assert sum(result["far"] for result in results.values()) <= 3
    assert not {name: result["errors"] for name, result in results.items() if result["errors"]}
    least, most = estimates.BAND
    intervals = {name: result["coverage_interval"] for name, result in results.items()}
    assert not {name: (a, b) for name, (a, b) in intervals.items() if a > most or b < least}


@pytest.mark.slow
def test_intervals_and_warnings_are_true():
    check_trust(estimates.arrange(list(estimates.run(KEY, Plan(20)))))


PROMISE = ["bootstrap", "mmd-bayes", "pseudo-marginal", "abc-adjusted"]


@pytest.mark.slow
@pytest.mark.parametrize("method", PROMISE)
def test_draws_and_their_warnings_are_true(method):
    experiment = EXPERIMENTS[f"trust-{method}"]
    check_trust(experiment.arrange(list(experiment.run(KEY, Plan(6)))))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["abc", "sequential-abc"])
def test_draws_of_plain_abc_cover_at_least_as_often_as_they_say(method):
    experiment = EXPERIMENTS[f"trust-{method}"]
    results = experiment.arrange(list(experiment.run(KEY, Plan(6))))
    assert sum(result["far"] for result in results.values()) <= 3
    assert all(result["coverage_interval"][1] >= estimates.BAND[0] for result in results.values())


# Simulators as they are written


def test_rows_of_written_simulators_are_of_numpy_alone_and_finite():
    for written in WRITTEN.values():
        x = written.observe(3)
        assert_equal(x, written.observe(3))
        assert np.isfinite(x).all()
        assert np.isfinite(written.prior.log_density(jnp.array(written.theta)))
    rate = WRITTEN["rate"]
    x = jnp.concatenate([rate.observe(seed) for seed in range(100)])
    assert_allclose(rate.reference(rate.prior, jnp.array(rate.theta), x), rate.theta, atol=0.02)


def test_answers_and_p_values_of_written_simulators_are_arranged(tmp_path):
    experiment, plan = EXPERIMENTS["trust-written"], Plan(2)
    steps = as_written.list_steps(plan)
    assert len(steps) == experiment.steps(plan) == 2 * 3 * len(as_written.METHODS)
    records = []
    for repeat, name, method in steps:
        about = {"simulator": name, "method": method, "repeat": repeat, "seconds": 1.0}
        theta = np.array(WRITTEN[name].theta)
        fit = make_record(theta + 0.1, theta, reference=(theta + 0.05).tolist(), calls=7)
        test = {"p_value": 0.3, "spread_p_value": 0.295, "warnings": [], "calls": 7}
        records.append(about | (test if method == as_written.TEST else fit))
    results = experiment.arrange(records)
    assert results["claims"]["bootstrap"]["coverage"] == 1
    assert results["claims"][as_written.TEST]["rate"] == 0
    assert len(experiment.table(records).rows) == 3 * len(as_written.METHODS)
    _, picture = experiment.write(tmp_path, 8, plan, records)
    assert picture.stat().st_size > 5000


@pytest.mark.slow
def test_answers_about_written_simulators_are_true():
    results = as_written.arrange(list(as_written.run(KEY, Plan(8))))
    for name, cells in results.items():
        assert cells.pop(as_written.TEST)["kolmogorov_smirnov"] > 0.01, name
        plain = cells.pop(as_written.PLAIN)
        assert plain["coverage_interval"][1] >= estimates.BAND[0], name
        assert not plain["errors"]
        assert plain["far"] == 0
        check_trust(cells)
