"""Slopes of features that points of one design share: how much of them is chance."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.polynomial import regress
from owlfi.inference.adjustment.slopes import assess_slope, gather_points
from owlfi.problem.simulations import Simulations
from owlfi.weights.quadrature import unweighted

DRAWS, POINTS, VARIANCE = 60, 40, 0.01
RANDOM = np.random.default_rng(4)
XI, SLOPES = RANDOM.normal(size=(DRAWS, 2)), RANDOM.normal(size=(POINTS, 2))


def assess(slopes, shared=True, error=1.0):
    """Rows y_i(ξ) = slopes_i · ξ, of which the mean is compared."""
    rows = (XI @ slopes.T)[..., None]
    features = Features(lambda row: row, np.eye(1), np.zeros(1))
    design = unweighted(jnp.zeros((POINTS, 1) if shared else (DRAWS, POINTS, 1)))
    points = gather_points(
        features, Simulations(jnp.asarray(XI), design, jnp.asarray(rows), 1), error
    )
    weights = np.full(DRAWS, 1 / DRAWS)
    regression, _ = regress(XI, rows.mean(1), weights, 1)
    noise = np.array([[VARIANCE]])
    return assess_slope(XI, weights, XI[0], regression, np.eye(1), noise, points)


def test_a_slope_is_less_by_the_scatter_of_its_points():
    """In closed form, where one parameter moves the rows: E|mean slope|² = slope² + variance/m."""
    slopes = np.stack([2 + SLOPES[:, 0], 0 * SLOPES[:, 0]], 1)
    mean, chance = slopes[:, 0].mean(), slopes[:, 0].var() / POINTS
    found = assess(slopes)
    own = 1 - chance / mean**2
    assert_allclose(found.told[0, 0], mean**2 * own**2 / VARIANCE, rtol=1e-5)
    assert_allclose(found.shrink[0, 0], own, rtol=1e-5)


def test_the_doubt_is_that_of_the_log_of_a_square():
    slopes = np.stack([5 + SLOPES[:, 0], 5 + SLOPES[:, 0]], 1)
    scatter = 2 * SLOPES[:, 0].std() / np.sqrt(POINTS) / (5 + SLOPES[:, 0].mean())
    assert_allclose(assess(slopes).doubt, scatter, rtol=1e-4)


def test_slopes_that_are_alike_are_kept():
    found = assess(np.broadcast_to([2.0, 0.0], (POINTS, 2)))
    assert_allclose(found.shrink[0, 0], 1, atol=1e-6)
    assert found.doubt < 1e-6


def test_slopes_of_chance_tell_next_to_nothing():
    """Squares of slopes would tell something of every direction."""
    found = assess(SLOPES - SLOPES.mean(0) + 0.01)
    assert np.linalg.eigvalsh(found.told).max() < 0.1 * (0.02**2 / VARIANCE)


def test_slopes_on_better_points_are_trusted_more():
    slopes = np.stack([2 + SLOPES[:, 0], 0 * SLOPES[:, 0]], 1)
    chance = [1 - assess(slopes, error=error).shrink[0, 0] for error in (1.0, 0.1)]
    assert_allclose(chance[0], 10 * chance[1], rtol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_points_of_its_own_for_each_draw_are_left_to_the_regression(shared):
    found = assess(2 + SLOPES, shared)
    assert np.allclose(found.shrink, np.eye(2)) != shared
