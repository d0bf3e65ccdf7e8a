"""Proposals: where they go, what they cost, and weights that make up for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi import (
    Exponential,
    Normal,
    Poisson,
    Prior,
    Problem,
    Simulations,
    Simulator,
    SquaredExponential,
    Uniform,
    accept,
    continue_design,
    next_proposal,
    optimal_weights,
    simulate,
    sobol,
)
from owlfi.inference.proposals.proposal import importance, the_prior
from owlfi.inference.proposals.surrogate import fit_surrogate
from owlfi.weights.quadrature import unweighted

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 8)
PRIOR = Prior(a=Uniform(0, 10), b=Exponential(1.0))


def located(theta, u):
    return theta[0] + (0.2 + theta[1]) * u


def problem_at(a=3.0, b=0.3):
    model = Simulator(located, Normal(), ["a", "b"], prior=PRIOR)
    u = sobol(KEYS[0], 128, model.measure)
    return Problem(model, model([a, b], u))


def runs_of(problem, thetas, m=8):
    measure = problem.simulator.measure
    quadrature = optimal_weights(SquaredExponential(1.0), measure, sobol(KEYS[1], m, measure))
    return simulate(problem.simulator, thetas, quadrature)


@pytest.fixture(scope="module")
def problem():
    return problem_at()


@pytest.fixture(scope="module")
def runs(problem):
    return runs_of(problem, PRIOR.starts(KEYS[2], 24))


@pytest.fixture(scope="module")
def proposal(problem, runs):
    return next_proposal(KEYS[3], problem, runs)


def test_surrogate_knows_what_it_does_not_know():
    v = np.linspace(0, 0.5, 12)[:, None]
    surrogate = fit_surrogate(v, np.column_stack([np.sin(9 * v), np.cos(9 * v)]))
    new = np.array([[0.23], [0.95]])
    mean, sd = surrogate.predict(new)
    assert_allclose(mean[0], [np.sin(9 * 0.23), np.cos(9 * 0.23)], atol=0.02)
    assert (sd[1] > 10 * sd[0]).all()


def test_surrogate_takes_noise_for_noise():
    v = np.linspace(0, 1, 60)[:, None]
    noise = 0.3 * np.asarray(jax.random.normal(KEY, (60, 1)))
    mean, sd = fit_surrogate(v, v + noise).predict(v)
    assert_allclose(sd, 0.3, rtol=0.35)  # that of 60 normals is known to a tenth
    assert np.sqrt(np.mean((mean - v) ** 2)) < 0.15


def test_prior_levels_and_quantiles_are_inverse():
    thetas = PRIOR.sample(KEY, 50)
    assert_allclose(PRIOR.from_uniform(PRIOR.to_uniform(thetas)), thetas, rtol=1e-9)


def test_proposals_avoid_regions_without_posterior_mass(problem, runs, proposal):
    thetas = np.asarray(PRIOR.from_uniform(proposal.draw(KEYS[4], 200)))
    dense = runs_of(problem, PRIOR.starts(KEYS[5], 2048))
    mass = np.asarray(accept(problem, dense).draws)
    low, high = mass.min(0) - 0.5, mass.max(0) + 0.5
    dense_thetas = np.asarray(dense.thetas)
    inside = ((thetas > low) & (thetas < high)).all(1).mean()
    of_the_prior = ((dense_thetas > low) & (dense_thetas < high)).all(1).mean()
    assert of_the_prior < 0.3
    assert inside > 0.8  # a tenth comes from the prior


def test_proposals_tell_apart_what_the_squared_mmd_does_not(runs):
    narrow = problem_at()
    narrow = Problem(narrow.simulator, narrow.observed, data_kernel=SquaredExponential(0.2))
    thetas = PRIOR.from_uniform(next_proposal(KEY, narrow, runs).draw(KEY, 100))
    assert np.mean(np.abs(thetas[:, 0] - 3) < 1) > 0.6


def test_density_is_that_of_the_draws_and_integrates_to_one(proposal):
    low, high = np.asarray(proposal.low), np.asarray(proposal.high)
    volumes = (high - low).prod(1)
    assert_allclose(volumes.sum(), 1)
    assert_allclose(volumes @ np.asarray(proposal.relative), 1)
    assert proposal.relative.min() >= 0.1 * (1 - 1e-12)
    middles = (low + high) / 2
    assert_allclose(proposal.density(middles), proposal.relative)


@pytest.mark.slow
def test_weights_are_unbiased_and_bounded(problem, proposal):
    """Over two rounds, the weighted mean of a known function is its prior mean."""
    function = lambda v: np.column_stack([v[:, 0], v[:, 1] ** 2, v.prod(1)])  # noqa: E731
    means = []
    for seed in range(100):
        first, second = jax.random.split(jax.random.key(seed))
        v = np.concatenate([the_prior(2).draw(first, 20), proposal.draw(second, 40)])
        weights = importance(PRIOR, PRIOR.from_uniform(v), [(20, the_prior(2)), (40, proposal)])
        assert weights.max() <= 60 / (20 + 0.1 * 40) + 1e-9
        means.append(weights @ function(v) / 60)
    error = np.std(means, axis=0) / np.sqrt(len(means))
    assert_allclose(np.mean(means, axis=0), [1 / 2, 1 / 3, 1 / 4], atol=4 * error.max())


def test_weighted_abc_is_that_of_the_prior(problem, runs, proposal):
    thetas = jnp.concatenate([runs.thetas, PRIOR.from_uniform(proposal.draw(KEYS[4], 200))])
    made = runs_of(problem, thetas)
    weights = importance(PRIOR, thetas, [(24, the_prior(2)), (200, proposal)])
    weighted = Simulations(thetas, made.quadrature, made.y, made.calls, jnp.asarray(weights))
    ours = accept(problem, weighted)
    dense = accept(problem, runs_of(problem, PRIOR.starts(KEYS[5], 4096)))
    assert_allclose(ours.weights.sum(), 1)
    error = dense.sd / np.sqrt(ours.about["effective_draws"])
    assert (np.abs(ours.mean - dense.mean) < 4 * error).all()
    assert_allclose(ours.about["threshold"], dense.about["threshold"], rtol=0.5)
    adjusted = accept(problem, weighted, adjust=True)
    assert_allclose(adjusted.weights.sum(), 1)
    below = accept(problem, weighted, threshold=ours.about["threshold"])
    assert len(below.draws) == len(ours.draws)


def test_equal_importance_changes_nothing(problem, runs):
    equal = Simulations(runs.thetas, runs.quadrature, runs.y, runs.calls, jnp.ones(24))
    with_weights, without = (accept(problem, r, share=0.25) for r in (equal, runs))
    assert_allclose(with_weights.draws, without.draws)
    assert_allclose(with_weights.weights, without.weights)


def test_quick_thetas_are_preferred(problem, runs):
    slow = np.where(np.asarray(runs.thetas)[:, 1] > 0.3, 100.0, 1.0)
    plain = next_proposal(KEYS[3], problem, runs)
    aware = next_proposal(KEYS[3], problem, runs, seconds=slow)
    share = [np.mean(PRIOR.from_uniform(p.draw(KEY, 400))[:, 1] > 0.3) for p in (plain, aware)]
    assert share[1] < 0.7 * share[0]
    same = next_proposal(KEYS[3], problem, runs, seconds=1 + 0.1 * (slow > 1))
    assert_allclose(same.relative, plain.relative)


@pytest.mark.parametrize("own", [False, True])
def test_failures_are_avoided_and_the_others_still_tell(problem, own):
    """With points of each theta's own, too, where the surrogate is of the distance itself."""
    thetas = PRIOR.starts(KEYS[2], 40)
    u = jax.random.normal(KEYS[6], (40, 8, 1) if own else (8, 1))
    made = simulate(problem.simulator, thetas, unweighted(u))
    y = jnp.where((thetas[:, 0] > 8)[:, None, None], jnp.nan, made.y)
    broken = Simulations(thetas, made.quadrature, y, made.calls)
    drawn = PRIOR.from_uniform(next_proposal(KEY, problem, broken).draw(KEY, 200))
    assert np.mean(np.abs(drawn[:, 0] - 3) < 2) > 0.6
    assert np.mean(drawn[:, 0] > 8) < 0.1


def test_same_key_gives_the_same_proposal(problem, runs, proposal):
    again = next_proposal(KEYS[3], problem, runs)
    assert_allclose(again.relative, proposal.relative, rtol=0)
    assert_allclose(again.draw(KEY, 9), proposal.draw(KEY, 9), rtol=0)


def test_mistakes_are_named(problem, runs):
    for name in ("share", "safety"):
        for value in (0, 1.5):
            with pytest.raises(ValueError, match=f"{name} must lie above 0 and be at most 1, got"):
                next_proposal(KEY, problem, runs, **{name: value})
        with pytest.raises(ValueError, match=f"{name} must hold real numbers only.* got 'all'"):
            next_proposal(KEY, problem, runs, **{name: "all"})
    with pytest.raises(ValueError, match=r"seconds must be one positive number .* 24 thetas"):
        next_proposal(KEY, problem, runs, seconds=[1.0])
    few = Simulations(runs.thetas[:3], runs.quadrature, runs.y[:3], 24)
    with pytest.raises(ValueError, match="at least 4 thetas without failures, got 3 of 3"):
        next_proposal(KEY, problem, few)
    with pytest.raises(ValueError, match="values must have a row for each of the 2 points"):
        fit_surrogate([[0.1], [0.2]], [[1.0]])
    counted = Simulator(lambda theta, u: theta[0] + u, Normal(), ["n"], prior=Prior(n=Poisson(3.0)))
    discrete = Problem(counted, problem.observed)
    with pytest.raises(ValueError, match="a proposal needs continuous parameters"):
        next_proposal(KEY, discrete, runs)


def test_next_points_go_on_from_the_runs(problem):
    runs = runs_of(problem, PRIOR.starts(KEYS[2], 6), m=32)
    design = continue_design(KEY, problem, runs, 4)
    u = design.ask()
    assert u.shape == (4, 1)
    assert not np.isin(np.asarray(u), np.asarray(runs.quadrature.points)).any()
    assert_allclose(u, continue_design(KEY, problem, runs, 4).ask())
    own = simulate(problem.simulator, runs.thetas, unweighted(jnp.ones((6, 3, 1))))
    with pytest.raises(ValueError, match="points of each theta's own"):
        continue_design(KEY, problem, own, 4)
