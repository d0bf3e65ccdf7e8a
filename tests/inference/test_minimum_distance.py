"""The minimum-distance estimate is the minimiser, its errors cover, its cost is counted."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import RULE, exact_estimate, exact_standard_error, gaussian_problem, location
from owlfi import Matern, OptimallyWeighted, Prior, Problem, Simulator, Uniform, VStatistic
from owlfi._tools.real_line import from_real, to_real
from owlfi.inference.search.designs import no_designs
from owlfi.inference.search.newton import minimise, minimise_each
from owlfi.inference.search.objective import (
    Objective,
    curve_rows,
    gauss_newton_model,
    objective_of,
)
from owlfi.inference.search.objective import newton_model as eager_newton_model
from owlfi.inference.search.sandwich import sandwich
from owlfi.inference.search.tangent import tangent_by_slopes
from owlfi.kernels.transformed import whitening_kernel
from owlfi.problem.simulations import CHECK_CALLS

newton_model = eqx.filter_jit(eager_newton_model)
value_at = eqx.filter_jit(Objective.at)
KEY = jax.random.key(0)
THETA = jnp.array([3.0, 1.0, 0.5, 0.2])
G_AND_K_RULE = VStatistic(m=128, points=owlfi.sobol)


@cache
def g_and_k_problem(seed=1, n=200):
    model = owlfi.models.g_and_k()
    x = model(THETA, owlfi.iid(jax.random.key(seed), n, model.measure))
    return Problem(model, x)


@cache
def g_and_k_objective():
    problem = g_and_k_problem()
    return objective_of(problem, G_AND_K_RULE.quadrature(KEY, problem))


def on_host(problem):
    """The same problem with its generator in NumPy."""

    def generator(theta, u):
        tail = (1 + np.float64(u) ** 2) ** theta[3] * u
        return theta[0] + theta[1] * (1 + 0.8 * np.tanh(0.5 * theta[2] * u)) * tail

    model = problem.simulator
    host = Simulator(generator, model.measure, model.parameters, prior=model.prior, on_host=True)
    return Problem(host, problem.observed)


@cache
def gaussian_estimate():
    return owlfi.minimum_distance(KEY, gaussian_problem(), RULE)


def test_gaussian_location_agrees_with_the_closed_form():
    problem, estimate = gaussian_problem(), gaussian_estimate()
    assert estimate.converged
    assert_allclose(estimate.theta[0], exact_estimate(problem), atol=1e-5)
    free = (80 / 79) ** 0.5  # one parameter is fitted
    exact = free * exact_standard_error(problem)
    assert_allclose(estimate.standard_errors[0], exact, rtol=1e-4)


def test_value_is_the_squared_mmd_of_the_problem():
    problem = g_and_k_problem()
    quadrature = G_AND_K_RULE.quadrature(KEY, problem)
    objective = objective_of(problem, quadrature)
    y = problem.simulator.rows(THETA, quadrature.points)
    value = value_at(objective, to_real(THETA, objective.ends)) + problem.data_term()
    assert_allclose(value, problem.squared_mmd(y, quadrature), atol=1e-13)


def test_value_of_the_u_statistic_leaves_out_the_diagonal():
    problem = g_and_k_problem()
    quadrature = owlfi.UStatistic(64).quadrature(KEY, problem)
    objective = objective_of(problem, quadrature)
    y = problem.simulator.rows(THETA, quadrature.points)
    value = objective.of_rows(y) + problem.data_term(unbiased=True)
    assert_allclose(value, problem.squared_mmd(y, quadrature), atol=1e-13)


def test_gradient_and_hessian_are_those_of_the_value():
    objective = g_and_k_objective()
    theta = jnp.array([3.3, 0.8, 0.7, 0.4])
    model = newton_model(objective, to_real(theta, objective.ends))
    h = 1e-5 * jnp.eye(4)
    up, down = (to_real(theta[None] + step, objective.ends) for step in (h, -h))
    differences = [
        value_at(objective, a) - value_at(objective, b) for a, b in zip(up, down, strict=True)
    ]
    assert_allclose(model.gradient, jnp.stack(differences) / 2e-5, atol=1e-8)
    slopes = [newton_model(objective, v).gradient for v in (*up, *down)]
    assert_allclose(
        model.hessian, (jnp.stack(slopes[:4]) - jnp.stack(slopes[4:])) / 2e-5, atol=1e-7
    )


def test_gauss_newton_hessian_is_exact_for_a_simulator_that_is_linear():
    problem = gaussian_problem()
    objective = objective_of(problem, RULE.quadrature(KEY, problem))
    v = jnp.array([0.8])
    exact, approximate = newton_model(objective, v), gauss_newton_model(objective, v)
    assert_allclose(approximate.hessian, exact.hessian, rtol=1e-10)
    assert_allclose(approximate.gradient, exact.gradient, rtol=1e-10)


@pytest.mark.slow
def test_other_kernels_than_the_squared_exponential_serve():
    problem = g_and_k_problem()
    kernel = 0.5 * Matern(2.5, 1.0) + owlfi.RationalQuadratic(2.0)
    problem = Problem(problem.simulator, problem.observed, data_kernel=kernel)
    estimate = owlfi.minimum_distance(KEY, problem, G_AND_K_RULE)
    assert estimate.converged
    assert jnp.all(jnp.abs(estimate.theta - THETA) < 5 * estimate.standard_errors)


@pytest.mark.parametrize("start", range(6))
def test_searches_from_all_over_the_prior_find_the_same_minimum(start):
    objective = g_and_k_objective()
    found = minimise(objective, g_and_k_problem().prior.starts(jax.random.key(3), 6)[start])
    best = minimise(objective, THETA)
    assert found.converged
    assert_allclose(found.theta, best.theta, atol=1e-3)
    assert found.calls <= 30 * 128


def test_warm_starts_take_a_few_steps():
    found = minimise(g_and_k_objective(), THETA, model=gauss_newton_model)
    assert found.converged
    assert found.calls <= 6 * 128


def test_trace_falls_to_the_minimum():
    estimate = owlfi.minimum_distance(KEY, g_and_k_problem(), G_AND_K_RULE)
    values = np.asarray(estimate.trace_values)
    assert np.all(np.diff(values) <= 0)
    assert_allclose(values[-1], estimate.squared_mmd)
    errors = np.asarray(estimate.standard_errors)  # the last step is towards other designs
    assert np.all(np.abs(estimate.trace_thetas[-1] - estimate.theta) < errors)


@pytest.mark.slow
def test_host_simulator_gives_the_same_estimate_and_counts_its_differences():
    problem = g_and_k_problem()
    estimate = owlfi.minimum_distance(KEY, problem, G_AND_K_RULE)
    host = owlfi.minimum_distance(KEY, on_host(problem), G_AND_K_RULE)
    assert_allclose(host.theta, estimate.theta, atol=1e-3)
    # Without second derivatives of the simulator, which the misfit of 1/√n multiplies.
    assert_allclose(host.standard_errors, estimate.standard_errors, rtol=0.1)
    assert host.gradient_calls == 0
    assert host.calls > estimate.calls


def test_slopes_of_a_host_simulator_are_carried_on_from_step_to_step():
    """Differences at every step would be nine runs of all points each, where it has four."""
    problem = on_host(g_and_k_problem())
    objective = objective_of(problem, G_AND_K_RULE.quadrature(KEY, problem))
    found = minimise(objective, 1.2 * THETA)
    steps = int(np.isfinite(found.values).sum())
    assert found.converged
    assert int(found.calls) <= 0.6 * 9 * objective.m * steps
    exact = minimise(objective_of(g_and_k_problem(), G_AND_K_RULE.quadrature(KEY, problem)), THETA)
    assert_allclose(found.theta, exact.theta, atol=1e-3)


def test_where_a_host_simulator_has_no_slopes_no_search_ends():
    """A step that does not help is not differenced; its model must never look like a minimum."""
    problem = on_host(g_and_k_problem())
    objective = objective_of(problem, G_AND_K_RULE.quadrature(KEY, problem))
    v = to_real(THETA, objective.ends)
    lowest = eager_newton_model(objective, v, jnp.array(-jnp.inf))
    assert lowest.value == jnp.inf
    assert lowest.calls == 128


def test_calls_count_every_row_of_a_host_simulator():
    rows = 0

    def counted(theta, u):
        nonlocal rows
        rows += len(u)
        return np.float64(theta[0] + u)

    problem = gaussian_problem()
    model = Simulator(counted, owlfi.Normal(), ["mean"], prior=problem.prior, on_host=True)
    problem = Problem(model, problem.observed)
    rows = 0
    estimate = owlfi.minimum_distance(KEY, problem, VStatistic(64))
    assert estimate.calls == rows


def test_the_same_key_gives_the_same_estimate():
    again = owlfi.minimum_distance(KEY, gaussian_problem(), RULE)
    assert eqx.tree_equal(vars(gaussian_estimate()), vars(again))


@pytest.mark.slow
def test_many_data_sets_in_one_call_agree_with_one_after_the_other():
    problem = gaussian_problem()
    objective = objective_of(problem, RULE.quadrature(KEY, problem))
    x = 0.5 + jax.random.normal(KEY, (3, 40, 1))
    starts = jnp.zeros((3, 1))
    together = minimise_each(objective, x, starts)
    alone = [minimise(objective.with_data(rows), starts[0]).theta for rows in x]
    assert_allclose(together.theta, jnp.stack(alone), atol=1e-9)


def test_weighted_observations_agree_with_the_closed_form():
    problem = gaussian_problem()
    objective = objective_of(problem, RULE.quadrature(KEY, problem))
    shares = jax.random.exponential(KEY, (2, 80))
    shares = shares / shares.sum(1, keepdims=True)
    found = minimise_each(objective, None, jnp.ones((2, 1)), shares=shares)
    expected = [exact_estimate(problem, np.asarray(row)) for row in shares]
    assert_allclose(found.theta[:, 0], expected, atol=5e-5)  # MMD² is minimised to 1e-10


def test_estimates_stay_inside_bounds_that_exclude_the_truth():
    prior = Prior(mean=Uniform(2, 3))
    model = Simulator(location, owlfi.Normal(), ["mean"], prior=prior)
    problem = Problem(model, gaussian_problem().observed)
    found = minimise(objective_of(problem, RULE.quadrature(KEY, problem)), jnp.array([2.5]))
    assert 2 <= found.theta[0] < 2.01


@pytest.mark.slow
def test_simulations_that_fail_for_some_theta_are_left_out():
    def fails_below_one(theta, u):
        return jnp.where(theta[0] > 1, theta[0], jnp.nan) + u

    prior = Prior(mean=Uniform(-3, 3))
    model = Simulator(fails_below_one, owlfi.Normal(), ["mean"], prior=prior)
    problem = gaussian_problem()
    failing = Problem(model, problem.observed, data_kernel=1.0 * problem.data_kernel)
    with pytest.warns(owlfi.HealthWarning, match="simulations failed at 10 of 16 starts"):
        estimate = owlfi.minimum_distance(KEY, failing, RULE)
    assert_allclose(estimate.theta[0], exact_estimate(problem), atol=1e-3)


def test_simulations_that_always_fail_are_an_error():
    prior = Prior(mean=Uniform(-3, 3))
    model = Simulator(lambda t, u: t[0] * jnp.nan * u, owlfi.Normal(), ["mean"], prior=prior)
    with pytest.raises(ValueError, match="NaN or infinite at all 16 starts"):
        owlfi.minimum_distance(KEY, Problem(model, [1.0, 2.0]), RULE)


def test_discrete_parameters_are_refused():
    prior = Prior(count=owlfi.Poisson(3.0))
    model = Simulator(location, owlfi.Normal(), ["count"], prior=prior)
    with pytest.raises(ValueError, match="prior of count is discrete"):
        owlfi.minimum_distance(KEY, Problem(model, [1.0, 2.0]), RULE)


def errors_at(objective, theta, excess=0.0):
    """The sandwich at theta, for points whose error is known."""
    tangent, *_ = tangent_by_slopes(objective, theta, no_designs(objective))
    known = None if excess is None else jnp.array(excess)
    return sandwich(tangent, objective.shares, jnp.ones(len(theta)), known)


@cache
def spreads():
    """The variance with points that are exact, with half and with all of their own error."""
    problem = gaussian_problem(n=500)
    objective = objective_of(problem, VStatistic(500).quadrature(KEY, problem))
    theta = jnp.array([1.3])
    y = problem.simulator.rows(theta, objective.points)
    half = 0.5 * (1 - problem.data_kernel.gram(y, y).mean()) / 500
    excesses = jnp.array(0.0), half, None
    return [errors_at(objective, theta, excess).covariance for excess in excesses]


@pytest.mark.slow
def test_independent_points_add_their_own_spread():
    """At m = n, a well-specified model has twice the variance."""
    exact, _, full = spreads()
    assert_allclose(full / exact, 2.0, rtol=0.2)


@pytest.mark.slow
def test_known_errors_of_the_points_add_their_share():
    """Half the squared error of independent points adds half their spread."""
    exact, some, full = spreads()
    assert_allclose(some - exact, 0.5 * (full - exact), rtol=1e-10)


@pytest.mark.slow
def test_weights_tuned_at_the_estimate_bring_it_to_the_exact_one():
    """Sixteen Sobol points: from a tenth of a standard error to a thousandth of it."""
    problem, rule = gaussian_problem(), VStatistic(16, owlfi.sobol)
    exact, error = exact_estimate(problem), exact_standard_error(problem)
    plain = owlfi.minimum_distance(KEY, problem, rule)
    tuned = owlfi.minimum_distance(KEY, problem, rule, retune=True)
    assert abs(tuned.theta[0] - exact) < 0.1 * abs(plain.theta[0] - exact)
    assert_allclose(tuned.theta[0], exact, atol=0.01 * error)
    assert_allclose(tuned.standard_errors[0], error, rtol=0.02)
    assert plain.calls < tuned.calls <= plain.calls + 16 * 8


@pytest.mark.slow
def test_rules_that_tune_are_tuned_again_on_the_same_points():
    problem, rule = gaussian_problem(), OptimallyWeighted(16, thetas=4)
    again = owlfi.minimum_distance(KEY, problem, rule)
    once = owlfi.minimum_distance(KEY, problem, rule, retune=False)
    exact = exact_estimate(problem)
    assert again.calls > once.calls
    assert abs(again.theta[0] - exact) <= abs(once.theta[0] - exact) + 1e-3
    assert_allclose(again.trace_thetas[-1], again.theta, atol=1e-3)


def test_u_statistics_have_nothing_to_tune():
    with pytest.raises(ValueError, match="no weights, which retune=True needs"):
        owlfi.minimum_distance(KEY, gaussian_problem(), owlfi.UStatistic(20), retune=True)


@pytest.mark.slow
def test_sandwich_intervals_cover():
    """90% intervals on 400 data sets; 4 standard errors of a binomial share are 0.06."""
    problem = gaussian_problem()
    objective = objective_of(problem, RULE.quadrature(KEY, problem))
    x = 1.3 + jax.random.normal(jax.random.key(5), (400, 80, 1))
    theta = minimise_each(objective, x, jnp.ones((400, 1))).theta
    covariances = [
        errors_at(objective.with_data(rows), at).covariance
        for rows, at in zip(x, theta, strict=True)
    ]
    errors = np.sqrt(np.array(covariances)[:, 0, 0])
    assert abs(np.mean(np.abs(theta[:, 0] - 1.3) < 1.645 * errors) - 0.9) < 0.06


def test_curvature_takes_derivatives_however_found():
    objective = g_and_k_objective()
    v = to_real(THETA, objective.ends)
    by_theta = jax.jacfwd(lambda theta: objective.rows(to_real(theta, objective.ends)))
    slopes = jnp.moveaxis(jax.jit(by_theta)(THETA), -1, 0)
    by_rows = curve_rows(objective, objective.rows(v), slopes)
    assert_allclose(by_rows.curvature, gauss_newton_model(objective, v).hessian, rtol=1e-9)


def test_transforms_undo_each_other():
    ends = jnp.array([0.0, -2.0, -jnp.inf, -jnp.inf]), jnp.array([5.0, jnp.inf, 4.0, jnp.inf])
    theta = jnp.array([[0.1, -1.9, 3.0, 7.0], [4.9, 30.0, -9.0, -7.0]])
    assert_allclose(from_real(to_real(theta, ends), ends), theta, rtol=1e-12)


def test_gradient_descent_finds_the_same_minimum_at_more_calls():
    problem, estimate = gaussian_problem(), gaussian_estimate()
    descent = owlfi.random_restarts(KEY, problem, RULE, optimizer=optax.adam(0.1))
    assert_allclose(descent.theta, estimate.theta, atol=1e-3)
    assert_allclose(descent.standard_errors, estimate.standard_errors, rtol=1e-3)
    designs = 6 * 64
    assert descent.calls == CHECK_CALLS + 32 * 50 + 64 * 10 * 200 + designs
    assert descent.warnings == ()
    assert descent.gradient_calls == 64 * 10 * 200 + designs


def test_gradient_descent_counts_the_simulations_of_tuning():
    problem, rule = gaussian_problem(), OptimallyWeighted(16, thetas=4)
    tuning = rule.quadrature(jax.random.split(KEY)[0], problem).tuning_calls
    few = {"starts": 3, "restarts": 1, "steps": 2}
    assert tuning >= 4 * 16
    with pytest.warns(owlfi.HealthWarning, match="still falling after 2 steps"):
        estimate = owlfi.random_restarts(KEY, problem, rule, **few)
    assert estimate.calls == tuning + 3 * 16 + 16 * 2 + 6 * 16


def test_gradient_descent_refuses_simulators_without_derivatives():
    with pytest.raises(ValueError, match="use minimum_distance"):
        owlfi.random_restarts(KEY, on_host(g_and_k_problem()), G_AND_K_RULE)


@pytest.mark.slow
def test_whitened_second_fit_is_more_certain_where_columns_are_correlated():
    model = owlfi.models.moving_average(10)
    x = model(model.theta, owlfi.iid(jax.random.key(2), 200, model.measure))
    rule, options = VStatistic(128, owlfi.sobol), {"starts": 4, "refined": 1}
    plain = owlfi.minimum_distance(KEY, Problem(model, x), rule, **options)
    sharp = owlfi.minimum_distance(KEY, Problem(model, x), rule, whiten=True, **options)
    assert jnp.all(sharp.standard_errors < plain.standard_errors)
    assert jnp.all(jnp.abs(sharp.theta - model.theta) < 5 * sharp.standard_errors)


@pytest.mark.parametrize("unbiased", [pytest.param(False, marks=pytest.mark.slow), True])
def test_moments_give_the_derivatives_of_the_objective(unbiased):
    """Newton's model of a squared exponential against differentiation of the objective itself."""
    model = owlfi.models.multivariate_g_and_k(2)
    x = model(model.theta, owlfi.iid(jax.random.key(0), 30, model.measure))
    problem = owlfi.Problem(model, x, data_kernel=whitening_kernel(x))
    objective = objective_of(problem, owlfi.VStatistic(16).quadrature(jax.random.key(1), problem))
    objective = dataclasses.replace(objective, unbiased=unbiased)
    theta = jnp.array([2.5, 1.3, 0.4, 0.2, 0.1])
    found = newton_model(objective, to_real(theta, objective.ends))

    def at(theta):
        return objective.at(to_real(theta, objective.ends))

    derivatives = jax.jit(lambda theta: (at(theta), jax.grad(at)(theta), jax.hessian(at)(theta)))
    value, gradient, hessian = derivatives(theta)
    assert_allclose(found.value, value, rtol=1e-12)
    assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-13)
    assert_allclose(found.hessian, hessian, rtol=1e-9, atol=1e-12)
