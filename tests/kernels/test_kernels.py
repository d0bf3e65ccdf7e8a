"""Kernels: their formulas, what makes them kernels, and how they combine and transform."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from catalogue import KERNELS
from owlfi import (
    Constant,
    FunctionKernel,
    InverseMultiquadric,
    Korobov,
    Matern,
    RationalQuadratic,
    Separable,
    SquaredExponential,
)
from owlfi.kernels import as_kernel, squared_distances

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))


def laplacian(a, b):
    return jnp.exp(-jnp.abs(a - b).sum())


PLANE = {name: row.make(0.7) for name, row in KERNELS.items()} | {
    "constant": Constant(0.3),
    "function": FunctionKernel(laplacian),
    "matern with two lengthscales": Matern(2.5, [0.5, 2.0]),
    "korobov with two periods": Korobov(2, weight=[0.1, 1.0], period=[0.5, 2.0]),
}
kernels = pytest.mark.parametrize("kernel", PLANE.values(), ids=PLANE)
rows = pytest.mark.parametrize("row", KERNELS.values(), ids=KERNELS)


@jax.jit
def gram(kernel, x, y):
    return kernel.gram(x, y)


@kernels
def test_gram_is_symmetric(kernel):
    assert np.array_equal(gram(kernel, X, Y), gram(kernel, Y, X).T)


@kernels
def test_gram_is_positive_semi_definite(kernel):
    matrix = np.asarray(gram(kernel, X, X))
    assert np.linalg.eigvalsh(matrix).min() >= -1e-13 * matrix.max()


@rows
def test_kernel_along_one_coordinate_is_its_formula(row):
    r = np.array([0.0, 1e-9, 1e-3, 0.1, 0.7, 5.0])
    x, zeros = np.stack([r, np.zeros(6)], axis=1), np.zeros((6, 2))
    expected = row.formula(r.astype(np.longdouble), 0.7)
    if row.periodic:  # and so is the other coordinate, at distance zero
        expected = expected * expected[0]
    assert_allclose(gram(row.make(0.7), x, zeros)[:, 0], expected.astype(float), rtol=1e-12)


@kernels
def test_gradients_are_finite_where_both_points_are_one(kernel):
    gradients = jax.jit(jax.grad(lambda k, x: k.gram(x, X).sum(), (0, 1)))(kernel, X)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@kernels
def test_kernel_survives_a_pytree_round_trip(kernel):
    leaves, tree = jax.tree.flatten(kernel)
    assert np.array_equal(gram(jax.tree.unflatten(tree, leaves), X, Y), gram(kernel, X, Y))


@kernels
def test_gram_is_the_same_without_jit(kernel):
    assert_allclose(kernel.gram(X, Y), gram(kernel, X, Y), rtol=1e-13)


@kernels
def test_kernel_is_mapped_over_points(kernel):
    mapped = jax.jit(jax.vmap(kernel))(X, Y)
    assert_allclose(mapped, np.diag(gram(kernel, X, Y)), rtol=1e-13)


def test_call_is_an_entry_of_the_gram():
    kernel = Matern(1.5, 0.7)
    assert_allclose(kernel(X[0], Y[1]), kernel.gram(X, Y)[0, 1], rtol=1e-15)


def test_diagonal_is_the_diagonal_of_the_gram():
    kernel = FunctionKernel(lambda a, b: a @ b)
    assert_allclose(kernel.diagonal(X), np.diag(X @ X.T), rtol=1e-15)


@pytest.mark.parametrize("make", [SquaredExponential, InverseMultiquadric, RationalQuadratic])
def test_kernel_is_mapped_over_lengthscales(make):
    lengthscales = jnp.array([0.5, 1.0, 2.0])
    mapped = jax.vmap(lambda ell: make(ell)(X[0], Y[0]))(lengthscales)
    assert_allclose(mapped, [make(ell)(X[0], Y[0]) for ell in lengthscales], rtol=1e-15)


# Formulas by hand

PAIR = np.array([[0.0, 0.0], [1.0, 3.0]])


def test_squared_exponential_by_hand():
    assert_allclose(SquaredExponential(2.0)(*PAIR), np.exp(-10 / 8), rtol=1e-15)


def test_inverse_multiquadric_by_hand():
    assert_allclose(InverseMultiquadric(2.0)(*PAIR), 3.5**-0.5, rtol=1e-15)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_rational_quadratic_by_hand(alpha):
    kernel = RationalQuadratic(2.0, alpha)
    expected = (1 + 2.5 / (2 * alpha)) ** -alpha
    assert_allclose(kernel(*PAIR), expected, rtol=1e-15)


def matern_by_bessel(nu, r):
    with mpmath.workdps(30):
        t = mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(r)
        return float(mpmath.mpf(2) ** (1 - nu) / mpmath.gamma(nu) * t**nu * mpmath.besselk(nu, t))


@pytest.mark.parametrize(
    "nu", [0.05, 0.3, 0.5, 1.0, 1.2, 1.5, 2.0, 2.5, 2.7, 3.5, 4.5, 10.0, 100.0]
)
def test_matern_is_a_bessel_function(nu):
    r = np.geomspace(1e-8, 100, 20)
    expected = [matern_by_bessel(nu, x) for x in r]
    actual = gram(Matern(nu, 1.0), r[:, None], np.zeros((1, 1)))[:, 0]
    assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.05, 0.7, 1.0, 20.0, 99.7])
def test_matern_is_a_bessel_function_next_to_zero_with_finite_gradients(nu):
    r = np.geomspace(1e-140, 1e-9, 8)
    kernel = Matern(nu, 1.0)
    value, slope = jax.vmap(jax.value_and_grad(lambda x: kernel(x, 0.0)))(r)
    assert_allclose(value, [matern_by_bessel(nu, x) for x in r], rtol=2e-13)
    assert (value <= 1).all()
    assert np.isfinite(slope).all()
    assert kernel(0.0, 0.0) == 1


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.0, 2.5, 99.5, 100.0])
@pytest.mark.parametrize("r", [1e4, 1e200])
def test_matern_vanishes_far_out_with_its_gradients(nu, r):
    value, gradient = jax.value_and_grad(lambda p: Matern(nu, p[1])(p[:1], 0.0))(
        jnp.array([r, 1.0])
    )
    assert value == 0
    assert np.array_equal(gradient, [0.0, 0.0])


def test_matern_of_high_order_keeps_its_digits_until_it_vanishes():
    r = np.linspace(30, 60, 4)
    expected = [matern_by_bessel(99.5, x) for x in r]
    assert min(expected) < 1e-250
    assert_allclose(Matern(99.5).gram(r, np.zeros(1))[:, 0], expected, rtol=1e-10)


@pytest.mark.parametrize("nu", [1.2, 1.5, 2.5, 2.7, 3.5])
def test_matern_bends_at_distance_zero_as_it_should(nu):
    lengthscale = 0.7
    kernel = Matern(nu, lengthscale)
    bend = jax.jit(jax.hessian(lambda x: kernel(x, jnp.zeros(2))))(jnp.zeros(2))
    assert_allclose(bend, -nu / (nu - 1) / lengthscale**2 * np.eye(2), rtol=1e-12)


def test_matern_has_the_derivatives_of_its_differences():
    kernel, h = Matern(3.5, 0.7), 1e-4
    slope = jax.jit(jax.grad(lambda x: kernel(x, jnp.zeros(1))))
    for x in (1e-3, 0.4, 3.0):
        steps = np.array([[x + h], [x - h], [x + 2 * h], [x - 2 * h]])
        values = kernel.gram(steps, np.zeros((1, 1)))[:, 0]
        near, far = values[0] - values[1], values[2] - values[3]
        assert_allclose(slope(jnp.array([x]))[0], (8 * near - far) / (12 * h), rtol=1e-8)


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
def test_korobov_is_its_fourier_series(alpha):
    terms = np.arange(1, 20001)
    x = np.linspace(0, 1, 11)[:-1]
    series = 2 * np.cos(2 * np.pi * terms * x[:, None]) @ terms ** (-2.0 * alpha)
    left_out = 2 * terms[-1] ** (1 - 2.0 * alpha) / (2 * alpha - 1)
    actual = Korobov(alpha, weight=0.5).gram(x[:, None], np.zeros((1, 1)))[:, 0]
    assert_allclose(actual, 1 + 0.5 * series, rtol=0, atol=left_out + 1e-14)


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
@pytest.mark.parametrize("period", [1.0, 0.25, 3.0])
def test_korobov_has_its_period(alpha, period):
    kernel = Korobov(alpha, period=period)
    shifted = kernel.gram(X + 2 * period, Y - 5 * period)
    assert_allclose(shifted, kernel.gram(X, Y), rtol=0, atol=1e-13)


# Coordinates


@pytest.mark.parametrize(
    "make", [SquaredExponential, lambda ell: Matern(2.5, ell), InverseMultiquadric]
)
def test_each_coordinate_has_its_lengthscale(make):
    lengthscales = np.array([0.5, 2.0])
    expected = make(1.0).gram(X / lengthscales, Y / lengthscales)
    assert_allclose(make(lengthscales).gram(X, Y), expected, rtol=1e-14)


def test_one_lengthscale_serves_every_coordinate():
    assert_allclose(Matern(1.5, 0.7).gram(X, Y), Matern(1.5, [0.7, 0.7]).gram(X, Y), rtol=1e-15)


def test_separable_kernel_multiplies_over_coordinates():
    kernel = Separable(Matern(1.5, [0.5, 2.0]))
    first = Matern(1.5, 0.5).gram(X[:, :1], Y[:, :1])
    second = Matern(1.5, 2.0).gram(X[:, 1:], Y[:, 1:])
    assert_allclose(kernel.gram(X, Y), first * second, rtol=1e-14)


def test_isotropic_kernel_does_not_multiply_over_coordinates():
    assert not np.allclose(
        Matern(1.5, 0.7).gram(X, Y), Separable(Matern(1.5, 0.7)).gram(X, Y), rtol=1e-3
    )


def test_squared_exponential_is_separable_already():
    kernel = SquaredExponential([0.5, 2.0])
    assert_allclose(Separable(kernel).gram(X, Y), kernel.gram(X, Y), rtol=1e-14)


def test_korobov_multiplies_over_coordinates():
    kernel = Korobov(2, weight=[0.1, 1.0], period=[0.5, 2.0])
    first = Korobov(2, 0.1, 0.5).gram(X[:, :1], Y[:, :1])
    second = Korobov(2, 1.0, 2.0).gram(X[:, 1:], Y[:, 1:])
    assert_allclose(kernel.gram(X, Y), first * second, rtol=1e-13)


def test_many_coordinates_are_summed():
    x, y = RNG.normal(size=(3, 50)), RNG.normal(size=(2, 50))
    expected = np.exp(-((x[:, None] - y) ** 2).sum(-1) / 2 / 49)
    assert_allclose(SquaredExponential(7.0).gram(x, y), expected, rtol=1e-14)


def test_close_points_far_from_the_origin_keep_their_distance():
    x = np.array([[1e8]])
    y = x + 2.0**-20
    expected = np.exp(-(2.0**-20) / 1e-6)
    assert_allclose(Matern(0.5, 1e-6).gram(x, y)[0, 0], expected, rtol=1e-14)


# Combinations

A, B = SquaredExponential(0.7), Matern(0.5, 2.0)


GRAM_A, GRAM_B = A.gram(X, Y), B.gram(X, Y)
COMBINATIONS = {
    "sum": (A + B, GRAM_A + GRAM_B),
    "product": (A * B, GRAM_A * GRAM_B),
    "scaled from the left": (2.5 * A, 2.5 * GRAM_A),
    "scaled from the right": (A * 2.5, 2.5 * GRAM_A),
    "shifted from the left": (0.3 + A, GRAM_A + 0.3),
    "shifted from the right": (A + 0.3, GRAM_A + 0.3),
    "sum of a list": (sum([A, B]), GRAM_A + GRAM_B),
    "divided": (A / 4, GRAM_A / 4),
    "multiple of a number of numpy": (np.float64(2.5) * A, 2.5 * GRAM_A),
    "multiple of an array without axes": (np.array(2.5) * A, 2.5 * GRAM_A),
    "multiple of a number of jax": (jnp.array(2.5) * A, 2.5 * GRAM_A),
    "sum with a product": (A + B + A * B, GRAM_A + GRAM_B + GRAM_A * GRAM_B),
    "product of sums": ((A + 0.3) * (2 * B), (GRAM_A + 0.3) * 2 * GRAM_B),
}


@pytest.mark.parametrize(("kernel", "expected"), COMBINATIONS.values(), ids=COMBINATIONS)
def test_kernels_combine_as_numbers_do(kernel, expected):
    assert_allclose(kernel.gram(X, Y), expected, rtol=1e-15)


def test_function_of_two_points_is_a_kernel():
    kernel = as_kernel(laplacian)
    expected = np.exp(-np.abs(X[:, None] - Y).sum(-1))
    assert_allclose(kernel.gram(X, Y), expected, rtol=1e-15)


def test_function_combines_with_other_kernels():
    kernel = 0.5 * FunctionKernel(laplacian) + A
    expected = 0.5 * np.exp(-np.abs(X[:, None] - Y).sum(-1)) + A.gram(X, Y)
    assert_allclose(kernel.gram(X, Y), expected, rtol=1e-15)


def test_kernel_stays_itself_as_a_kernel():
    assert as_kernel(A) is A


# Errors

MAKERS = {
    "squared exponential": SquaredExponential,
    "matern": lambda ell: Matern(2.5, ell),
    "inverse multiquadric": InverseMultiquadric,
    "rational quadratic": RationalQuadratic,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("bad", [0.0, -1.0, [1.0, 0.0], np.nan, np.inf, "long", [[1.0]], [], None])
def test_bad_lengthscale_is_refused(make, bad):
    with pytest.raises(ValueError, match="lengthscale"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Matern(0.0), "nu"),
        (lambda: Matern(-1.5), "nu"),
        (lambda: Matern(np.nan), "nu"),
        (lambda: Matern(np.inf), "nu"),
        (lambda: Matern("rough"), "nu"),
        (lambda: Matern(None), "nu"),
        (lambda: RationalQuadratic(1.0, 0.0), "alpha"),
        (lambda: RationalQuadratic(1.0, -1.0), "alpha"),
        (lambda: RationalQuadratic(1.0, np.nan), "alpha"),
        (lambda: RationalQuadratic(1.0, "wide"), "alpha"),
        (lambda: Korobov(0), "alpha"),
        (lambda: Korobov(5), "alpha"),
        (lambda: Korobov(1.5), "alpha"),
        (lambda: Korobov(np.array([1, 2])), "alpha"),
        (lambda: Korobov("smooth"), "alpha"),
        (lambda: Korobov(1, weight=-1.0), "weight"),
        (lambda: Korobov(1, weight=np.nan), "weight"),
        (lambda: Korobov(1, period=0.0), "period"),
        (lambda: -1.0 * SquaredExponential(1.0), "factor"),
        (lambda: np.nan * SquaredExponential(1.0), "factor"),
        (lambda: [1.0, 2.0] * SquaredExponential(1.0), "factor"),
        (lambda: np.array([1.0, 2.0]) * SquaredExponential(1.0), "factor"),
        (lambda: SquaredExponential(1.0) / 0.0, "divisor"),
        (lambda: SquaredExponential(1.0) / SquaredExponential(1.0), "divisor"),
        (lambda: SquaredExponential(1.0) + laplacian, "FunctionKernel"),
        (lambda: laplacian * SquaredExponential(1.0), "FunctionKernel"),
        (lambda: SquaredExponential(1.0) + (-0.5), "value"),
        (lambda: Constant(0.0), "value"),
        (lambda: Constant([1.0, 2.0]), "value"),
    ],
)
def test_bad_parameter_is_refused(make, name):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        make()


@pytest.mark.parametrize(
    "kernel", [Matern(2.5, [1.0, 2.0, 3.0]), Separable(Matern(0.5, [1.0] * 3))]
)
def test_wrong_number_of_lengthscales_is_refused(kernel):
    with pytest.raises(ValueError, match=r"lengthscale .*3 entries.*2 coordinates"):
        kernel.gram(X, Y)


def test_wrong_number_of_periods_is_refused():
    with pytest.raises(ValueError, match=r"period .*3 entries.*2 coordinates"):
        Korobov(1, period=[1.0, 2.0, 3.0]).gram(X, Y)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Matern(np.inf), "SquaredExponential"),
        (lambda: SquaredExponential(None), "must be a number"),
        (lambda: SquaredExponential(np.inf), "must be a finite number"),
    ],
)
def test_refusals_say_what_to_do(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_whole_numbers_written_as_floats_are_whole_numbers():
    assert Korobov(1.0)(0.2, 0.5) == Korobov(1)(0.2, 0.5)


NOT_ALONG_COORDINATES = {
    "a number": 1.0,
    "a function": laplacian,
    "a sum": A + B,
    "a multiple": 2.0 * B,
    "a constant": Constant(1.0),
    "a product with a multiple": A * (2.0 * B),
}


@pytest.mark.parametrize("bad", NOT_ALONG_COORDINATES.values(), ids=NOT_ALONG_COORDINATES)
def test_what_has_no_form_along_coordinates_is_not_made_separable(bad):
    with pytest.raises(ValueError, match=r"kernel must be one with a form along each coordinate"):
        Separable(bad)


def test_separable_product_is_the_product_of_separable_kernels():
    expected = Separable(B).gram(X, Y) * A.gram(X, Y)
    assert_allclose(Separable(A * B).gram(X, Y), expected, rtol=1e-14)


@kernels
def test_lists_are_points_and_samples(kernel):
    assert_allclose(kernel.gram(X.tolist(), Y.tolist()), gram(kernel, X, Y), rtol=1e-13)
    assert_allclose(kernel(X[0].tolist(), Y[0].tolist()), gram(kernel, X, Y)[0, 0], rtol=1e-13)


def test_numbers_are_samples_of_one_column():
    assert np.array_equal(A.gram([0.0, 1.0], [2.0]), A.gram([[0.0], [1.0]], [[2.0]]))


@pytest.mark.parametrize("kernel", [A, Korobov(), Separable(B), Constant(1.0), A + B])
@pytest.mark.parametrize(
    "x", [0.0, np.zeros(6), np.zeros((6, 3)), np.zeros((1, 6, 2))], ids=np.ndim
)
def test_samples_of_other_shapes_are_refused(kernel, x):
    with pytest.raises(ValueError, match="the same number of columns"):
        kernel.gram(x, Y)


@pytest.mark.parametrize("a", [np.zeros(1), np.zeros(3), np.zeros((2, 2))])
def test_points_of_other_shapes_are_refused(a):
    with pytest.raises(ValueError, match="the same number of coordinates"):
        A(a, np.ones(2))


@pytest.mark.parametrize("bad", [None, 1.0, "gaussian", SquaredExponential])
def test_what_is_no_kernel_is_refused(bad):
    with pytest.raises(ValueError, match="kernel must be"):
        as_kernel(bad)


def test_function_that_gives_a_vector_is_refused():
    with pytest.raises(ValueError, match="one number"):
        FunctionKernel(lambda a, b: a * b).gram(X, Y)


# Many coordinates


@pytest.mark.parametrize("d", [64, 65, 601])
def test_differences_of_many_coordinates_add_up(d):
    rng = np.random.default_rng(1)
    x, y, scales = rng.normal(size=(3, d)), rng.normal(size=(4, d)), rng.uniform(0.5, 2, d)
    expected = (((x[:, None] - y[None]) / scales) ** 2).sum(2)
    assert_allclose(squared_distances(jnp.array(x), jnp.array(y), scales), expected, rtol=1e-13)


def test_programs_do_not_grow_with_the_coordinates():
    def count(d):
        return len(jax.make_jaxpr(squared_distances)(jnp.ones((3, d)), jnp.ones((4, d))).eqns)

    assert count(10_000) < count(64)
