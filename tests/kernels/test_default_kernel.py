"""The default data kernel knows no units, outvotes no column, and copes with ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Matern, SquaredExponential
from owlfi.inference.search.curvature import curve
from owlfi.kernels import Separable
from owlfi.kernels.default_kernel import default_kernel
from owlfi.kernels.spread import measure_spreads, typical_distance
from owlfi.kernels.transformed import Transformed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
UNITS = np.array([1.0, 1e6, 1e-9])
FLAT = np.column_stack([X[:, :2], np.full(60, 0.1)])  # whose standard deviation is not quite 0


def test_one_column_has_the_median_heuristic():
    x = RNG.gamma(2.0, size=40)
    assert default_kernel(x).lengthscale == owlfi.median_heuristic(x)
    assert default_kernel(x).lengthscale.shape == ()


def test_units_do_not_matter():
    y = X + 0.3
    one, other = default_kernel(X), default_kernel(X * UNITS)
    assert_allclose(other.gram(y * UNITS, X * UNITS), one.gram(y, X), rtol=1e-9)


def test_lengthscales_are_spreads_times_the_median_distance_between_scaled_rows():
    spreads = np.diff(np.quantile(X, [0.25, 0.75], axis=0), axis=0)[0] / 1.349
    expected = spreads * owlfi.median_heuristic(X / spreads)
    assert_allclose(default_kernel(X).lengthscale, expected, rtol=1e-12)


def test_columns_of_outliers_and_ties_have_a_spread():
    outlier = np.where(np.arange(60) == 0, 1e9, X[:, 0])
    ties = np.where(np.arange(60) < 10, X[:, 1], 0.0)
    found = measure_spreads(jnp.asarray(np.column_stack([outlier, ties, np.full(60, 0.1)])))
    assert found[0] < 2
    assert_allclose(found[1], ties.std())
    assert found[2] == 0


@pytest.mark.parametrize(
    "counts",
    [RNG.poisson(0.2, size=(80, 1)), RNG.poisson(0.1, size=(80, 2)), np.eye(50)[:, :1]],
    ids=["counts", "pairs of counts", "one event"],
)
def test_ties_of_most_rows_leave_a_lengthscale(counts):
    with pytest.raises(ValueError, match="median distance of 0"):
        owlfi.median_heuristic(counts)
    k = default_kernel(counts)
    assert 0.02 < k(np.zeros(counts.shape[1]), np.ones(counts.shape[1])) < 0.9


def test_distance_of_ties_is_that_of_distinct_rows():
    rows = jnp.array([[0.0, 0.0]] * 7 + [[1.0, 0.0], [0.0, 3.0], [4.0, 4.0]])
    assert typical_distance(rows) == owlfi.median_heuristic(rows[6:])


@pytest.mark.parametrize("rows", [np.ones((9, 2)), np.zeros(5)])
def test_rows_that_are_all_equal_are_refused(rows):
    with pytest.raises(ValueError, match=r"x has .* rows that are all equal.*; give one yourself"):
        default_kernel(rows, name="x")


def test_one_row_is_refused():
    with pytest.raises(ValueError, match=r"1 row, which leaves .*; give one yourself"):
        default_kernel([[1.0, 2.0]])


def test_constant_column_is_left_out():
    k, without = default_kernel(FLAT), default_kernel(FLAT[:, :2])
    assert k.lengthscale[2] == jnp.inf
    assert_allclose(k.lengthscale[:2], without.lengthscale, rtol=1e-12)
    y = X + 0.5
    assert_allclose(k.gram(y, FLAT), without.gram(y[:, :2], FLAT[:, :2]), rtol=1e-12)


def test_constant_column_takes_a_spread_from_elsewhere():
    k = default_kernel(FLAT, spreads_elsewhere=lambda: jnp.array([100.0, 100.0, 2.0]))
    ratio = k.lengthscale / measure_spreads(jnp.asarray(FLAT))
    assert_allclose(k.lengthscale[2] / 2.0, ratio[0], rtol=1e-12)
    assert_allclose(ratio[0], ratio[1], rtol=1e-12)


def test_spreads_from_elsewhere_are_asked_for_where_needed_only():
    def never():
        raise AssertionError

    assert default_kernel(X, spreads_elsewhere=never).lengthscale.shape == (3,)


@pytest.mark.parametrize("far", [1.0, 1e3])
def test_infinite_lengthscales_give_finite_sums_and_derivatives(far):
    """By differences, where rows are far apart, and by products."""
    k, w, v = default_kernel(FLAT).stretch(1.5), jnp.full(20, 0.05), jnp.full(60, 1 / 60)
    y, x = jnp.asarray(far * X[:20]), jnp.asarray(FLAT)
    plain = SquaredExponential(k.lengthscale[:2])

    def value(kernel, rows):
        return kernel.self_sum(rows, w) - 2 * w @ kernel.row_sums(rows, x[:, : rows.shape[1]], v)

    assert_allclose(value(k, y), value(plain, y[:, :2]), rtol=1e-10)
    slope = jax.grad(lambda rows: value(k, rows))(y)
    assert_allclose(slope[:, :2], jax.grad(lambda rows: value(plain, rows))(y[:, :2]), atol=1e-14)
    assert (slope[:, 2] == 0).all()
    assert jnp.isfinite(jax.grad(lambda k: k.gram(y, x).sum())(k).lengthscale).all()


def test_infinite_lengthscales_give_finite_curvatures():
    k, w, v = default_kernel(FLAT), jnp.full(20, 0.05), jnp.full(60, 1 / 60)
    y, x, plain = jnp.asarray(X[:20]), jnp.asarray(FLAT), SquaredExponential(k.lengthscale[:2])
    directions = jnp.asarray(RNG.normal(size=(2, 20, 3)))
    found = curve(k, y, directions, x, w, v, False)
    expected = curve(plain, y[:, :2], directions[..., :2], x[:, :2], w, v, False)
    assert_allclose(found.curvature, expected.curvature, rtol=1e-9, atol=1e-14)


def test_traced_data_have_the_same_kernel():
    traced = jax.jit(lambda x: default_kernel(x).lengthscale)
    assert_allclose(traced(jnp.asarray(X)), default_kernel(X).lengthscale, rtol=1e-12)
    assert_allclose(traced(jnp.asarray(FLAT)), default_kernel(FLAT).lengthscale, rtol=1e-12)


DISTANCES = {
    "radial": (Matern(1.5, [1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]),
    "scaled": (3.0 * Matern(1.5, 2.0), [2.0] * 3),
    "stretched": ((Matern(1.5, 2.0) + 0.1).stretch(3.0), [6.0] * 3),
    "transformed": (Transformed(Matern(1.5, 2.0), 4 * jnp.eye(3)), [0.5] * 3),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_kernels_are_functions_of_distances_in_their_coordinates(name):
    kernel, scales = DISTANCES[name]
    z = kernel.distance_coordinates()(jnp.asarray(X))
    expected = np.linalg.norm((X[0] - X[1]) / np.array(scales))
    assert_allclose(jnp.linalg.norm(z[0] - z[1]), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel", [Separable(Matern(1.5)), owlfi.FunctionKernel(lambda a, b: a @ b)]
)
def test_other_kernels_know_of_no_distance(kernel):
    assert kernel.distance_coordinates() is None
    assert (kernel + 1.0).distance_coordinates() is None
