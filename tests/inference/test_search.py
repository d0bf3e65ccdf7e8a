"""A search that finds its way from anywhere, with or without slopes, and knows how sure it is."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize as scipy_minimise
from scipy.special import gammaincinv, polygamma
from scipy.stats import poisson

import owlfi
from gaussian import RULE, exact_estimate, gaussian_problem
from owlfi import Normal, Prior, Problem, Simulator, Uniform, VStatistic
from owlfi._tools.arrays import as_jax
from owlfi.inference.search.curvature import curve
from owlfi.inference.search.designs import Designs, draw_apart, no_designs
from owlfi.inference.search.misfit import expect_squared_mmd
from owlfi.inference.search.newton import plan_step
from owlfi.inference.search.objective import LocalModel, objective_of
from owlfi.inference.search.profile import find_end, usual_units
from owlfi.inference.search.roughness import is_rough
from owlfi.inference.search.sandwich import sandwich
from owlfi.inference.search.scatter import refit_inside, scatter_around
from owlfi.inference.search.starts import compare_starts
from owlfi.inference.search.tangent import Tangent, tangent_by_slopes
from owlfi.inference.search.tangent_by_regression import tangent_by_regression
from owlfi.inference.search.walk import as_minimum, end_walk
from owlfi.inference.search.ways import ByRegression, BySlopes, Landing
from owlfi.inference.search.whitening import whitened_kernel
from owlfi.kernels import SquaredExponential

KEY = jax.random.key(0)
SOBOL = VStatistic(64, owlfi.sobol)


def draw(model, theta, n, key=KEY):
    return model(theta, owlfi.iid(key, n, model.measure))


def fit(problem, rule=SOBOL, key=KEY):
    """An estimate whose warnings are looked at in the test, not issued."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", owlfi.HealthWarning)
        return owlfi.minimum_distance(key, problem, rule)


def warns(estimate, words):
    return any(words in sentence for sentence in estimate.warnings)


def count_by_quantiles(theta, u):
    return poisson.ppf(u, theta[0])


def counts():
    return Simulator(count_by_quantiles, Uniform(), ["rate"], prior=Prior(rate=Uniform(0.5, 10)))


def narrow():
    """Data a thousand times narrower than what the prior predicts."""
    prior = Prior(mean=Uniform(-50, 50), spread=Uniform(0, 1))
    return Simulator(lambda t, u: t[0] + 0.1 * t[1] * u, Normal(), ["mean", "spread"], prior=prior)


def test_starts_that_k_cannot_see_are_led_to_the_data():
    problem = Problem(narrow(), draw(narrow(), [3.0, 0.5], 100))
    estimate = fit(problem)
    assert_allclose(estimate.theta, [3.0, 0.5], atol=0.1)
    assert np.all(np.abs(estimate.theta - np.array([3.0, 0.5])) < 4 * estimate.standard_errors)
    assert estimate.warnings == ()


def scout_both(problem, key):
    """The two places where searches of one parameter are to begin."""
    quadrature = SOBOL.quadrature(key, problem)
    objective = objective_of(problem, quadrature)
    tried = compare_starts(key, problem, objective, quadrature, 16)
    begun, _ = BySlopes().scout(objective, tried, 2)
    return sorted(float(each.theta[0]) for each in begun)


five_keys = pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 5))]
)


@five_keys
def test_scouts_find_both_of_two_minima(number):
    """theta and -theta have the same data."""
    prior = Prior(root=Uniform(-3, 3))
    model = Simulator(lambda t, u: t[0] ** 2 + u, Normal(), ["root"], prior=prior, on_host=True)
    problem = Problem(model, draw(model, [1.2], 80))
    found = scout_both(problem, jax.random.split(KEY, 5)[number])
    assert_allclose(found, [-1.2, 1.2], atol=0.3)
    assert warns(fit(problem), "another minimum is nearly as low")


def test_few_points_of_a_long_tail_do_not_pass_for_slopes():
    """Pareto's shape, of which maximum likelihood has a standard error of shape / √n."""
    prior = Prior(shape=Uniform(0.3, 5))
    noise = owlfi.Exponential()
    model = Simulator(lambda t, u: np.exp(u / t[0]), noise, ["shape"], prior=prior, on_host=True)
    problem = Problem(model, draw(model, [0.8], 80))
    objective = objective_of(problem, SOBOL.quadrature(KEY, problem))
    tangent, *_ = tangent_by_slopes(objective, jnp.array([0.8]), no_designs(objective))
    assert tangent.alone.max() > 0.5
    assert fit(problem).standard_errors[0] > 0.8 / 80**0.5


@pytest.mark.slow
def test_ripples_that_do_not_average_out_are_said():
    model = owlfi.models.g_and_k()
    problem = Problem(model, draw(model, jnp.array([3.0, 2.0, 2.5, 0.9]), 100))
    assert warns(fit(problem), "single simulations far out")


@pytest.mark.slow
def test_intervals_of_a_long_tail_are_no_narrower_than_those_of_maximum_likelihood():
    """Gamma's scale at a small shape: single points of a design pass single observations."""
    prior = Prior(shape=Uniform(0.05, 5), scale=Uniform(0.1, 10))
    model = Simulator(
        lambda t, u: t[1] * gammaincinv(t[0], u), Uniform(), prior.names, prior=prior, on_host=True
    )
    for key in jax.random.split(KEY, 2):
        estimate = fit(Problem(model, draw(model, [0.3, 2.0], 80, key)))
        shape, scale = np.asarray(estimate.theta)
        bend = polygamma(1, shape)
        least = scale * np.sqrt(bend / (80 * (shape * bend - 1)))  # by the Fisher information
        low, high = estimate.interval(0.9)
        assert min(scale - low[1], high[1] - scale) > 1.645 * least


def test_ladder_goes_down_from_a_scale_that_sees_half_of_the_starts():
    problem = Problem(narrow(), draw(narrow(), [3.0, 0.5], 100))
    quadrature = SOBOL.quadrature(KEY, problem)
    starts = compare_starts(KEY, problem, objective_of(problem, quadrature), quadrature, 16)
    assert starts.ladder[-1] == 1
    assert 100 < starts.ladder[0] < 10_000  # data of width 0.05 in a prior of width 100
    usual = gaussian_problem()
    quadrature = SOBOL.quadrature(KEY, usual)
    starts = compare_starts(KEY, usual, objective_of(usual, quadrature), quadrature, 16)
    assert starts.ladder[0] <= 8


def test_regressions_are_widened_until_they_hold_other_weightings_of_the_data():
    """Draws of the bootstrap that lie beyond would be left out, and the others too narrow."""
    problem = Problem(counts(), draw(counts(), [4.0], 100))
    objective = objective_of(problem, SOBOL.quadrature(KEY, problem))
    narrow, _ = scatter_around(objective, jnp.array([4.0]), jnp.array([[0.15]]), 0)
    landing = Landing(as_minimum(objective, end_walk(narrow)), narrow)
    shares = np.random.default_rng(0).dirichlet(np.ones(100), 200)
    wider, calls = ByRegression().make_room(objective, landing, as_jax(shares))
    held = [
        np.mean(refit_inside(each.scatter, None, as_jax(shares)).converged)
        for each in (landing, wider)
    ]
    assert held[0] < 0.9 < held[1]
    assert calls == 2 * len(wider.scatter.y) * objective.m


def test_counts_are_fitted_without_slopes():
    model = counts()
    x = draw(model, [4.0], 100)
    estimate = fit(Problem(model, x))
    error = (4.0 / 100) ** 0.5  # of the maximum likelihood estimate, the mean
    assert abs(estimate["rate"] - float(x.mean())) < error
    assert error < estimate.standard_errors[0] < 1.5 * error


def test_slopes_that_say_nothing_are_recognised():
    def jump(theta, u):
        return jnp.floor(theta[0] + 3 * u)

    def oscillate(theta, u):
        return jnp.sin(1e5 * theta[0] + u) + theta[0]

    def bend(theta, u):
        return jnp.exp(theta[0] / 2) * u + theta[0] ** 3 / 10

    prior = Prior(a=Uniform(-5, 5))
    for generator, rough in ((jump, True), (oscillate, True), (bend, False)):
        model = Simulator(generator, Normal(), ["a"], prior=prior)
        problem = Problem(model, draw(model, [1.0], 50))
        objective = objective_of(problem, SOBOL.quadrature(KEY, problem))
        assert is_rough(objective, jnp.array([1.0]))[0] is rough, generator.__name__


def test_counts_are_recognised_where_a_small_step_changes_none():
    model = Simulator(count_by_quantiles, Uniform(), ["rate"], prior=Prior(rate=Uniform(0, 50)))
    problem = Problem(model, draw(model, [0.3], 60))
    objective = objective_of(problem, SOBOL.quadrature(KEY, problem))
    assert is_rough(objective, jnp.array([0.01]))[0]


def smooth_objective():
    problem = gaussian_problem()
    return objective_of(problem, VStatistic(256, owlfi.sobol).quadrature(KEY, problem))


def test_regression_gives_the_errors_that_slopes_give():
    objective, theta = smooth_objective(), jnp.array([1.2])
    by_slopes, *_ = tangent_by_slopes(objective, theta, no_designs(objective))
    scatter, calls = scatter_around(objective, theta, jnp.array([[0.1]]), 0)
    by_regression = tangent_by_regression(scatter, jnp.zeros(1))
    assert calls == len(scatter.y) * 256
    assert_allclose(by_regression.metric, by_slopes.metric, rtol=0.01)
    assert_allclose(by_regression.at_data, by_slopes.at_data, atol=0.01)
    errors = [
        sandwich(tangent, objective.shares, jnp.ones(1), jnp.array(0.0)).covariance
        for tangent in (by_slopes, by_regression)
    ]
    assert_allclose(*errors, rtol=0.1)  # the regression leaves out how the slopes bend


@pytest.mark.slow
def test_what_simulations_have_with_themselves_does_not_pass_for_slopes():
    """In eight dimensions each is alone: of 64 points, a fifth of ⟨∂μ, ∂μ⟩ is each with itself."""
    model = Simulator(
        lambda t, u: jnp.where(u[:, :8] < t[0], 1.0, -1.0) + 0.5 * u[:, 8:],
        owlfi.Product(Uniform(dim=8), Normal(dim=8)),
        ["share"],
        prior=Prior(share=Uniform(0, 1)),
    )
    problem = Problem(model, draw(model, [0.6], 60))

    def look(m, key):
        objective = objective_of(problem, VStatistic(m).quadrature(key, problem))
        around = objective, jnp.array([0.6]), jnp.array([[0.05]]), 0
        scatter, _ = scatter_around(*around)
        again, _ = scatter_around(*around, draw_apart(jax.random.fold_in(key, 1), objective))
        tangent = tangent_by_regression(scatter, jnp.zeros(1), again=again)
        return float(tangent.metric[0, 0]), float(tangent.alone[0])

    metrics, alone = np.transpose([look(64, key) for key in jax.random.split(KEY, 8)])
    error = metrics.std(ddof=1) / 8**0.5
    assert_allclose(metrics.mean(), look(512, KEY)[0], atol=3 * error)
    assert 0.1 < alone.mean() < 0.3
    assert error < 0.1 * metrics.mean()


def test_thetas_take_turns_on_designs():
    objective = smooth_objective()
    points = jnp.stack([objective.points, objective.points[::-1] + 1])
    designs = Designs(points, jnp.stack([objective.weights, 2 * objective.weights]))
    around = objective, jnp.array([1.2]), jnp.array([[0.1]]), 0
    own, _ = scatter_around(*around)
    turned, calls = scatter_around(*around, designs)
    assert calls == len(turned.y) * objective.m
    assert_allclose(turned.y[::2], own.y[::2], rtol=1e-12)
    assert_allclose(turned.y[1::2], own.y[1::2, ::-1] + 1, rtol=1e-12)  # the mean of a Gaussian
    assert_allclose(turned.weights[1::2], 2 * own.weights[1::2])


@five_keys
def test_scouts_go_on_while_they_come_to_places_of_their_own(number):
    """A frequency w and 2π - w have the same data, among many other minima."""
    prior = Prior(w=Uniform(0.05, 2 * np.pi - 0.05))
    times = jnp.arange(12.0)
    model = Simulator(
        lambda t, u: jnp.cos(t[0] * times)[None] + 0.5 * u, Normal(dim=12), ["w"], prior=prior
    )
    problem = Problem(model, draw(model, [1.1], 40))
    found = scout_both(problem, jax.random.split(KEY, 5)[number])
    assert_allclose(found, [1.1, 2 * np.pi - 1.1], atol=0.1)


def test_a_correction_goes_no_farther_than_a_parabola_is_believed_and_says_how_far_it_would():
    at_data = 1e-3 * np.random.default_rng(0).normal(size=(1, 50))
    of_points, at_designs = np.array([[1e-12]]), np.full((1, 6), 1e-3)
    tangent = Tangent(
        np.array([[2e-4]]),
        np.array([[1e-4]]),
        np.zeros(1),
        at_data,
        of_points,
        at_designs,
        np.zeros(1),
        np.array(1.0),
        np.array(0.0),
        0.0,
    )
    found = sandwich(jax.tree.map(jnp.asarray, tangent), jnp.full(50, 0.02), jnp.ones(1))
    assert_allclose(found.shift, [-0.25])  # a quarter of the prior's width
    assert_allclose(found.moved, 10 / np.sqrt(np.diag(found.covariance)))  # 2 · 1e-3 / 2e-4


def test_products_of_scattered_embeddings_are_those_of_the_gram_matrix():
    scatter, _ = scatter_around(smooth_objective(), jnp.array([1.2]), jnp.array([[0.1]]), 0)
    count, m, d = scatter.y.shape
    gram = scatter.objective.data_kernel.gram(*[scatter.y.reshape(-1, d)] * 2)
    weighted = gram.reshape(count, m, count, m)
    expected = np.einsum("ti,tisj,sj->ts", scatter.weights, weighted, scatter.weights)
    assert_allclose(scatter.products, expected, rtol=1e-12)


def test_counts_at_the_end_of_a_prior_have_the_errors_that_counts_have():
    x = np.random.default_rng(3).poisson(0.4, (60, 1)).astype(float)
    assert x.mean() < 0.5
    estimate = fit(Problem(counts(), x))
    assert estimate["rate"] < 0.6
    assert estimate.standard_errors[0] > 0.5 * (0.5 / 60) ** 0.5


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_a_step_inside_a_box_promises_something_wherever_anything_can_be_gained(p):
    """Against scipy's bounded minimum of the same parabola, with parameters at their ends."""
    rng, stops = np.random.default_rng(p), 0
    prior = Prior(**{f"t{i}": Uniform(-1.0, 1.0) for i in range(p)})
    model = Simulator(lambda theta, u: theta[:1] + u, Normal(), prior.names, prior=prior)
    problem = Problem(model, np.zeros((5, 1)) + np.arange(5.0)[:, None])
    objective = objective_of(problem, SOBOL.quadrature(KEY, problem))
    for _ in range(40):
        root = rng.normal(size=(p, p))
        hessian = root @ root.T + 0.01 * np.eye(p)
        ends = rng.choice([-0.999999, 0.999999], p)
        place = np.where(rng.random(p) < 0.4, ends, rng.uniform(-1, 1, p))
        gradient = rng.normal(size=p)
        found = scipy_minimise(
            lambda x, g=gradient, h=hessian: (g @ x + 0.5 * x @ h @ x, g + h @ x),
            np.zeros(p),
            jac=True,
            bounds=list(zip(-0.999999 - place, 0.999999 - place, strict=True)),
        )
        local = LocalModel(jnp.array(0.0), as_jax(gradient), as_jax(hessian), jnp.array(0))
        v = owlfi._tools.real_line.to_real(as_jax(place), objective.ends)
        step, promised = plan_step(v, local, jnp.array(1.0), objective)
        stops += bool(-found.fun > 1e-6 and not promised > 1e-8)
        moved = np.asarray(objective.place_of(step)) - place
        assert_allclose(promised, -gradient @ moved - 0.5 * moved @ hessian @ moved, atol=1e-8)
    assert stops == 0


@pytest.mark.parametrize(("low", "start", "best"), [(2.0, 5.0, 2.0), (0.0, 1e-4, None)])
def test_ends_of_a_prior_are_a_few_steps_away(low, start, best):
    """On the real line they are infinitely far, and an estimate there is fifteen steps away."""
    problem = gaussian_problem()
    prior = Prior(mean=Uniform(low, 6.0))
    model = Simulator(problem.simulator.generator, Normal(), prior.names, prior=prior)
    held = Problem(model, problem.observed, data_kernel=problem.data_kernel)
    objective = objective_of(held, RULE.quadrature(KEY, held))
    found = owlfi.inference.search.newton.minimise(objective, jnp.array([start]))
    assert found.converged
    assert found.calls <= 8 * objective.m
    assert_allclose(found.theta, exact_estimate(problem) if best is None else best, atol=1e-5)


def test_profile_of_a_parabola_ends_where_the_normal_interval_does():
    objective = smooth_objective()
    landing = owlfi.inference.search.newton.minimise(objective, jnp.array([1.0]))
    tangent, *_ = tangent_by_slopes(objective, landing.theta, no_designs(objective))
    errors = sandwich(tangent, objective.shares, jnp.ones(1), jnp.array(0.0))
    end = find_end(objective, landing.theta, float(landing.value), errors, 0, 1, 0.0, 50)
    usual = usual_units(80, 1) * float(errors.covariance[0, 0]) ** 0.5
    assert_allclose(end.reach, usual, rtol=0.1)


@pytest.mark.slow
def test_expected_squared_mmd_is_that_of_data_sets():
    """Over 400 data sets of the model itself: 4 Monte Carlo errors."""
    problem = gaussian_problem(n=50)
    exact = VStatistic(1024, owlfi.sobol).quadrature(KEY, problem)
    expected = expect_squared_mmd(problem)
    keys = jax.random.split(KEY, 400)
    truth = problem.simulator.rows(jnp.array([1.3]), exact.points)
    found = np.array(
        [
            float(
                owlfi.squared_mmd(problem.data_kernel, truth, draw(problem.simulator, [1.3], 50, k))
            )
            for k in keys
        ]
    )
    assert_allclose(found.mean(), expected.mean, rtol=4 / 20 * found.std() / found.mean() + 0.1)
    chances = np.array([expected.tail(value, 0.0) for value in found])
    assert abs((chances < 0.1).mean() - 0.1) < 4 * (0.09 / 400) ** 0.5 + 0.03


def test_a_model_that_does_not_fit_is_said_so():
    problem = gaussian_problem(n=40)
    far = Problem(problem.simulator, jnp.concatenate([problem.observed, problem.observed + 8]))
    assert warns(fit(far), "beyond what 80 observations")


def test_observations_unlike_all_simulations_are_named():
    problem = gaussian_problem(n=100)
    x = np.array(problem.observed)
    assert fit(problem).warnings == ()
    x[[3, 20, 41, 77]] = [[9.0], [-8.0], [30.0], [12.0]]
    strays = Problem(problem.simulator, x, data_kernel=problem.data_kernel)
    told = "4 of 100 observations are unlike all simulations (rows 3, 20, 41, 77)"
    assert warns(fit(strays), told)


def test_few_observations_that_cannot_move_the_estimate_are_not_told_of():
    problem = gaussian_problem(n=100)
    x = np.array(problem.observed)
    x[3] = 30.0
    assert fit(Problem(problem.simulator, x, data_kernel=problem.data_kernel)).warnings == ()


def test_a_parameter_that_changes_nothing_has_the_prior_as_its_interval():
    prior = Prior(mean=Uniform(-5, 5), idle=Uniform(0, 1))
    model = Simulator(lambda t, u: t[0] + u + 0 * t[1], Normal(), ["mean", "idle"], prior=prior)
    x = draw(model, [1.0, 0.5], 80)
    estimate = fit(Problem(model, x))
    assert warns(estimate, "hardly determine idle")
    low, high = estimate.interval()
    assert np.isinf(estimate.standard_errors[1])
    assert (low[1], high[1]) == (0, 1)
    assert abs(estimate["mean"] - 1) < 4 * estimate.standard_errors[0] < 1


def test_a_ridge_of_counts_along_which_other_parameters_may_move_is_said_so():
    def count(theta, u):
        a, b, rate = theta
        rates = np.array([a * b, rate])
        return poisson.ppf(u.clip(1e-12, 1 - 1e-12), rates)

    prior = Prior(a=Uniform(0.5, 4), b=Uniform(0.5, 4), rate=Uniform(0.5, 10))
    model = Simulator(count, Uniform(dim=2), prior.names, prior=prior, on_host=True)
    estimate = fit(Problem(model, draw(model, [2.0, 1.5, 4.0], 80)))
    assert warns(estimate, "the interval of rate may be many times too short; hold a")


def test_an_estimate_at_the_end_of_its_prior_is_said_so():
    prior = Prior(mean=Uniform(2, 3))
    model = Simulator(lambda t, u: t[0] + u, Normal(), ["mean"], prior=prior)
    estimate = fit(Problem(model, gaussian_problem().observed))
    assert warns(estimate, "mean lies at the end of its prior")
    assert estimate.interval()[0][0] == 2


def test_a_corner_of_the_prior_is_found_whatever_the_key():
    model = owlfi.models.g_and_k()
    x = draw(model, model.theta, 200, jax.random.fold_in(jax.random.key(11), 1))
    problem, rule = Problem(model, x), owlfi.OptimallyWeighted(64)
    found = [fit(problem, rule, jax.random.key(i)) for i in (1, 5, 15)]
    for estimate in found:
        assert_allclose(estimate.theta, found[0].theta, atol=0.01)
        assert estimate.calls < 20_000  # a simulator that is smooth is not taken for rough there
        assert warns(estimate, "theta_3, theta_4 lies at the end")


def test_simulations_that_fail_share_their_weight_among_the_others():
    """One in twenty fails, whatever theta is: the model is that of the others."""

    def sometimes(theta, u):
        return jnp.where(u[:, 1:] < 0.05, jnp.nan, theta[0] + owlfi.Normal().from_uniform(u[:, :1]))

    model = Simulator(sometimes, Uniform(dim=2), ["mean"], prior=Prior(mean=Uniform(-5, 5)))
    x = gaussian_problem().observed
    estimate, usual = fit(Problem(model, x), VStatistic(128, owlfi.sobol)), fit(gaussian_problem())
    assert warns(estimate, "simulations failed at the estimate")
    assert abs(estimate["mean"] - usual["mean"]) < usual.standard_errors[0]


def test_generators_that_raise_somewhere_do_not_end_a_search():
    def raises(theta, u):
        if theta[0] < 0:
            raise ArithmeticError("below 0")
        return np.asarray(theta[0] + u)

    model = Simulator(raises, Normal(), ["mean"], prior=Prior(mean=Uniform(-5, 5)))
    estimate, usual = fit(Problem(model, gaussian_problem().observed)), fit(gaussian_problem())
    assert_allclose(estimate.theta, usual.theta, atol=0.3 * float(usual.standard_errors[0]))
    assert warns(estimate, "failed at 8 of 16 starts")
    points = SOBOL.quadrature(KEY, gaussian_problem())
    runs = owlfi.simulate(model, [-1.0, 1.0], points, columns=1, keep_failed=True)
    assert np.isnan(runs.y[0]).all()
    assert np.isfinite(runs.y[1]).all()


@pytest.mark.parametrize(
    ("d", "whitened"), [(2, False), pytest.param(10, False, marks=pytest.mark.slow), (10, True)]
)
def test_curvature_is_that_of_automatic_differentiation(d, whitened):
    """On rows of few and of many columns, plain, and on the scale where a sample is normal."""
    rng = np.random.default_rng(3)
    y, x = (as_jax(np.exp(0.3 * rng.normal(size=(n, d)))) for n in (8, 11))
    moves, w = as_jax(rng.normal(size=(2, 8, d))), as_jax(rng.normal(size=8))
    shares = as_jax(np.full(11, 1 / 11))
    k = SquaredExponential(jnp.asarray(rng.uniform(1, 2, d)))
    if whitened:
        k = whitened_kernel(x, np.exp(0.3 * rng.normal(size=(64, d))))

    def value(steps):
        rows = y + jnp.tensordot(steps, moves, 1)
        return w @ k.gram(rows, rows) @ w - 2 * w @ k.gram(rows, x) @ shares

    found = eqx.filter_jit(curve)(k, y, moves, x, w, shares, False)
    derivatives = value, jax.grad(value), jax.hessian(value)
    expected = jax.jit(lambda v: [f(v) for f in derivatives])(np.zeros(2))
    assert_allclose(found.value, expected[0], rtol=1e-10)
    assert_allclose(found.gradient, expected[1], rtol=1e-8)
    assert_allclose(found.curvature, expected[2], rtol=1e-7)
