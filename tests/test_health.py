"""No method gives a confident wrong answer without a word, nor a word where all is well."""

import importlib
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import owlfi
from gaussian import RULE, gaussian_problem
from owlfi import HealthWarning, Normal, OptimallyWeighted, Problem, Simulator, VStatistic
from owlfi._tools.progress import collect
from owlfi.inference.health import (
    tell_divergent,
    tell_failed_searches,
    tell_few_draws,
    tell_unmixed,
)
from owlfi.problem.simulations import CHECK_CALLS

KEY = jax.random.key(0)
METHODS = {
    "minimum_distance": {},
    "random_restarts": {"starts": 8, "restarts": 2},
    "rejection_abc": {"draws": 200, "share": 0.3},
    "sequential_abc": {"draws": 100, "rounds": 2, "keep": 60},
    "posterior_bootstrap": {"draws": 60},
    "pseudo_marginal": {"draws": 200, "chains": 1, "designs": 2},
    "mmd_bayes": {"draws": 100, "chains": 2, "warmup": 50},
    "goodness_of_fit": {"resamples": 39},
    "wild_goodness_of_fit": {"resamples": 99, "designs": 2},
}
ON_HOST = [name for name in METHODS if name not in ("random_restarts", "mmd_bayes")]


def run(method, problem, rule=RULE, **options):
    return getattr(owlfi, method)(KEY, problem, rule, **METHODS[method] | options)


def with_generator(generator, **options):
    """The problem of the Gaussian with another generator."""
    old = gaussian_problem()
    model = Simulator(generator, Normal(), ["mean"], prior=old.prior, **options)
    return Problem(model, old.observed, data_kernel=old.data_kernel)


def sentences(method, *arguments, **options):
    """What a method issues, each once and at this file: what its result has."""
    with pytest.warns(HealthWarning) as issued:
        result = run(method, *arguments, **options)
    own = [warning for warning in issued if warning.category is HealthWarning]
    assert {warning.filename for warning in own} == {__file__}
    assert tuple(str(warning.message) for warning in own) == result.warnings
    return result.warnings


def starting(warnings, words):
    return [sentence for sentence in warnings if sentence.startswith(words)]


# Simulators that are not determined by theta and u


@pytest.mark.parametrize("rule", [RULE, VStatistic(64), OptimallyWeighted(16)], ids=repr)
@pytest.mark.parametrize("method", ON_HOST)
def test_random_numbers_of_the_generator_are_found_before_long_work(method, rule):
    rng, rows = np.random.default_rng(0), []

    def noisy(theta, u):
        rows.append(len(u))
        return theta[0] + u + 1e-3 * rng.normal(size=u.shape)

    with pytest.raises(ValueError, match=r"not determined by theta and u.*random numbers from u"):
        run(method, with_generator(noisy, on_host=True), rule)
    assert sum(rows) <= CHECK_CALLS


@pytest.mark.parametrize("method", METHODS)
def test_keys_of_the_generator_are_found_in_jax_too(method):
    def seeded(theta, u):
        return theta[0] + u + jax.random.normal(jax.random.key(0), u.shape)

    with pytest.raises(ValueError, match="not determined by theta and u"):
        run(method, with_generator(seeded))


TUNED = OptimallyWeighted(16)


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ("rejection_abc", RULE),
        ("rejection_abc", TUNED),
        pytest.param("minimum_distance", RULE, marks=pytest.mark.slow),
        pytest.param("minimum_distance", TUNED, marks=pytest.mark.slow),
        pytest.param("goodness_of_fit", RULE, marks=pytest.mark.slow),
        pytest.param("goodness_of_fit", TUNED, marks=pytest.mark.slow),
    ],
)
def test_check_is_made_once_and_counted(method, rule):
    rows = []

    def counting(theta, u):
        rows.append(len(u))
        return np.float64(theta[0] + u)

    result = run(method, with_generator(counting, on_host=True), rule)
    assert result.calls == sum(rows)
    assert rows.count(1) == 2  # a pair together, and each of it alone


# What is wrong with the data and the weights


NARROW = OptimallyWeighted(64, base_kernel=owlfi.SquaredExponential(0.005))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_tells_of_dependent_rows_and_of_weights_that_do_not_sum_to_one(method):
    """As many rows and points as elsewhere: what was compiled there serves."""
    noise, old = np.random.default_rng(0).normal(size=80), gaussian_problem()
    x = 1.3 + lfilter([0.6], [1.0, -0.8], noise)
    series = Problem(old.simulator, x, data_kernel=old.data_kernel)
    told = sentences(method, series, NARROW)
    assert len(starting(told, "Rows of observed depend")) == 1
    (sums,) = starting(told, "The weights of the 64 points")
    assert "sum to 0.2" in sums
    assert "base_kernel='tuned', lengthscales that grow with √s (s = 1 coordinates)" in sums


@pytest.mark.parametrize("method", METHODS)
def test_no_word_where_all_is_well(method):
    assert run(method, gaussian_problem()).warnings == ()


def test_results_that_are_kept_issue_nothing_when_they_are_read(tmp_path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", HealthWarning)
        estimate = run("minimum_distance", gaussian_problem(), NARROW)
    assert any("sum to 0.2" in str(each.message) for each in told)
    assert owlfi.load(estimate.save(tmp_path / "estimate")).warnings == estimate.warnings


# Interruptions


def stop_after(steps):
    """Ctrl-C once so many steps are done."""

    def collect_some(work, total, description, *, show):
        def some():
            for number, step in enumerate(work):
                if number == steps:
                    raise KeyboardInterrupt
                yield step

        return collect(some(), total, description, show=show)

    return collect_some


@pytest.mark.parametrize(
    ("method", "module", "told"),
    [
        ("rejection_abc", "inference.prior_runs", "100 of 200 parameters"),
        ("sequential_abc", "inference.sequential_abc", "1 of 2 rounds"),
        ("posterior_bootstrap", "inference.posterior_bootstrap", "30 of 60 draws"),
        ("mmd_bayes", "inference.mmd_bayes", "50 of 100 draws of each chain"),
        ("goodness_of_fit", "testing.goodness_of_fit", "25 of 39 replicates"),
        ("pseudo_marginal", "inference.pseudo_marginal", "200 of 240 steps"),
    ],
)
def test_what_was_interrupted_says_how_much_is_done(monkeypatch, method, module, told):
    steps = {"goodness_of_fit": 25, "pseudo_marginal": 200}.get(method, 1)
    monkeypatch.setattr(importlib.import_module(f"owlfi.{module}"), "collect", stop_after(steps))
    (first,) = starting(sentences(method, gaussian_problem()), "Interrupted")
    assert first.startswith(f"Interrupted: {told} are finished")


def test_rounds_of_sequential_abc_are_whole(monkeypatch):
    """Ctrl-C inside of the second: the first, whose draws are all from the prior, is returned."""
    names = ("prior_runs", "sequential_abc")
    modules = [importlib.import_module(f"owlfi.inference.{name}") for name in names]
    made, rounds = modules[0].simulate_in_chunks, []

    def cut_short(*arguments, **options):
        runs = made(*arguments, **options)
        rounds.append(runs)
        return runs if len(rounds) == 1 else runs.at(slice(50))

    for module in modules:
        monkeypatch.setattr(module, "simulate_in_chunks", cut_short)
    told = sentences("sequential_abc", gaussian_problem())
    assert starting(told, "Interrupted: 1 of 2 rounds")


# Draws


def test_few_draws_are_told_by_what_they_are_worth():
    assert tell_few_draws(50, 50.0, "take more") == ()
    assert tell_few_draws(50, 1 / np.sum(np.full(50, 1 / 50) ** 2), "take more") == ()
    (alone,) = tell_few_draws(20, 20, "take more draws")
    assert alone == "Few draws: of 20 draws means and quantiles are rough; take more draws"
    (worth,) = tell_few_draws(4000, [300.0, 12.4], "take more draws")
    assert "of 4,000 draws, worth 12 independent ones, means" in worth
    (stuck,) = tell_few_draws(100, [np.nan], "take more draws")
    assert "worth 1 independent ones" in stuck


def test_weights_of_few_draws_are_told():
    """Of 200 thetas one has nearly all of the importance."""
    problem = gaussian_problem()
    runs = owlfi.simulate(
        problem.simulator, problem.prior.sample(KEY, 200), VStatistic(64).quadrature(KEY, problem)
    )
    importance = jnp.full(200, 1e-3).at[jnp.argmin(jnp.abs(runs.thetas[:, 0] - 1.3))].set(199.0)
    with pytest.warns(HealthWarning, match=r"Few draws: of 200 draws, worth 1 independent"):
        owlfi.accept(problem, replace(runs, importance=importance), share=1.0)


def test_chains_that_disagree_are_named():
    assert tell_unmixed(("a", "b"), [1.0, 1.05]) == ()
    assert tell_unmixed(("a", "b"), []) == ()
    (told,) = tell_unmixed(("a", "b"), [1.0, 1.2])
    assert told.startswith("The chains disagree: R-hat is above 1.05 for b (1.2); take more draws")
    assert "for a (nan)" in tell_unmixed(("a",), [np.nan])[0]


def test_divergences_and_failed_searches_are_told_by_their_share():
    assert tell_divergent(0.01) == tell_failed_searches(1, 100) == ()
    assert tell_divergent(0.12)[0].startswith("12% of the steps of NUTS diverged")
    assert tell_failed_searches(2, 100)[0].startswith("2 of 100 searches did not converge")


def test_failed_parameters_of_sequential_abc_are_told():
    def fails(theta, u):
        return jnp.where(theta[0] > 3, jnp.nan, theta[0] + u)

    told = sentences("sequential_abc", with_generator(fails))
    assert len(starting(told, "At ")) == 1
    assert "of 200 parameters a simulation failed, and none of them is kept" in told[0]
