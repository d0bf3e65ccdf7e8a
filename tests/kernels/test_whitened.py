"""Whitened data: correlations from few rows, columns on the scale where they are normal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from owlfi import SquaredExponential
from owlfi.kernels.correlation import rank_correlation
from owlfi.kernels.normal_scores import Mapped, NormalScores, fit_scores
from owlfi.kernels.spread import measure_spreads

RNG = np.random.default_rng(0)
ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.5, 0.8]])
NORMAL = RNG.normal(size=(4000, 3)) @ ROOT.T


def scores_of(sample):
    return fit_scores(sample, np.asarray(measure_spreads(jnp.asarray(sample))))


# Correlations


def test_increasing_changes_of_columns_keep_their_correlations():
    found = rank_correlation(NORMAL)
    assert_allclose(found, np.corrcoef(NORMAL.T), atol=0.02)
    changed = np.column_stack([np.exp(NORMAL[:, 0]), 1e6 * NORMAL[:, 1], NORMAL[:, 2] ** 3])
    assert_allclose(rank_correlation(changed), found, rtol=1e-12)


def test_outliers_do_not_move_correlations():
    spoiled = np.where(np.arange(4000)[:, None] < 20, 1e9, NORMAL)
    assert_allclose(rank_correlation(spoiled), rank_correlation(NORMAL), atol=0.05)


@pytest.mark.parametrize("n", [5, 20, 100])
def test_correlations_of_fewer_rows_than_columns_can_be_inverted(n):
    found = rank_correlation(RNG.normal(size=(n, 30)))
    assert np.linalg.eigvalsh(found)[0] > 0.1  # of uncorrelated columns, all is chance
    assert_allclose(np.diagonal(found), 1.0)


def test_the_same_column_twice_leaves_an_inverse():
    twice = rank_correlation(np.column_stack([NORMAL[:, 0], NORMAL[:, 0]]))
    assert 0.99 < twice[0, 1] < 1


def test_constant_columns_are_uncorrelated():
    found = rank_correlation(np.column_stack([NORMAL[:, 0], np.ones(4000), NORMAL[:, 1]]))
    assert (found[1] == [0, 1, 0]).all()
    assert found[0, 2] > 0.7


# Normal scores


def test_scores_of_a_sample_are_nearly_normal():
    skewed = np.exp(NORMAL)
    z = np.sort(np.asarray(scores_of(skewed)(jnp.asarray(skewed))), axis=0)
    for level in (-1.5, 0.0, 1.0):
        assert_allclose(z[int(4000 * ndtr(level))], level, atol=0.1)


def test_normal_columns_have_nearly_a_line():
    few = NORMAL[:200] * np.array([1.0, 1e6, 1e-6])
    scores = scores_of(few)
    center, units = np.median(few, 0), np.asarray(measure_spreads(jnp.asarray(few)))
    assert_allclose(scores(jnp.asarray(few)), (few - center) / units, rtol=0.2, atol=0.05)


def test_scores_increase_smoothly_within_and_beyond_the_knots():
    scores = scores_of(np.exp(NORMAL[:, :1]))
    at = jnp.linspace(-3.0, 30.0, 2001)
    slopes = jax.vmap(jax.grad(lambda v: scores(v.reshape(1, 1))[0, 0]))(at)
    assert (slopes > 0).all()
    for knot in np.asarray(scores.knots[:, 0]):
        around = jnp.array([[knot - 1e-9], [knot + 1e-9]])
        before, after = jax.vmap(jax.grad(lambda v: scores(v[None])[0, 0]))(around)
        assert_allclose(before, after, rtol=1e-6)


def test_columns_with_ties_are_only_scaled():
    counts = RNG.poisson(1.0, size=(300, 1)).astype(float)
    scores = fit_scores(counts, np.array([2.0]))
    assert_allclose(scores(jnp.array([[1.0], [5.0], [-4.0]])).ravel(), [0.0, 2.0, -2.5], atol=1e-12)


def test_sums_and_stretches_of_mapped_kernels_are_those_of_mapped_rows():
    scores = scores_of(np.exp(NORMAL))
    x, y = jnp.exp(jnp.asarray(NORMAL[:30])), jnp.exp(jnp.asarray(NORMAL[30:50]))
    k, w = Mapped(SquaredExponential(1.3), scores), jnp.linspace(-0.1, 0.2, 30)
    plain = SquaredExponential(2.6)
    assert_allclose(k.stretch(2.0).gram(y, x), plain.gram(scores(y), scores(x)), rtol=1e-12)
    assert_allclose(k.row_sums(y, x, w), k.gram(y, x) @ w, rtol=1e-10)
    assert_allclose(k.self_sum(x, w), w @ k.gram(x, x) @ w, rtol=1e-10)


def test_scores_are_arrays_so_that_one_program_serves_all():
    assert jax.tree.leaves(NormalScores(jnp.ones((9, 2))))[0].shape == (9, 2)
