"""A calibration finds what is wrong with a method, and nothing where nothing is."""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import ndtr

import owlfi
from gaussian import RULE, gaussian_problem
from owlfi import Calibration, Estimate, HealthWarning, Normal, Posterior, Prior, Problem, Simulator
from owlfi._tools.arrays import as_jax
from owlfi._tools.keys import split_key
from owlfi.checking.calibrate import compare_with_truth
from owlfi.checking.health import describe
from owlfi.problem.spending import Expected, limit_calls, tell_cost
from owlfi.results.uniformity import binomial_band, kolmogorov_p, look_at_levels

KEY = jax.random.key(0)
ROWS, PRIOR_SD = 10, 0.6


def scaled(theta, u):
    return theta[None] + u


def conjugate_problem():
    """The means of two normal columns; the prior is as wide as their posterior, twice."""
    prior = Prior(a=Normal(0.0, PRIOR_SD), b=Normal(0.0, PRIOR_SD))
    model = Simulator(scaled, Normal(dim=2), prior.names, prior=prior, on_host=True)
    x = np.random.default_rng(0).normal(size=(ROWS, 2))
    return Problem(model, x, data_kernel=owlfi.SquaredExponential(1.0))


def posterior_of(names, x, *, width=1.0, bias=0.0, prior_sd=PRIOR_SD, draws=0):
    """The posterior of the means, in closed form or as draws, with faults that are asked for."""
    precision = 1 / prior_sd**2 + len(x)
    sd = precision**-0.5
    mean = x.sum(0) / precision + bias * sd
    if draws:
        made = np.random.default_rng(abs(int(1e9 * x[0, 0]))).normal(size=(draws, 2))
        return Posterior(names, mean + width * sd * made, np.full(draws, 1 / draws))
    spread = np.diag(np.full(2, (width * sd) ** 2))
    return Estimate(names, as_jax(mean), as_jax(spread), as_jax(np.float64(0.0)))


def exact(key, problem, rule, **fault):
    """A method that knows the posterior, or has the faults that are asked for."""
    return posterior_of(problem.prior.names, np.asarray(problem.observed), **fault)


FAULTS = {
    "narrow": {"width": 0.7},
    "biased": {"bias": 0.5},
    "another prior": {"prior_sd": PRIOR_SD / 2},
}


def calibrate(seed=0, problem=None, rule=RULE, **options):
    problem = conjugate_problem() if problem is None else problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        return owlfi.calibrate(jax.random.key(seed), problem, exact, rule, **options)


@pytest.mark.parametrize("draws", [0, 60])
def test_exact_posteriors_raise_no_alarm(draws):
    found = calibrate(data_sets=60, draws=draws)
    assert found.warnings == ()
    assert found.data_sets == 60
    assert abs(float(found.coverage(0.9).mean()) - 0.9) < 4 * np.sqrt(0.09 / 120)
    assert_allclose(found.shrinkage(), 1 - 1 / (1 + ROWS * PRIOR_SD**2), atol=0.1)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("narrow", "Intervals of a are too narrow: 90% cover"),
        pytest.param("biased", "Estimates of a are too high", marks=pytest.mark.slow),
    ],
)
def test_faults_are_said_in_words(fault, words):
    found = calibrate(data_sets=100, **FAULTS[fault])
    assert any(sentence.startswith(words) for sentence in found.warnings)
    assert words in found.summary()


def draw_trial(seed, n=200, **fault):
    """A calibration whose data sets NumPy draws, in a fraction of the time."""
    rng, names, units = np.random.default_rng(seed), ("a", "b"), np.full(2, PRIOR_SD)
    theta, references = rng.normal(size=(2, n, 2)) * PRIOR_SD
    x = theta[:, None] + rng.normal(size=(n, ROWS, 2))
    keys = split_key(jax.random.key(seed), n)
    found = [
        compare_with_truth(key, posterior_of(names, rows, **fault), truth, reference, units)
        for key, rows, truth, reference in zip(keys, x, theta, references, strict=True)
    ]
    fields = ("theta", "level", "score", "center", "spread", "joint")
    parts = (as_jax(np.array([each[name] for each in found])) for name in fields)
    return Calibration(names, *parts)


def share_told(trials, **fault):
    """Of trials with 200 data sets each, formulas and draws in turn."""
    found = [draw_trial(seed, draws=200 * (seed % 2), **fault) for seed in range(trials)]
    return np.mean([bool(describe(each, 0.02)) for each in found])


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found_in_nearly_all_trials(fault):
    assert share_told(40, **FAULTS[fault]) >= 0.95


@pytest.mark.slow
def test_exact_posteriors_raise_few_false_alarms():
    assert share_told(200) <= 0.05


def simulated_levels(seed, n, p, *, frequentist=False, slope=0.0, width=1.0, bias=0.0):
    """Of normal data with variance 0.1 about theta ~ N(0, 1)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, p))
    x = theta + np.sqrt(0.1) * rng.normal(size=(n, p))
    variance = 0.1 if frequentist else 1 / 11
    sd = np.sqrt(variance)
    mean, sd = x * (variance / 0.1) * (1 + slope) + bias * sd, width * sd
    z = (theta - mean) / sd
    numbers = (jnp.asarray(part) for part in (theta, ndtr(z), z, mean, np.full((n, p), sd)))
    return Calibration(tuple("abc"[:p]), *numbers, joint=jnp.asarray(rng.uniform(size=n)))


@pytest.mark.slow
@pytest.mark.parametrize("frequentist", [False, True])
def test_posteriors_and_confidence_intervals_both_pass(frequentist):
    """Over 200 trials at alarms = 0.02 more than 12 have probability 1e-4."""
    told = [
        describe(simulated_levels(seed, 200, 2, frequentist=frequentist), 0.02)
        for seed in range(200)
    ]
    assert sum(map(bool, told)) <= 12


def test_estimates_that_are_pulled_or_scatter_too_far_are_told_apart():
    pulled = describe(simulated_levels(0, 400, 1, slope=-0.1), 0.02)
    assert any("pulled too far to the middle" in sentence for sentence in pulled)
    scattered = describe(simulated_levels(0, 400, 1, frequentist=True, slope=0.1), 0.02)
    assert any("scatter more than" in sentence for sentence in scattered)


def test_intervals_without_an_end_are_told_and_say_nothing_of_the_bias():
    whole = simulated_levels(0, 100, 1, bias=1.0)
    known = jnp.arange(100)[:, None] < 60  # scores of the others are 0
    scores, levels = jnp.where(known, whole.scores, 0.0), jnp.where(known, whole.levels, 0.5)
    found = replace(whole, scores=scores, levels=levels)
    told = describe(found, 0.02)
    assert any("In 40 of 100 data sets intervals of a have no end" in words for words in told)
    assert "0 standard deviations" not in " ".join(told)
    bias = float(found._table()[1][4].removesuffix(" sd"))
    assert bias == pytest.approx(1.0, abs=0.5)  # its median has an error of 0.16


def test_p_values_of_uniform_levels_are_uniform():
    rng = np.random.default_rng(1)
    found = np.array([look_at_levels(*rng.uniform(size=(3, 50))) for _ in range(400)])
    for column in found.T:
        assert kolmogorov_p(column) > 1e-3


@pytest.mark.parametrize("hits", [0, 17, 20])
def test_binomial_bands_are_clopper_and_pearson_s(hits):
    expected = scipy.stats.binomtest(hits, 20).proportion_ci(0.99, method="exact")
    assert_allclose(binomial_band(hits, 20, 0.99), [expected.low, expected.high])


def test_binomial_bands_cover():
    ends = np.array([binomial_band(k, 30) for k in range(31)])
    rng = np.random.default_rng(0)
    for share in (0.05, 0.5, 0.9):
        counts = rng.binomial(30, share, size=2000)
        inside = (ends[counts, 0] <= share) & (share <= ends[counts, 1])
        assert inside.mean() >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_corrected_intervals_cover_where_the_method_does_not():
    """Intervals half as wide as they should be, and one standard deviation too high."""
    found, fresh = (simulated_levels(seed, 400, 1, width=0.5, bias=1.0) for seed in (0, 1))
    inside, spread, value = [], jnp.diag(fresh.spreads[0] ** 2), jnp.array(0.0)
    for theta, center in zip(
        np.asarray(fresh.thetas), map(as_jax, np.asarray(fresh.centers)), strict=True
    ):
        result = Estimate(("a",), center, spread, value)
        low, high = found.correct(result, 0.8)
        inside.append((low <= theta) & (theta <= high))
    assert float(fresh.coverage(0.8).max()) < 0.6
    assert abs(np.mean(inside) - 0.8) < 4 * np.sqrt(2 * 0.16 / 400)


def test_correction_refuses_what_it_cannot_do():
    found = simulated_levels(0, 30, 1)
    result = Estimate(("a",), jnp.zeros(1), jnp.eye(1), jnp.array(0.0))
    with pytest.raises(ValueError, match=r"30 data sets are too few .* 39 or more"):
        found.correct(result, 0.95)
    with pytest.raises(ValueError, match=r"parameters \('b',\), not \('a',\)"):
        found.correct(replace(result, names=("b",)))


def test_calibration_is_the_same_for_any_number_of_workers_and_resumes(tmp_path):
    file = tmp_path / "calibration.jsonl"
    whole = calibrate(data_sets=12, workers=3)
    first = calibrate(data_sets=7, file=file)
    assert first.data_sets == 7
    with file.open("a") as opened:
        opened.write('{"number": 7, "thet')  # killed while writing
    again = calibrate(data_sets=12, file=file)
    for name in ("thetas", "levels", "scores", "joint"):
        assert_allclose(getattr(again, name), getattr(whole, name), rtol=1e-12)
    assert len(file.read_text().splitlines()) == 13


def test_file_of_another_calibration_is_refused(tmp_path):
    file = tmp_path / "calibration.jsonl"
    calibrate(data_sets=2, file=file)
    with pytest.raises(ValueError, match=r"was made with options = .* give another file"):
        calibrate(data_sets=2, file=file, bias=0.1)
    other = owlfi.OptimallyWeighted(64, base_kernel=owlfi.SquaredExponential(0.5))
    with pytest.raises(ValueError, match=r"was made with rule = .*1\.0.* give another file"):
        calibrate(data_sets=2, file=file, rule=other)
    with pytest.raises(ValueError, match="first_row"):
        calibrate(seed=1, data_sets=2, file=file)
    file.write_text("no journal\n")
    with pytest.raises(ValueError, match="is no calibration of owlfi"):
        calibrate(data_sets=2, file=file)


def test_data_sets_that_are_not_finite_are_counted():
    old = conjugate_problem()

    def breaks(theta, u):
        return np.where(theta[0] > 0.6, np.nan, theta[None] + u)

    model = Simulator(breaks, Normal(dim=2), ("a", "b"), prior=old.prior, on_host=True)
    problem = Problem(model, old.observed, data_kernel=old.data_kernel)
    found = calibrate(problem=problem, data_sets=60)
    assert found.about["failed"] == 60 - found.data_sets > 0
    assert float(found.thetas[:, 0].max()) <= 0.6
    assert any("data sets are left out" in sentence for sentence in found.warnings)


def test_methods_that_give_up_are_counted_and_mistakes_of_the_call_are_not():
    def gives_up(key, problem, rule, *, fails=RuntimeError):
        if float(problem.observed[0, 0]) > 0:
            raise fails("no convergence")
        return exact(key, problem, rule)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        found = owlfi.calibrate(KEY, conjugate_problem(), gives_up, RULE, data_sets=20)
    assert found.about["failed"] == 20 - found.data_sets > 0
    assert found.about["reasons"][0] == "no convergence"
    with pytest.raises(TypeError, match=r"minimum_distance\(\) got an unexpected .*'nonsense'"):
        owlfi.calibrate(KEY, conjugate_problem(), owlfi.minimum_distance, RULE, nonsense=1)


def test_methods_that_always_fail_are_given_up_soon():
    calls = []

    def fails(key, problem, rule):
        calls.append(1)
        raise ValueError("no luck")

    with pytest.raises(ValueError, match=r"first 5 data sets all failed \(no luck\)"):
        owlfi.calibrate(KEY, conjugate_problem(), fails, RULE, workers=1)
    assert len(calls) < 10
    with pytest.raises(ValueError, match="what method returned must be an Estimate or a Posterior"):
        owlfi.calibrate(KEY, conjugate_problem(), lambda *_: 3.0, RULE, workers=1)


def test_methods_of_the_library_are_taken_as_they_are():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        found = owlfi.calibrate(
            KEY, gaussian_problem(), owlfi.minimum_distance, RULE, data_sets=6, starts=8
        )
    assert found.about["method"] == "calibration of minimum_distance"
    assert found.calls > 6 * 64
    assert np.abs(np.asarray(found.scores)).max() < 5


def test_cost_of_a_slow_simulator_is_told_once_for_all_data_sets(capfd):
    @limit_calls(lambda: Expected(1, 1000))
    def costly(key, problem, rule, *, max_calls=None):
        tell_cost(0.01)  # seconds a row
        return exact(key, problem, rule)

    with pytest.warns(HealthWarning, match="Few data sets"):
        owlfi.calibrate(KEY, conjugate_problem(), costly, RULE, data_sets=7, workers=2)
    told = capfd.readouterr().err
    assert told.count("are expected") == 1
    assert "about 7,000 calls" in told


def test_thetas_can_lie_around_an_estimate():
    result = Estimate(("a", "b"), jnp.array([5.0, -5.0]), 1e-4 * jnp.eye(2), jnp.array(0.0))
    found = calibrate(data_sets=20, around=result)
    assert_allclose(found.thetas.mean(0), [5.0, -5.0], atol=0.05)
    with pytest.raises(ValueError, match="around has the parameters"):
        calibrate(around=replace(result, names=("b", "a")))


def test_few_data_sets_are_said_and_the_line_is_that_of_the_user():
    with pytest.warns(HealthWarning, match="Few data sets: of 5") as issued:
        owlfi.calibrate(KEY, conjugate_problem(), exact, RULE, data_sets=5)
    assert {warning.filename for warning in issued} == {__file__}


def test_pictures_have_what_they_should():
    found = simulated_levels(0, 60, 2)
    axes = owlfi.plots.ranks(found)
    assert [ax.get_xlabel() for ax in axes] == ["level of a", "level of b"]
    assert sum(bar.get_height() for bar in axes[0].patches[1:]) == 60
    curves = owlfi.plots.coverage(found).get_lines()
    assert [line.get_label() for line in curves[:3]] == ["a", "b", "all together"]
