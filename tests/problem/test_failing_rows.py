"""Simulators of which some rows fail at every theta: rules leave them out, and nothing ends."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import gaussian_problem
from owlfi import Normal, Prior, Problem, Simulator, Uniform
from owlfi.inference.stored_runs import stored_simulations
from owlfi.problem.fresh_data import draw_data
from owlfi.problem.simulations import check_determined
from owlfi.problem.tuned_design import retune_points
from owlfi.weights.data_grams import data_gram

KEY = jax.random.key(0)
PRIOR = Prior(mean=Uniform(-10, 10))
DATA_KERNEL = owlfi.SquaredExponential(1.0)


def sometimes(theta, rng):
    """One in twenty raises, whatever theta is."""
    if rng.random() < 0.05:
        raise RuntimeError("diverged")
    return theta[0] + rng.normal()


def in_jax(theta, u):
    y = theta[0] + u[:, :1] + 0.1 * u[:, 1:].sum(1, keepdims=True)
    return jnp.where(u[:, :1] > 1.645, jnp.nan, y)


def in_numpy(theta, u):
    y = theta[0] + u[:, :1] + 0.1 * u[:, 1:].sum(1, keepdims=True)
    return np.where(u[:, :1] > 1.645, np.nan, y)


@cache
def problem_of(kind):
    if kind == "raises":
        model = Simulator.from_random(sometimes, ["mean"], prior=PRIOR)
    else:
        generator, s = {"NaN in JAX": (in_jax, 1), "4 in JAX": (in_jax, 4)}.get(kind, (in_numpy, 4))
        model = Simulator(generator, Normal(dim=s), ["mean"], prior=PRIOR)
    return Problem(model, gaussian_problem().observed, data_kernel=DATA_KERNEL)


TUNED = owlfi.OptimallyWeighted(m=64, thetas=4)
GIVEN = owlfi.OptimallyWeighted(m=64, thetas=4, coordinates="given")
ADAPTIVE = owlfi.Adaptive(m=64, thetas=4)
CASES = [(TUNED, kind) for kind in ("raises", "NaN in JAX", "4 in JAX", "4 in NumPy")]
CASES += [(GIVEN, "4 in JAX"), (ADAPTIVE, "NaN in JAX")]


@pytest.mark.filterwarnings("ignore:.*dry runs")
@pytest.mark.parametrize(("rule", "kind"), CASES)
def test_rows_that_fail_are_left_out_where_weights_are_tuned(rule, kind):
    problem = problem_of(kind)
    quadrature = rule.quadrature(KEY, problem)
    failed = np.isnan(quadrature.pilot.y).any(2)
    assert len(failed) == 4
    assert 0 < failed.mean() < 0.4
    assert np.isfinite(quadrature.weights).all()
    assert np.isfinite(quadrature.certificate.excess)
    again = rule.retune(KEY, quadrature, problem, jnp.array([1.0]), quadrature.pilot.y[0])
    assert np.isfinite(again.weights).all()
    others = rule.redraw(KEY, problem, quadrature, 2)
    assert others is None or np.isfinite(others.weights).all()


def test_a_failed_row_is_the_mean_of_the_others():
    """As it is where the others share its weight."""
    y, k = np.array([[0.0], [np.nan], [1.0], [3.0]]), DATA_KERNEL
    fine = np.array([0, 2, 3])
    known = np.asarray(k.gram(jnp.asarray(y[fine]), jnp.asarray(y[fine])))
    found = np.asarray(data_gram(k, jnp.asarray(y)))
    assert_allclose(found[np.ix_(fine, fine)], known)
    assert_allclose(found[1, fine], known.mean(0))
    assert_allclose(found[1, 1], known.mean())
    assert_allclose(found.mean(), known.mean())
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_weights_of_failing_simulations_are_calm_and_the_certificate_knows():
    """What fails at random in u is noise to the weights."""
    problem = problem_of("NaN in JAX")
    quadrature = owlfi.VStatistic(64, owlfi.sobol).quadrature(KEY, problem)
    y = np.array(2.0 + quadrature.points)
    smooth = retune_points(quadrature, problem, Normal(), jnp.asarray(y))
    y[np.random.default_rng(0).permutation(64)[:4]] = np.nan
    failing = retune_points(quadrature, problem, Normal(), jnp.asarray(y))
    assert failing.certificate.excess > 100 * smooth.certificate.excess
    assert 64 * (failing.weights**2).sum() < 2


def test_most_rows_must_not_fail():
    model = Simulator(
        lambda theta, u: jnp.where(u > -0.5, jnp.nan, theta[0] + u), Normal(), ["mean"], prior=PRIOR
    )
    with pytest.raises(ValueError, match="for most u at all 12 thetas"):
        owlfi.OptimallyWeighted(m=8).quadrature(KEY, Problem(model, [0.1, 0.2]))


@pytest.mark.filterwarnings("ignore:.*dry runs")
def test_the_check_meets_rows_that_raise():
    model = problem_of("raises").simulator
    fine, fails = [0.5, 0.0], [0.01, 0.0]
    thetas = jnp.ones((3, 1))
    assert check_determined(model, thetas, jnp.array([fine, fails])) == 4
    assert check_determined(model, thetas, jnp.array([fails, fails, fine, fine])) == 4


def test_the_check_goes_on_where_the_generator_raises_at_the_first_thetas():
    def partly(theta, u):
        if theta[0] > 0:
            raise RuntimeError("diverged")
        return theta[0] + u

    model = Simulator(partly, Normal(), ["mean"], prior=PRIOR, on_host=True)
    thetas, u = jnp.array([[5.0]] * 8 + [[-1.0]]), jnp.array([[0.1], [0.2]])
    assert check_determined(model, thetas, u) == 4
    with pytest.raises(RuntimeError, match="diverged"):
        check_determined(model, thetas[:8], u)


@pytest.mark.filterwarnings("ignore::owlfi.HealthWarning")
def test_stored_runs_may_have_failed():
    problem = gaussian_problem()
    u = np.asarray(jax.random.normal(KEY, (60, 8, 1)))
    thetas = np.asarray(problem.prior.sample(jax.random.key(1), 60))
    y = thetas[:, None] + u
    y[::3, 0], y[0] = np.nan, np.nan
    runs = stored_simulations(problem, thetas, u, y, base_kernel="tuned")
    assert np.isfinite(runs.quadrature.weights).all()
    assert_allclose(np.isnan(runs.quadrature.certificate.unexplained), np.arange(60) == 0)
    kept = owlfi.accept(problem, runs, share=0.2, on_failure="reweight")
    assert "19 failed runs are left out" in " ".join(kept.warnings)
    assert np.isfinite(kept.draws).all()


@pytest.mark.filterwarnings("ignore:.*dry runs", "ignore::owlfi.HealthWarning")
def test_abc_says_early_that_nothing_is_left_or_shares_the_weights():
    problem = problem_of("raises")
    known = 104 * 64  # runs: 4 thetas of the rule and 100 more
    with pytest.raises(ValueError, match=f"of {known:,} runs failed.*on_failure=.reweight"):
        owlfi.rejection_abc(KEY, problem, TUNED, draws=10_000)
    posterior = owlfi.rejection_abc(KEY, problem, TUNED, draws=150, on_failure="reweight")
    assert any("failed runs are left out" in told for told in posterior.warnings)
    assert abs(float(posterior.mean[0]) - 1.3) < 1


@pytest.mark.filterwarnings("ignore:.*dry runs")
def test_others_are_drawn_for_rows_of_data_that_fail():
    model = problem_of("raises").simulator
    rows, failed, calls = draw_data(model, KEY, jnp.array([1.0]), 200, 1)
    assert np.isfinite(rows).all()
    assert 0.01 < failed < 0.1
    assert calls in (400, 600)
    hopeless = Simulator(lambda theta, u: theta[0] * u * jnp.nan, Normal(), ["mean"])
    assert draw_data(hopeless, KEY, jnp.array([1.0]), 20, 1)[1:] == (1.0, 20)
