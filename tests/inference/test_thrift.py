"""Fits with few calls: an answer with what is known of it, however few they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import owlfi
from gaussian import exact_estimate, exact_standard_error, gaussian_problem
from owlfi.problem.jax_or_host import OnHost, OnHostThriftily
from owlfi.problem.spending import Expected, calls_left, is_tight, limit_calls, plan_calls
from owlfi.results.health import keep_quiet
from test_health import with_generator

MANY = owlfi.VStatistic(512, owlfi.sobol)


def fit(max_calls, generator=lambda theta, u: theta[0] + u, rule=MANY, **options):
    """The Gaussian on the host, and the rows that it computed."""
    rows = []

    def count(theta, u):
        rows.append(len(u))
        return generator(theta, u)

    problem = with_generator(count, on_host=True)
    options = {"starts": 8, "refined": 1, "max_calls": max_calls, **options}
    with keep_quiet():
        found = owlfi.minimum_distance(jax.random.key(1), problem, rule, **options)
    assert found.calls == sum(rows) <= max_calls
    return found


def tells(found, words):
    return any(words in sentence for sentence in found.warnings)


@pytest.mark.parametrize("discrepancy", ["mmd", "efficient"])
def test_a_fit_takes_as_many_points_as_it_can_pay(discrepancy):
    found, problem = fit(700, discrepancy=discrepancy), gaussian_problem()
    assert tells(found, "max_calls = 700 do not do for m = 512 points, and the fit is on")
    error = exact_standard_error(problem)
    assert abs(found["mean"] - exact_estimate(problem)) < 3 * error
    assert 0.5 * error < found.standard_errors[0] < 4 * error


def test_points_that_can_be_paid_are_those_of_the_rule():
    assert not tells(fit(2000, rule=owlfi.VStatistic(16, owlfi.sobol)), "do not do for m")


def test_where_nothing_but_starts_can_be_compared_the_best_is_the_answer():
    found = fit(90)
    assert tells(found, "no search could be made: the estimate is the nearest of the starts")
    assert tells(found, "intervals are as wide as the prior")
    assert np.isinf(found.standard_errors).all()
    assert not found.converged


@pytest.mark.parametrize("discrepancy", ["mmd", "efficient"])
@pytest.mark.parametrize("allowed", [110, 150, 220, 400])
def test_errors_are_those_of_the_answer_or_unknown(allowed, discrepancy):
    found, problem = fit(allowed, discrepancy=discrepancy), gaussian_problem()
    error, off = found.standard_errors[0], abs(found["mean"] - exact_estimate(problem))
    assert found.warnings
    assert off < 3 * error + exact_standard_error(problem)


def test_rough_simulators_have_fewer_points():
    found = fit(1500, lambda theta, u: np.round(theta[0] + u))
    assert abs(found["mean"] - 1.3) < 4 * max(found.standard_errors[0], 0.1)


def test_slopes_to_one_side_are_those_to_both():
    rows, v = lambda v: jnp.array([[jnp.sin(v[0]) * v[1]]]), jnp.array([0.3, 2.0])
    width = jnp.ones(2)
    both, once = (
        r.slopes(rows, v, width, lambda _: True, None) for r in (OnHost(), OnHostThriftily())
    )
    np.testing.assert_allclose(once[1], both[1], atol=1e-3)
    assert (once[2], both[2]) == (3, 5)


@pytest.mark.parametrize(("allowed", "tight"), [(None, False), (299, True), (301, False)])
@pytest.mark.parametrize("plans", [True, False])
def test_calls_are_tight_where_searches_might_take_more(allowed, tight, plans):
    @limit_calls(lambda: Expected(10, 200), plans=plans)
    def method(*, max_calls=None):
        assert not is_tight()
        plan_calls()
        assert is_tight() == (tight and plans)
        assert calls_left() == (np.inf if allowed is None else allowed)

    method(max_calls=allowed)
