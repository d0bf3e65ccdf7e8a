"""Rules: one argument changes the estimator; pilots are counted and kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

import owlfi
from owlfi.weights.certificate import Verdict
from owlfi.weights.paper import median_weights

KEY = jax.random.key(8)
MODEL = owlfi.models.g_and_k()
X = MODEL(MODEL.theta, owlfi.iid(KEY, 100, MODEL.measure))
PROBLEM = owlfi.Problem(MODEL, X)
RULES = {
    "V": owlfi.VStatistic(m=40),
    "U": owlfi.UStatistic(m=40),
    "median": owlfi.OptimallyWeighted(m=40, base_kernel="median"),
    "kernel": owlfi.OptimallyWeighted(m=40, base_kernel=owlfi.Matern(2.5, 1.0)),
    "tuned": owlfi.OptimallyWeighted(m=40, thetas=3),
    "adaptive": owlfi.Adaptive(m=40, thetas=3),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_gives_a_quadrature_that_serves_every_theta(name):
    quadrature = RULES[name].quadrature(KEY, PROBLEM)
    again = RULES[name].quadrature(KEY, PROBLEM)
    assert quadrature.points.shape == (40, 1)
    assert_allclose(again.weights, quadrature.weights, rtol=0)
    y = owlfi.simulate(MODEL, jnp.stack([MODEL.theta, MODEL.theta.at[0].add(3.0)]), quadrature).y
    near, far = PROBLEM.squared_mmd(y, quadrature)
    assert near < 0.1 < far
    assert len(quadrature.explain()) > 30


def test_designs_of_points_that_are_no_sequence_are_drawn_one_by_one():
    rule = owlfi.VStatistic(m=40, points=owlfi.latin_hypercube)
    found = rule.redraw(KEY, PROBLEM, rule.quadrature(KEY, PROBLEM), 3)
    levels = np.sort(ndtr(np.asarray(found.points)[..., 0]), 1)
    assert (np.floor(40 * levels) == np.arange(40)).all()


def test_u_statistic_is_unbiased_and_the_v_statistic_is_not():
    u = owlfi.UStatistic(m=40).quadrature(KEY, PROBLEM)
    v = owlfi.VStatistic(m=40).quadrature(KEY, PROBLEM)
    assert u.unbiased
    assert not v.unbiased
    y = MODEL(MODEL.theta, u.points)
    expected = owlfi.squared_mmd(PROBLEM.data_kernel, y, X, unbiased=True)
    assert_allclose(PROBLEM.squared_mmd(y, u), expected)
    assert_allclose(PROBLEM.squared_mmd(y, v), owlfi.squared_mmd(PROBLEM.data_kernel, y, X))


@pytest.mark.parametrize("name", ["tuned", "adaptive"])
def test_pilot_runs_are_counted_and_kept(name):
    quadrature = RULES[name].quadrature(KEY, PROBLEM)
    assert quadrature.pilot.y.shape == (3, 40, 1)
    assert quadrature.pilot.calls == 3 * 40 + 4  # and the check that y repeats itself
    again = owlfi.simulate(MODEL, quadrature.pilot.thetas, quadrature).y
    assert_allclose(again, quadrature.pilot.y, rtol=1e-12)


def test_median_rule_is_the_papers():
    quadrature = owlfi.OptimallyWeighted(m=64, base_kernel="median").quadrature(KEY, PROBLEM)
    c = owlfi.SquaredExponential(owlfi.median_heuristic(quadrature.points))
    expected = owlfi.optimal_weights(c, MODEL.measure, quadrature.points)
    assert_allclose(quadrature.weights, expected.weights)


def test_exploding_weights_of_the_median_rule_are_replaced_and_told():
    rule = owlfi.OptimallyWeighted(m=20, points=owlfi.iid, base_kernel="median")
    found = [rule.quadrature(jax.random.fold_in(KEY, i), PROBLEM) for i in range(10)]
    fallen = [q for q in found if q.certificate is not None]
    assert fallen
    for quadrature in fallen:
        assert int(quadrature.certificate.verdict) == Verdict.EXPLODING
        assert_allclose(quadrature.weights, 1 / 20)
        assert "explode" in quadrature.explain()
    assert all(float(q.sum_of_absolute_weights) <= 30 for q in found)


def test_a_given_kernel_is_used_as_it_is_with_a_warning_in_words():
    c = owlfi.SquaredExponential(3.0)
    rule = owlfi.OptimallyWeighted(m=20, points=owlfi.iid, base_kernel=c)
    quadrature = rule.quadrature(KEY, PROBLEM)
    expected = owlfi.optimal_weights(c, MODEL.measure, quadrature.points)
    assert_allclose(quadrature.weights, expected.weights)
    if float(quadrature.sum_of_absolute_weights) > 30:
        assert "explode" in quadrature.explain()


def failing(share):
    """A simulator that is NaN at all u for a share of the prior."""
    return owlfi.Simulator(
        lambda theta, u: jnp.where(theta[0] < share, jnp.nan, theta[0] + u),
        owlfi.Normal(),
        ["location"],
        prior=owlfi.Prior(location=owlfi.Uniform()),
    )


@pytest.mark.parametrize(
    "rule", [owlfi.OptimallyWeighted(m=40, thetas=5), owlfi.Adaptive(m=40, thetas=5)]
)
def test_thetas_at_which_the_simulator_fails_are_left_out_of_the_pilot(rule):
    quadrature = rule.quadrature(KEY, owlfi.Problem(failing(0.5), [0.1, 0.2, 0.4]))
    assert len(quadrature.pilot.thetas) == 3  # as many as the other rules have: compiled once
    assert np.asarray(quadrature.pilot.thetas).min() >= 0.5
    assert quadrature.pilot.calls >= 5 * 32


def test_a_simulator_that_fails_everywhere_is_told():
    with pytest.raises(ValueError, match="for most u at all 12 thetas"):
        owlfi.OptimallyWeighted(m=8).quadrature(KEY, owlfi.Problem(failing(2.0), [0.1, 0.2]))


@pytest.mark.parametrize("kernel", ["tunde", None, 1.0, np.ones(2)])
def test_other_words_for_the_kernel_are_refused(kernel):
    with pytest.raises(ValueError, match="kernel must be 'tuned', 'median' or a kernel"):
        owlfi.OptimallyWeighted(base_kernel=kernel)


@pytest.mark.parametrize("m", [0, -3, 2.5, "ten"])
def test_numbers_of_points_are_checked(m):
    for rule in (owlfi.VStatistic, owlfi.UStatistic, owlfi.OptimallyWeighted, owlfi.Adaptive):
        with pytest.raises(ValueError, match="m must be a whole number"):
            rule(m=m)


def test_points_are_a_function():
    for rule in (owlfi.VStatistic, owlfi.OptimallyWeighted):
        with pytest.raises(ValueError, match=r"points must be a function.*'sobol'"):
            rule(points="sobol")


def test_vanishing_weights_of_the_median_rule_are_replaced_and_told():
    close = median_weights(owlfi.Normal(), jnp.array([[0.0], [0.05]]))  # and so is the lengthscale
    assert_allclose(close.weights, 0.5)
    assert "nearly vanish" in close.explain()


def test_simulators_of_another_dimension_than_the_data_are_refused_before_the_pilot():
    calls = []

    def wide(theta, u):
        calls.append(len(u))
        return np.hstack([u, u])

    prior = owlfi.Prior(a=owlfi.Uniform(0.5, 2.0))
    model = owlfi.Simulator(wide, owlfi.Normal(), ["a"], prior=prior, on_host=True)
    for rule in (owlfi.OptimallyWeighted(m=8), owlfi.Adaptive(m=8)):
        calls.clear()
        with pytest.raises(ValueError, match="observed has 1 columns where the simulator gives 2"):
            rule.quadrature(KEY, owlfi.Problem(model, [0.1, 0.2, 0.4]))
        assert sum(calls) <= 4


@pytest.mark.parametrize("m", [1, 3])
def test_rules_work_with_a_handful_of_points(m):
    for rule in (
        owlfi.OptimallyWeighted(m=m, thetas=2),
        owlfi.OptimallyWeighted(m=m, base_kernel="median"),
        owlfi.Adaptive(m=m, thetas=2),
    ):
        assert rule.quadrature(KEY, PROBLEM).weights.shape == (m,)


# Recommendation


def test_smooth_simulators_are_recommended_optimal_weights():
    answer = owlfi.recommend(owlfi.models.two_moons(), 128)
    assert repr(answer).split() == str(answer).split()
    assert max(len(line) for line in repr(answer).splitlines()) <= 88
    assert isinstance(answer.rule, owlfi.OptimallyWeighted)
    assert answer.rule.m == answer.m == 128
    assert answer.excess < answer.alternative
    assert "Use OptimallyWeighted(m=128)" in str(answer)


def test_simulators_without_structure_are_recommended_equal_weights():
    chaotic = owlfi.Simulator(
        lambda theta, u: jnp.sin(1e6 * u), owlfi.Normal(dim=2), ["a"], theta=[0.0]
    )
    answer = owlfi.recommend(chaotic, 128)
    assert isinstance(answer.rule, owlfi.VStatistic)
    assert "Use VStatistic" in str(answer)


def test_a_simulator_that_does_not_depend_on_u_is_told():
    constant = owlfi.Simulator(lambda theta, u: 0 * u, owlfi.Normal(), ["a"], theta=[0.0])
    assert "do not depend on u" in str(owlfi.recommend(constant, 16))


def test_expensive_simulators_run_their_pilot_once():
    calls = []

    def slow(theta, u):
        calls.append(len(u))
        return np.sin(u)

    model = owlfi.Simulator(slow, owlfi.Normal(), ["a"], theta=[0.0], on_host=True)
    assert owlfi.recommend(model, 64).pilot_runs == sum(calls) == 64 + 4


def test_recommendation_needs_a_theta_and_a_budget():
    model = owlfi.Simulator(lambda theta, u: theta[0] + u, owlfi.Normal(), ["a"])
    with pytest.raises(ValueError, match="give theta"):
        owlfi.recommend(model, 64)
    with pytest.raises(ValueError, match="budget must be a whole number of at least 8"):
        owlfi.recommend(model, 3, theta=[0.0])


@pytest.mark.slow
def test_tuned_weights_do_little_harm_at_thetas_that_are_rougher_than_the_data():
    """A scale five times that of the data, where k sees noise; near the data they help."""
    model = owlfi.models.g_and_k().fix(theta_1=0.0, theta_3=0.12, theta_4=0.35)
    prior = owlfi.Prior(theta_2=owlfi.Uniform(0.0, 5.0))
    x = model([1.0], owlfi.iid(jax.random.key(8), 500, model.measure))
    problem = owlfi.Problem(model, x, prior=prior)
    quadrature = owlfi.OptimallyWeighted(m=20).quadrature(jax.random.key(0), problem)
    assert 20 * (quadrature.weights**2).sum() <= 16
    fine = owlfi.sobol(jax.random.key(1), 4096, model.measure)

    def error(theta, weights):
        y, law = model([theta], quadrature.points), model([theta], fine)
        return owlfi.squared_mmd(problem.data_kernel, y, law, weights=weights)

    assert error(1.0, quadrature.weights) < error(1.0, None)
    assert error(5.0, quadrature.weights) < 32 * error(5.0, None)


def test_rules_are_written_with_all_that_tells_them_apart():
    wide, narrow = (owlfi.OptimallyWeighted(40, base_kernel=owlfi.Matern(2.5, a)) for a in (2, 1))
    assert repr(wide) == "OptimallyWeighted(m=40, base_kernel=Matern(2.5, 2.0))"
    assert repr(narrow) != repr(wide)
    assert repr(owlfi.OptimallyWeighted(256)) == "OptimallyWeighted(m=256)"
    drawn = owlfi.OptimallyWeighted(40, points=owlfi.iid, thetas=3)
    assert repr(drawn) == "OptimallyWeighted(m=40, points=iid, thetas=3)"
