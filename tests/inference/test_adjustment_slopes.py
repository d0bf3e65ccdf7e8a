"""Features of weighted rows, and how much of their slopes is chance of the points they share."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from gaussian import gaussian_problem
from owlfi.inference.adjustment.cloud import Cloud
from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.polynomial import regress
from owlfi.inference.adjustment.redrawn import Redrawn, compare_designs
from owlfi.inference.adjustment.slopes import OverDesigns, assess_slope, gather_points
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
    runs = Simulations(jnp.asarray(XI), design, jnp.asarray(rows), 1)
    weights = np.full(DRAWS, 1 / DRAWS)
    regression, _ = regress(XI, rows.mean(1), weights, 1)
    scatter = gather_points(features, runs, error)
    apart = scatter.apart(Cloud(np.zeros(2), np.eye(2), XI, weights), XI[0], regression)
    return assess_slope(regression.slope(XI[0]), np.array([[VARIANCE]]), apart)


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


def test_designs_have_slopes_by_the_axes_of_a_cloud():
    root = np.array([[2.0, 0.0], [1.0, 3.0]])
    cloud = Cloud(np.zeros(2), root, XI, np.full(DRAWS, 1 / DRAWS))
    regression, _ = regress(XI, XI, cloud.weights, 1)
    slopes = SLOPES[:5, :, None] * np.ones(3)
    apart = OverDesigns(slopes=slopes).apart(cloud, XI[0], regression) * 20**0.5
    assert_allclose(apart.mean(0), 0, atol=1e-12)
    step = 1e-3 * root @ [0.0, 1.0]
    rise = np.einsum("p,kpq->kq", step, slopes - slopes.mean(0)) / 1e-3
    assert_allclose(apart[:, 1], rise)


def test_what_a_design_lacks_is_a_constant_and_a_slope():
    """Others have y = 1 + 2a - b, the own design y = 0: added to it, that of the others."""
    middle, root = np.array([1.0, -1.0]), np.array([[0.5, 0.0], [0.2, 0.3]])
    ends = np.stack([*(middle + root.T), *(middle - root.T)])

    def rows(v, m=4):
        return np.repeat((1 + v @ [2.0, -1.0])[..., None, None], m, -2)

    nothing = jnp.zeros((4, 4, 1))
    others = jnp.asarray(np.repeat(rows(middle)[None], 3, 0))
    beside = jnp.asarray(np.repeat(rows(ends)[None], 3, 0))
    redrawn = Redrawn(middle, root, nothing[:1], nothing, others, beside, np.full((3, 4), 0.25))
    features = Features(lambda row: row, np.eye(1), np.zeros(1))
    y = jnp.asarray(RANDOM.normal(size=(5, 4, 1)))
    runs = Simulations(jnp.zeros((5, 2)), unweighted(jnp.zeros((4, 1))), y, 1)
    compared = compare_designs(gaussian_problem(), features, runs, redrawn)
    v = RANDOM.normal(size=(6, 2))
    assert_allclose(compared.lacking(v)[:, 0], 1 + v @ [2.0, -1.0])


def test_rows_that_are_all_alike_are_compared_without_dividing_by_zero():
    """As counts at a small rate are, most of them 0."""
    features = Features(lambda row: row, np.eye(1), np.zeros(1))
    runs = Simulations(jnp.zeros((5, 2)), unweighted(jnp.zeros((4, 1))), jnp.zeros((5, 4, 1)), 1)
    compared = compare_designs(gaussian_problem(), features, runs, None)
    assert np.isfinite(compared.slopes.variance)


def test_rows_scatter_as_their_weights_say():
    """Gauss points lie far out; by their weights, standard normal rows have variance 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    features = Features(lambda row: row, np.eye(1), np.zeros(1))
    found = features.scatter_of(jnp.asarray(nodes)[None, :, None], weights)
    assert_allclose(found, [[[20 / 19]]])
    beside = features.scatter_of(jnp.array([[[0.0], [1.0], [-1.0]]]), np.array([2.0, -0.5, -0.5]))
    assert_allclose(beside, [[[0.0]]])
