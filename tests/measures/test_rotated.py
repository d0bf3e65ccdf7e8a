"""Rotated noise: the same law, other points of the unit cube."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import owlfi
from owlfi.measures import Rotated, rotation_to, scores_of

KEY = jax.random.key(4)
NOISE = owlfi.Product(owlfi.Normal(1.0, 2.0, dim=3), owlfi.Poisson(3.0), owlfi.Exponential(2.0))


def directions(n, r):
    return np.linalg.qr(np.random.default_rng(n + r).normal(size=(n, r)))[0]


def rotated(noise=NOISE, n=4, r=2):
    return Rotated(noise, rotation_to(directions(n, r)), jnp.full(r, 1 / r))


@pytest.mark.parametrize(("n", "r"), [(5, 2), (3, 3), (40, 1), (2, 1)])
def test_rotation_is_orthogonal_and_begins_with_the_directions(n, r):
    found = rotation_to(directions(n, r))
    matrix = found.turn(np.eye(n)).T
    assert_allclose(matrix.T @ matrix, np.eye(n), atol=1e-14)
    assert_allclose(np.abs(matrix[:, :r].T @ directions(n, r)), np.eye(r), atol=1e-14)
    assert_allclose(found.directions, matrix[:, :r], atol=1e-14)
    rows = np.random.default_rng(0).normal(size=(7, n))
    assert_allclose(found.turn_back(found.turn(rows)), rows, atol=1e-14)


def test_rotation_is_the_same_in_programs_and_has_derivatives():
    found, rows = rotation_to(directions(6, 2)), np.random.default_rng(1).normal(size=(3, 6))
    assert_allclose(jax.jit(lambda rows: found.turn(rows))(rows), found.turn(rows), atol=1e-14)
    slope = jax.grad(lambda row: found.turn(row)[0])(jnp.asarray(rows[0]))
    assert_allclose(slope, found.turn_back(np.eye(6)[0]), atol=1e-14)


def test_law_of_rotated_noise_is_that_of_the_noise():
    u = np.asarray(owlfi.iid(KEY, 4000, rotated()))
    plain = np.asarray(owlfi.iid(jax.random.fold_in(KEY, 1), 4000, NOISE))
    for own, other in zip(u.T, plain.T, strict=True):
        assert scipy.stats.ks_2samp(own, other).pvalue > 1e-3
    # Correlations have a standard error of 1/√4000.
    assert_allclose(np.corrcoef(u.T), np.eye(5), atol=5 / 4000**0.5)
    assert_allclose(u[:, :3].mean(0), 1.0, atol=5 * 2 / 4000**0.5)
    assert_allclose(u[:, :3].std(0), 2.0, atol=5 * 2 / 8000**0.5)
    k = owlfi.SquaredExponential(owlfi.median_heuristic(plain[:500]))
    assert owlfi.two_sample(KEY, u[:500], plain[:500], data_kernel=k).p_value > 1e-3


def test_leading_coordinates_come_from_the_first_levels_and_discrete_ones_stay():
    noise, v = rotated(), np.asarray(owlfi.sobol(KEY, 16, owlfi.Uniform(dim=5)))
    u = noise.from_uniform(v)
    law, points, rest = noise.along(u, 2)
    assert_allclose(rest, scipy.stats.norm.ppf(v[:, 3:]), atol=1e-9)
    assert_allclose(points[:, :2], scipy.stats.norm.ppf(v[:, :2]), atol=1e-9)
    assert_allclose(points[:, 2], scipy.stats.poisson.ppf(v[:, 2], 3.0))
    assert [type(part).__name__ for part in law.parts] == ["Normal", "Poisson"]
    assert_allclose(noise.rotation.turn(scores_of(NOISE, noise.from_uniform(v)))[0].shape, 4)
    assert_allclose(noise.log_density(u), NOISE.log_density(u))


def test_normal_noise_can_be_rotated_inside_programs():
    noise = rotated(owlfi.Normal(dim=4))
    v = owlfi.sobol(KEY, 8, owlfi.Uniform(dim=4))
    assert_allclose(jax.jit(lambda v: noise.from_uniform(v))(v), noise.from_uniform(v), atol=1e-12)
    assert jax.grad(lambda v: noise.from_uniform(v).sum())(v).shape == (8, 4)


def test_embeddings_are_those_of_the_noise():
    c = owlfi.SquaredExponential(1.0)
    u = owlfi.sobol(KEY, 8, NOISE)
    assert_allclose(owlfi.embed(c, rotated()).mean(u), owlfi.embed(c, NOISE).mean(u))


def test_brownian_directions_are_the_principal_components_of_the_path():
    noise = owlfi.brownian(12, dim=2)
    path = np.kron(np.tril(np.ones((12, 12))), np.eye(2))
    values, vectors = np.linalg.eigh(path.T @ path)
    assert_allclose(noise.shares, values[::-1][: noise.rank] / values.sum(), rtol=1e-10)
    found = noise.rotation.directions[:, :2]  # both paths have the same variances
    expected = vectors[:, -2:]
    assert_allclose(found @ found.T, expected @ expected.T, atol=1e-10)
