"""Adaptive design and its peers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi.experiments.excess import excesses, law_of, simulate_rows
from owlfi.weights.adaptive import _choose, adaptive_design
from owlfi.weights.optimal import squared_worst_case_error

KEY = jax.random.key(4)
K = owlfi.SquaredExponential(0.7)


def finish(function, measure, m):
    return go_on(adaptive_design(KEY, K, measure, m), function)


def go_on(design, function, **options):
    while design.left:
        u = design.ask(**options)
        design = design.tell(u, function(u))
    return design


def test_each_point_lowers_the_worst_case_error_the_most():
    c, noise = owlfi.SquaredExponential(1.0), owlfi.Normal()
    points = jnp.array([[0.3], [-1.0]])
    candidates = jnp.linspace(-3, 3, 61)[:, None]
    z = owlfi.embed(c, noise).mean(jnp.concatenate([points, candidates]))
    for chosen in np.asarray(_choose(c, jnp.array(1e-10), points, candidates, z, 3)):
        others = jnp.broadcast_to(points, (61, *points.shape))
        joined = jnp.concatenate([others, candidates[:, None]], 1)
        weights = owlfi.optimal_weights(c, noise, joined, nugget=1e-10).weights
        errors = squared_worst_case_error(c, noise, joined, weights)
        assert errors[chosen] <= errors.min() * (1 + 1e-6)
        points = jnp.concatenate([points, candidates[chosen][None]])


@pytest.mark.slow
def test_adaptive_points_are_far_better_where_tails_matter():
    model = owlfi.models.g_and_k()
    law = law_of(KEY, model, model.theta, K)
    design = finish(lambda u: simulate_rows(model, model.theta, u), model.measure, 64)
    u = owlfi.sobol(KEY, 64, model.measure)
    y = simulate_rows(model, model.theta, u)
    tuned = owlfi.tuned_weights(K, model.measure, u, y)
    ours = excesses(K, law, design.y, design.quadrature().weights[None, None])
    theirs = excesses(K, law, y[None], tuned.weights[None, None])
    assert ours < 0.1 * theirs
    assert jnp.abs(design.points).max() > jnp.abs(u).max()


def test_all_runs_count_and_the_pilot_comes_first():
    design = adaptive_design(KEY, K, owlfi.Normal(), 50)
    pilot = design.ask()
    assert len(pilot) == 32
    assert_allclose(pilot, design.sequence[:32])
    done = finish(jnp.sin, owlfi.Normal(), 64)
    assert done.quadrature().m == 64
    with pytest.raises(ValueError, match="all 64 runs are done"):
        done.ask()


def test_runs_can_be_asked_for_one_at_a_time():
    begun = adaptive_design(KEY, K, owlfi.Normal(), 33)
    pilot = begun.ask(30)  # of 32: two more pilots follow, and one adaptive point
    design = go_on(begun.tell(pilot, jnp.sin(pilot)), jnp.sin, count=1)
    assert design.points.shape == (33, 1)
    assert len(np.unique(np.asarray(design.points))) == 33


def test_where_weights_do_not_help_the_points_are_sobol_points():
    def noise(u):
        return jnp.sin(1e7 * u)

    design = finish(noise, owlfi.Normal(), 64)
    assert_allclose(np.sort(design.points, 0), np.sort(design.sequence, 0))
    assert_allclose(design.quadrature().weights, 1 / 64)


def test_several_thetas_share_the_points():
    functions = jnp.sin, jnp.cos, lambda u: jnp.exp(u / 3)
    design = finish(lambda u: jnp.stack([f(u) for f in functions]), owlfi.Normal(), 33)
    assert design.y.shape == (3, 33, 1)


def test_bounded_and_half_bounded_noise_stay_in_their_support():
    noise = owlfi.Product(owlfi.Exponential(1.0), owlfi.Uniform(-1, 1))
    points = np.asarray(finish(lambda u: jnp.sin(u[:, :1]) + u[:, 1:], noise, 33).points)
    assert points[:, 0].min() >= 0
    assert np.abs(points[:, 1]).max() <= 1


def test_more_runs_than_planned_leave_none():
    design = owlfi.adaptive_design(KEY, K, owlfi.Normal(), 4).tell(np.ones((5, 1)), np.ones(5))
    assert design.left == 0
    with pytest.raises(ValueError, match="all 5 runs are done"):
        design.ask()


def test_what_is_told_must_fit():
    design = adaptive_design(KEY, K, owlfi.Normal(), 40)
    u = design.ask()
    with pytest.raises(ValueError, match="a row for each of the 32 points"):
        design.tell(u, jnp.zeros((3, 1)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        design.tell(u, jnp.full((32, 1), jnp.nan))
    with pytest.raises(ValueError, match="2 thetas and 1 columns as before"):
        design.tell(u, jnp.zeros((2, 32, 1))).tell(u[:2], jnp.zeros((2, 2)))
    with pytest.raises(ValueError, match="no run is done yet"):
        design.quadrature()


@pytest.mark.parametrize("points", [owlfi.herding, owlfi.support_points])
def test_peers_follow_the_measure_better_than_independent_points(points):
    noise, c = owlfi.Normal(dim=2), owlfi.SquaredExponential(1.0)
    ours = squared_worst_case_error(c, noise, points(KEY, 32, noise))
    independent = [
        float(squared_worst_case_error(c, noise, owlfi.iid(jax.random.fold_in(KEY, i), 32, noise)))
        for i in range(10)
    ]
    assert ours < 0.2 * min(independent)


def test_support_points_minimise_the_energy_distance():
    noise = owlfi.Normal()
    sample = np.asarray(owlfi.sobol(jax.random.key(1), 2048, noise))[:, 0]

    def energy(x):
        x = np.asarray(x)[:, 0]
        return 2 * np.abs(x[:, None] - sample).mean() - np.abs(x[:, None] - x).mean()

    found = owlfi.support_points(KEY, 8, noise)
    rng = np.random.default_rng(0)
    moved = [energy(found + 0.2 * rng.normal(size=(8, 1))) for _ in range(20)]
    assert energy(found) < min(moved)
    assert energy(found) < energy(owlfi.sobol(KEY, 8, noise))
