"""`max_calls=` of every method: calls are counted as they are made, and no more are made."""

import inspect
import itertools
import time

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import RULE, gaussian_problem
from ordinary_simulators import SIMULATORS, wright_fisher
from owlfi import HealthWarning
from owlfi.inference.expected_calls import expect_fit
from owlfi.problem.spending import Expected, limit_calls, tell_cost, tell_rough
from owlfi.results.health import keep_quiet
from test_health import METHODS, ON_HOST, run, with_generator

MUCH = 10**6
TUNED = owlfi.OptimallyWeighted(m=64)


def counted(generator=lambda theta, u: theta[0] + u):
    """The Gaussian on the host, and a list of the rows that it computes."""
    rows = []

    def count(theta, u):
        rows.append(len(u))
        return generator(theta, u)

    return with_generator(count, on_host=True), rows


def test_every_method_has_it():
    for name in METHODS:
        parameter = inspect.signature(getattr(owlfi, name)).parameters["max_calls"]
        assert parameter.default is None
        assert parameter.kind is parameter.KEYWORD_ONLY


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrong", [0, 1.5, "many"])
def test_it_is_a_whole_number(method, wrong):
    with pytest.raises(ValueError, match="max_calls must be a whole number"):
        run(method, counted()[0], max_calls=wrong)


@pytest.mark.parametrize("method", ON_HOST)
def test_too_few_are_refused_before_the_first_run(method):
    problem, rows = counted()
    with pytest.raises(
        ValueError, match=rf"max_calls is 60, but {method} needs about [\d,]+ calls"
    ):
        run(method, problem, max_calls=60)
    assert not rows


SHORT = {
    "goodness_of_fit": {"resamples": 12, "level": 0.25},
    "posterior_bootstrap": {"draws": 20},
}


@pytest.mark.parametrize("method", [name for name in ON_HOST if name != "goodness_of_fit"])
def test_calls_are_those_that_were_made(method):
    problem, rows = counted()
    assert run(method, problem, max_calls=MUCH, **SHORT.get(method, {})).calls == sum(rows)


FEWER = {"rejection_abc": 2000, "sequential_abc": 7000, "posterior_bootstrap": 9000}
FEWER |= {"pseudo_marginal": 12_000, "goodness_of_fit": 22_000}


@pytest.mark.parametrize("method", FEWER)
def test_work_ends_with_what_is_finished(method):
    problem, rows = counted()
    with pytest.warns(HealthWarning, match=f"max_calls = {FEWER[method]:,} do not do: "):
        result = run(method, problem, max_calls=FEWER[method], **SHORT.get(method, {}))
    assert 0.7 * FEWER[method] < result.calls <= sum(rows) <= FEWER[method]


@pytest.mark.parametrize("method", ["minimum_distance", "mmd_bayes", "random_restarts"])
def test_calls_inside_jax_are_counted_and_change_nothing(method):
    problem = gaussian_problem()
    free, limited = run(method, problem), run(method, problem, max_calls=MUCH)
    assert limited.calls == free.calls
    mean = np.mean if method == "mmd_bayes" else np.asarray
    found = "draws" if method == "mmd_bayes" else "theta"
    assert_allclose(*(mean(getattr(each, found)) for each in (limited, free)), rtol=1e-6)


def test_fits_that_run_out_say_so():
    problem, rows = counted(lambda theta, u: np.round(theta[0] + u))
    with keep_quiet():
        result = run("minimum_distance", problem, max_calls=3600, refined=1)
    assert any("max_calls = 3,600 ended the work" in sentence for sentence in result.warnings)
    assert result.calls == sum(rows) <= 3600


def test_searches_leave_the_calls_that_errors_take():
    model = owlfi.models.g_and_k()
    x = model(model.theta, owlfi.iid(jax.random.key(3), 200, model.measure))
    problem, rule = owlfi.Problem(model, x), owlfi.VStatistic(8, owlfi.sobol)
    options = {"starts": 8, "refined": 1, "max_calls": 600}
    with keep_quiet():
        found = owlfi.minimum_distance(jax.random.key(1), problem, rule, **options)
    assert found.calls <= 600
    assert "max_calls = 600 ended the work after searches: 1;" in found.warnings[0]
    assert np.isfinite(found.standard_errors).all()


@pytest.mark.slow
def test_a_search_that_runs_out_keeps_the_best_it_came_to():
    prior = owlfi.Prior(mean=owlfi.Uniform(-9.0, 9.0), sd=owlfi.Uniform(0.1, 9.0))
    model = owlfi.Simulator(
        lambda theta, u: theta[0] + theta[1] * u,
        owlfi.Normal(),
        prior.names,
        prior=prior,
        on_host=True,
    )
    x = 1.3 + np.random.default_rng(0).normal(size=(50, 1))
    problem, rule = owlfi.Problem(model, x), owlfi.VStatistic(16, owlfi.sobol)
    options = {"starts": 4, "refined": 1}
    with keep_quiet():
        whole = owlfi.minimum_distance(jax.random.key(1), problem, rule, **options)
        part = owlfi.minimum_distance(jax.random.key(1), problem, rule, max_calls=240, **options)
    assert part.calls <= 240 < whole.calls
    assert not part.converged
    assert any("max_calls = 240 ended the work" in sentence for sentence in part.warnings)
    assert part.squared_mmd < 4 * max(whole.squared_mmd, 0.01)
    assert (np.abs(part.theta - whole.theta) < 3 * np.asarray(part.standard_errors)).all()


@pytest.mark.parametrize(("seconds", "told"), [(0.013, False), (0.5, True)])
def test_compiled_simulators_that_waited_for_threads_are_not_told_as_slow(
    seconds, told, capsys, monkeypatch
):
    clock = itertools.count(0.0, seconds)
    monkeypatch.setattr("owlfi.problem.simulations.perf_counter", clock.__next__)
    owlfi.rejection_abc(jax.random.key(0), gaussian_problem(), RULE, draws=2000)
    assert ("are expected" in capsys.readouterr().err) == told


def test_slow_simulators_are_told_before_long_work(capsys):
    def slow(theta, u):
        if len(u) > 2:  # than the check has
            raise KeyboardInterrupt
        time.sleep(0.01)
        return theta[0] + u

    with pytest.raises(KeyboardInterrupt):
        owlfi.rejection_abc(jax.random.key(0), counted(slow)[0], RULE, draws=5000)
    told = capsys.readouterr().err
    assert "rejection_abc: about 320,004 calls of the simulator are expected" in told
    assert "max_calls= sets a limit" in told


def test_rows_that_take_a_millisecond_are_told_after_the_first_design(capsys):
    def slow(theta, u):
        time.sleep(0.001 * len(u))
        if sum(rows) > 2 * RULE.m:
            raise KeyboardInterrupt
        return theta[0] + u

    problem, rows = counted(slow)
    with pytest.raises(KeyboardInterrupt):
        owlfi.rejection_abc(jax.random.key(0), problem, RULE, draws=5000)
    assert "about 320,004 calls of the simulator are expected" in capsys.readouterr().err


@pytest.mark.parametrize(("rough", "told"), [(0, False), (120, False), (900, True)])
def test_slow_simulators_that_turn_out_to_be_rough_are_told_again(rough, told, capsys):
    @limit_calls(lambda: Expected(100, 100, rough))
    def method(*, max_calls=None):
        tell_cost(1.0)
        tell_rough()

    method()
    first, *more = capsys.readouterr().err.splitlines()
    assert first.startswith("method: about 100 calls")
    assert ("(or 900, if simulations are too rough in theta" in first) == told
    assert ("1 s each 100 s or 15 min in all" in first) == told
    assert [line.split(" calls")[0] for line in more] == told * [
        "method: simulations are too rough in theta for derivatives: about 900"
    ]


def test_the_limit_is_what_is_expected_where_more_would_be(capsys):
    @limit_calls(lambda: Expected(100, 200, 900))
    def method(*, max_calls=None):
        tell_cost(1.0)

    method(max_calls=150)
    assert capsys.readouterr().err == (
        "method: about 150 calls of the simulator are expected, at 1 s each 2.5 min in all; more "
        "would be expected but for max_calls = 150\n"
    )


@pytest.mark.slow
def test_the_cost_of_rough_simulators_is_told_to_a_factor_of_two():
    prior = SIMULATORS[wright_fisher]
    simulator = owlfi.Simulator.from_random(wright_fisher, prior.names, prior=prior)
    x = simulator([0.1], simulator.measure.sample(jax.random.key(0), 60))
    problem, rule = owlfi.Problem(simulator, x), owlfi.VStatistic(m=16)
    with keep_quiet():
        fit = owlfi.minimum_distance(jax.random.key(1), problem, rule)
    assert 0.5 < fit.calls / expect_fit(rule, problem, rough=True) < 2


def shifted_lognormal(theta, u):
    return theta[0] + np.exp(theta[1]) * np.exp(u[:, :1]) + u[:, 1:]


@pytest.mark.slow
def test_the_cost_of_simulators_on_the_host_is_told_to_a_factor_of_two():
    prior = owlfi.Prior(shift=owlfi.Uniform(-5.0, 5.0), size=owlfi.Uniform(-2.0, 2.0))
    noise = owlfi.Normal(dim=2)
    model = owlfi.Simulator(shifted_lognormal, noise, prior.names, prior=prior, on_host=True)
    x = model([1.0, 0.0], noise.sample(jax.random.key(0), 80))
    problem = owlfi.Problem(model, x)
    with keep_quiet():
        fit = owlfi.minimum_distance(jax.random.key(1), problem, TUNED)
    assert 0.5 < fit.calls / expect_fit(TUNED, problem) < 2
