"""Weights: they solve the problem they claim to, and report what they did."""

from functools import cache

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from owlfi import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    InverseMultiquadric,
    Korobov,
    Matern,
    Mixture,
    Normal,
    Poisson,
    Product,
    RationalQuadratic,
    Separable,
    SquaredExponential,
    Uniform,
    equal_weights,
    optimal_weights,
    sobol,
    squared_worst_case_error,
)
from owlfi.embeddings.embed import embed
from owlfi.weights.large import LARGE

SE = SquaredExponential(1.0)
SHORT = SquaredExponential(0.3)
KEY = jax.random.key(0)

LEGENDRE_NODES, LEGENDRE_WEIGHTS = (a / 2 for a in np.polynomial.legendre.leggauss(40))
LEGENDRE_NODES = LEGENDRE_NODES + 0.5
HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
HERMITE_WEIGHTS = HERMITE_WEIGHTS / np.sqrt(2 * np.pi)


def gaussian(a, b, lengthscale):
    """The squared exponential kernel of numbers, in NumPy."""
    return np.exp(-0.5 * ((np.asarray(a)[:, None] - np.asarray(b)) / lengthscale) ** 2)


def problem(u, lengthscale, nodes=LEGENDRE_NODES, weights=LEGENDRE_WEIGHTS):
    """Gram matrix, embedding and its squared norm, by Gauss quadrature; Uniform(0, 1) as given."""
    mean = gaussian(u, nodes, lengthscale) @ weights
    return (
        gaussian(u, u, lengthscale),
        mean,
        weights @ gaussian(nodes, nodes, lengthscale) @ weights,
    )


def exact_solution(u, lengthscale, nugget):
    """Weights and squared error for Uniform(0, 1), in 50 digits from the closed forms."""
    with mpmath.workdps(50):
        scale = mpmath.mpf(lengthscale)
        kernel = lambda r: mpmath.exp(-(r**2) / (2 * scale**2))  # noqa: E731
        points = [mpmath.mpf(float(x)) for x in u]
        root = mpmath.sqrt(2) * scale
        embedding = lambda x: (  # noqa: E731
            root * mpmath.sqrt(mpmath.pi) / 2 * (mpmath.erf((1 - x) / root) + mpmath.erf(x / root))
        )
        gram = mpmath.matrix([[kernel(a - b) for b in points] for a in points])
        z = mpmath.matrix([embedding(x) for x in points])
        w = mpmath.lu_solve(gram + nugget * mpmath.eye(len(points)), z)
        error = mpmath.quad(embedding, [0, 1]) - 2 * (w.T * z)[0] + (w.T * gram * w)[0]
        return np.array([float(x) for x in w]), float(error)


U = np.array([0.05, 0.3, 0.45, 0.8, 0.95])


@cache
def short():
    return optimal_weights(SHORT, Uniform(), U, nugget=0.0)


def test_weights_solve_the_linear_system():
    gram, mean, _ = problem(U, 0.3)
    assert np.allclose(short().weights, np.linalg.solve(gram, mean), rtol=1e-10)


def test_weights_minimise_the_worst_case_error():
    gram, mean, norm2 = problem(U, 0.3)
    found = scipy.optimize.minimize(
        lambda w: norm2 - 2 * w @ mean + w @ gram @ w,
        np.zeros(5),
        jac=lambda w: 2 * (gram @ w - mean),
        method="BFGS",
        options={"gtol": 1e-10},
    )
    assert np.allclose(short().weights, found.x, atol=1e-7)
    assert np.isclose(short().squared_worst_case_error, found.fun, atol=1e-12)


@pytest.mark.parametrize("nugget", [1e-8, 1e-5])
def test_ill_conditioned_weights_agree_with_fifty_digits(nugget):
    u = np.linspace(0, 1, 10)
    found = optimal_weights(SE, Uniform(), u, nugget=nugget)
    weights, error = exact_solution(u, 1.0, nugget)
    attainable = 10 * np.finfo(float).eps * float(found.condition) * np.abs(weights).max()
    assert np.allclose(found.weights, weights, rtol=0, atol=attainable)
    assert np.isclose(found.squared_worst_case_error, error, rtol=0, atol=2e-15)


def test_the_squared_error_is_the_quadratic_form():
    gram, mean, norm2 = problem(U, 0.3)
    w = np.asarray(short().weights)
    assert np.isclose(
        short().squared_worst_case_error, norm2 - 2 * w @ mean + w @ gram @ w, atol=1e-14
    )


@pytest.mark.parametrize("weights", [None, [1.0, -2.0, 0.5, 0.0, 3.0]])
def test_the_squared_error_of_any_weights_is_the_quadratic_form(weights):
    gram, mean, norm2 = problem(U, 0.3)
    w = np.full(5, 0.2) if weights is None else np.asarray(weights)
    value = squared_worst_case_error(SHORT, Uniform(), U, weights)
    assert np.isclose(value, norm2 - 2 * w @ mean + w @ gram @ w, rtol=1e-13, atol=1e-14)


def test_the_squared_error_with_a_nugget_is_that_of_the_kernel_without_it():
    found = optimal_weights(SHORT, Uniform(), U, nugget=0.1)
    again = squared_worst_case_error(SHORT, Uniform(), U, found.weights)
    assert np.isclose(found.squared_worst_case_error, again, rtol=1e-12)


def test_combinations_of_kernel_functions_at_the_points_are_integrated_exactly():
    gram, mean, _ = problem(U, 0.3)
    coefficients = np.array([1.0, -2.0, 3.0, 0.5, -1.0])
    values = gram @ coefficients
    assert np.isclose(short().weights @ values, mean @ coefficients, rtol=1e-12)


def test_errors_in_the_kernels_space_are_within_the_worst_case():
    v = np.linspace(-0.5, 1.5, 41)
    mean = gaussian(v, LEGENDRE_NODES, 0.3) @ LEGENDRE_WEIGHTS
    errors = np.abs(gaussian(v, U, 0.3) @ np.asarray(short().weights) - mean)
    bound = np.sqrt(float(short().squared_worst_case_error))
    assert (errors <= bound).all()
    assert errors.max() > 0.1 * bound


def test_the_worst_case_is_attained():
    """By the representer of the error, in the span of its embedding and the kernel functions."""
    gram, mean, norm2 = problem(U, 0.3)
    w = np.asarray(short().weights)
    squared_norm = norm2 - 2 * w @ mean + w @ gram @ w  # of f = z - Σ w_i c(u_i, ·)
    integral, estimate = norm2 - w @ mean, w @ (mean - gram @ w)
    error = (integral - estimate) / np.sqrt(squared_norm)
    assert np.isclose(error**2, short().squared_worst_case_error, atol=1e-14)


def test_normal_noise_agrees_with_gauss_hermite_quadrature():
    u = np.array([-1.5, -0.4, 0.3, 1.1, 2.0])
    gram, mean, norm2 = problem(u, 1.0, HERMITE_NODES, HERMITE_WEIGHTS)
    found = optimal_weights(SE, Normal(), u, nugget=0.0)
    w = np.linalg.solve(gram, mean)
    assert np.allclose(found.weights, w, rtol=1e-11)
    assert np.isclose(found.squared_worst_case_error, norm2 - w @ mean, atol=1e-14)


def test_one_point():
    found = optimal_weights(SE, Uniform(), [0.3], nugget=0.0)
    _, mean, norm2 = problem([0.3], 1.0)
    assert np.allclose(found.weights, mean, rtol=1e-14)
    assert np.isclose(found.squared_worst_case_error, norm2 - mean[0] ** 2, atol=1e-15)
    assert np.isclose(found.condition, 1.0)


def test_a_large_constant_in_the_kernel_makes_the_weights_sum_to_one():
    kernel = SquaredExponential(0.1)
    without, found = (optimal_weights(c, Uniform(), U, nugget=0.0) for c in (kernel, kernel + 1e4))
    assert abs(without.sum_of_weights - 1) > 0.01
    assert abs(found.sum_of_weights - 1) < 1e-4


def test_sums_of_weights_and_the_number_of_points_are_reported():
    found = optimal_weights(SE, Uniform(), [0.0, 0.1, 0.2, 0.3, 0.9], nugget=0.0)
    w = np.asarray(found.weights)
    assert w.min() < 0
    assert found.m == 5
    assert np.isclose(found.sum_of_weights, w.sum())
    assert np.isclose(found.sum_of_absolute_weights, np.abs(w).sum())


def test_equal_weights_report_their_error():
    found = equal_weights(SHORT, Uniform(), U)
    assert np.allclose(found.weights, 0.2)
    assert np.isclose(found.squared_worst_case_error, squared_worst_case_error(SHORT, Uniform(), U))


def test_equal_weights_of_many_designs_equal_single_ones():
    u = np.random.default_rng(0).uniform(size=(2, 3, 5, 1))
    found = equal_weights(SHORT, Uniform(), u)
    assert found.weights.shape == (2, 3, 5)
    assert found.condition.shape == found.nugget.shape == (2, 3)
    for i in np.ndindex(2, 3):
        single = squared_worst_case_error(SHORT, Uniform(), u[i])
        assert np.isclose(found.squared_worst_case_error[i], single, rtol=1e-12)


def test_any_weights_of_many_designs_are_shared_or_their_own():
    rng = np.random.default_rng(0)
    u, w = rng.uniform(size=(3, 5, 1)), rng.normal(size=(3, 5))
    own, shared = (squared_worst_case_error(SHORT, Uniform(), u, v) for v in (w, w[0]))
    for i in range(3):
        for value, v in ((own, w[i]), (shared, w[0])):
            gram, mean, norm2 = problem(u[i, :, 0], 0.3)
            assert np.isclose(value[i], norm2 - 2 * v @ mean + v @ gram @ v, rtol=1e-12)


def test_the_error_of_many_points_needs_no_matrix():
    gradient = jax.grad(lambda u: squared_worst_case_error(SE, Uniform(dim=2), u))
    compiled = jax.jit(gradient).lower(jax.ShapeDtypeStruct((2**17, 2), float)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 2e8


slow = pytest.mark.slow
PAIRS = {
    "se, uniform": (SE, Uniform()),
    "se, normal": (SE, Normal(dim=2)),
    "se, mixture": (SE, Mixture([Normal(-1), Normal(1)], [0.3, 0.7])),
    "se, poisson": (SE, Poisson(3.0)),
    "isotropic matern, normal": (Matern(2.5), Normal(dim=2)),
}
SLOW_PAIRS = {
    "se, product": (SE, Product(Normal(), Uniform())),
    "se, empirical": (SE, Empirical([[0.0, 1.0], [2.0, 3.0], [1.0, 1.0], [2.0, 0.0]])),
    "se, exponential": (SE, Exponential()),
    "se, gamma": (SE, Gamma(2.0)),
    "se, beta": (SE, Beta(2.0, 3.0)),
    "se, scipy": (SE, scipy.stats.gumbel_r()),
    "se + constant, normal": (SE + 1.0, Normal(dim=2)),
    "2 se, uniform": (2.0 * SE, Uniform()),
    "se matern, uniform": (SE * Matern(1.5), Uniform()),
    "matern, uniform": (Matern(1.5), Uniform()),
    "matern, normal": (Matern(2.5), Normal()),
    "separable matern, uniform": (Separable(Matern(2.5)), Uniform(dim=2)),
    "korobov, uniform": (Korobov(), Uniform(dim=2)),
    "inverse multiquadric, uniform": (InverseMultiquadric(), Uniform()),
    "rational quadratic, normal": (RationalQuadratic(), Normal()),
    "isotropic inverse multiquadric, product": (
        InverseMultiquadric(),
        Product(Normal(), Uniform()),
    ),
}


@pytest.mark.parametrize("name", [*PAIRS, *(pytest.param(name, marks=slow) for name in SLOW_PAIRS)])
def test_every_kernel_and_measure_give_finite_weights_better_than_equal_ones(name):
    kernel, measure = {**PAIRS, **SLOW_PAIRS}[name]
    u = sobol(KEY, 10, measure)
    found = optimal_weights(kernel, measure, u)
    equal = squared_worst_case_error(kernel, measure, u)
    assert np.isfinite(found.weights).all()
    assert np.abs(found.weights).max() > 1e-3
    assert -1e-15 < found.squared_worst_case_error < equal


@cache
def many_designs():
    u = np.random.default_rng(0).uniform(size=(1000, 10, 1))
    return u, optimal_weights(SHORT, Uniform(), u, nugget=1e-6)


def test_many_designs_in_one_call_equal_single_ones():
    u, together = many_designs()
    assert together.weights.shape == (1000, 10)
    for i in (0, 1, 500, 999):
        single = optimal_weights(SHORT, Uniform(), u[i], nugget=1e-6)
        for name in ("weights", "squared_worst_case_error", "condition", "nugget"):
            assert np.allclose(getattr(together, name)[i], getattr(single, name), rtol=1e-7)


def test_designs_keep_all_leading_axes():
    u, together = many_designs()
    found = optimal_weights(SHORT, Uniform(), u.reshape(10, 100, 10, 1), nugget=1e-6)
    assert found.squared_worst_case_error.shape == (10, 100)
    assert np.allclose(found.weights.reshape(1000, 10), together.weights, rtol=1e-10)


def test_a_well_conditioned_problem_keeps_nugget_zero():
    assert short().nugget == 0


@pytest.mark.parametrize(
    "distinct", [[0.3], [0.3, 0.6], [0.1, 0.4, 0.9]], ids=["one", "two", "three"]
)
@pytest.mark.parametrize("gap", [0.0, 1e-12])
def test_repeated_points_take_a_small_nugget_and_report_it(distinct, gap):
    u = np.resize(distinct, 5) + gap * np.arange(5)
    found = optimal_weights(SE, Uniform(), u, nugget=0.0)
    gram, mean, norm2 = problem(distinct, 1.0)
    w = np.linalg.solve(gram, mean)
    assert 0 < found.nugget < 1e-12
    assert np.isclose(found.squared_worst_case_error, norm2 - w @ mean, atol=1e-12)
    assert np.isclose(found.sum_of_weights, w.sum(), atol=1e-8)


def test_repeated_points_share_their_weight_where_a_nugget_is_given():
    found = optimal_weights(SE, Uniform(), [0.3, 0.3, 0.6, 0.6, 0.9], nugget=1e-8)
    assert found.nugget == 1e-8
    assert np.allclose(found.weights[0:4:2], found.weights[1:4:2], rtol=1e-6)


def test_only_the_designs_that_need_it_get_a_nugget():
    u = np.tile(np.linspace(0, 1, 10)[:, None], (1000, 1, 1))
    u[7, 3] = u[7, 4]
    found = optimal_weights(SquaredExponential(0.1), Uniform(), u, nugget=0.0)
    assert np.array_equal(np.flatnonzero(found.nugget), [7])


def test_without_a_nugget_no_design_ends_far_from_its_optimum():
    u, _ = many_designs()
    found, steadied = (optimal_weights(SHORT, Uniform(), u, nugget=n) for n in (0.0, 1e-12))
    excess = found.squared_worst_case_error - steadied.squared_worst_case_error
    assert found.squared_worst_case_error.min() > -1e-12
    assert excess.max() < 1e-9


CONDITIONS = {
    "well conditioned": (U, 0.1, 0.0),
    "moderate": (U, 0.3, 0.0),
    "regular": (np.linspace(0, 1, 5), 1.0, 0.0),
    "with nugget": (np.linspace(0, 1, 10), 1.0, 1e-8),
    "large nugget": (np.linspace(0, 1, 10), 1.0, 0.1),
    "close points": (np.array([0.1, 0.5, 0.5001, 0.7, 0.9]), 0.3, 0.0),
}


@pytest.mark.parametrize(("u", "lengthscale", "nugget"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_condition_number_is_right_within_a_factor_of_ten(u, lengthscale, nugget):
    found = optimal_weights(SquaredExponential(lengthscale), Uniform(), u, nugget=nugget)
    reference = np.linalg.cond(gaussian(u, u, lengthscale) + nugget * np.eye(len(u)))
    assert reference / 10 < found.condition < reference * 10


def test_jit_changes_nothing():
    compiled = jax.jit(lambda kernel, u: optimal_weights(kernel, Uniform(), u, nugget=0.0))
    assert np.allclose(compiled(SHORT, U).weights, short().weights, rtol=1e-12)


@pytest.mark.parametrize(("lengthscale", "nugget"), [(0.3, 1e-8), (3.0, 0.0)])
def test_a_large_design_has_the_weights_of_a_program(lengthscale, nugget):
    u = np.random.default_rng(0).normal(size=(LARGE, 2))
    c, measure = SquaredExponential(lengthscale), Normal(dim=2)
    alone = optimal_weights(c, measure, u, nugget=nugget)
    compiled = jax.jit(lambda u: optimal_weights(c, measure, u, nugget=nugget))(u)
    assert alone.nugget == compiled.nugget
    np.testing.assert_allclose(alone.condition, compiled.condition, rtol=0.1)
    gram = np.asarray(c.gram(u, u)) + float(alone.nugget) * np.eye(LARGE)
    z = np.asarray(embed(c, measure).mean(u))
    for found in (alone, compiled):  # weights themselves differ by rounding times the condition
        np.testing.assert_allclose(gram @ found.weights, z, atol=1e-9)
    np.testing.assert_allclose(
        alone.squared_worst_case_error, compiled.squared_worst_case_error, rtol=1e-6, atol=1e-13
    )


def test_vmap_over_designs_and_lengthscales():
    u = jnp.stack([U, 1 - U])[..., None]
    scales = jnp.array([0.3, 0.2])

    @jax.vmap
    def weights(scale, u):
        return optimal_weights(SquaredExponential(scale), Uniform(), u, nugget=0.0).weights

    together = jax.jit(weights)(scales, u)
    assert np.allclose(together[0], short().weights, rtol=1e-10)
    gram, mean, _ = problem(1 - U, 0.2)
    assert np.allclose(together[1], np.linalg.solve(gram, mean), rtol=1e-10)


DIRECTION = np.array([1.0, -2.0, 0.5, 3.0, -1.0])


@cache
def value_and_gradient(kernel):
    def value(u, scale):
        found = optimal_weights(kernel(scale), Uniform(), u, nugget=1e-6)
        return found.weights @ DIRECTION + 100 * found.squared_worst_case_error

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1)))


def matern(scale):
    return Matern(2.5, scale)


@pytest.mark.parametrize("kernel", [SquaredExponential, pytest.param(matern, marks=slow)])
def test_gradients_in_points_and_lengthscale_agree_with_finite_differences(kernel):
    compiled = value_and_gradient(kernel)
    in_points, in_scale = compiled(U, 0.3)[1]
    step = 1e-6
    for along, slope in (((DIRECTION, 0.0), in_points @ DIRECTION), ((0.0, 1.0), in_scale)):
        ahead, behind = (
            compiled(U + sign * step * along[0], 0.3 + sign * step * along[1])[0]
            for sign in (1, -1)
        )
        assert np.isclose(slope, (ahead - behind) / (2 * step), rtol=1e-5)


def test_gradient_in_the_nugget_agrees_with_finite_differences():
    def weight(nugget):
        return optimal_weights(SHORT, Uniform(), U, nugget=nugget).weights @ DIRECTION

    slope = (weight(1e-2 + 1e-6) - weight(1e-2 - 1e-6)) / 2e-6
    assert np.isclose(jax.grad(weight)(1e-2), slope, rtol=1e-6)


def test_gradients_are_finite_at_repeated_points():
    in_points, in_scale = value_and_gradient(SquaredExponential)(np.full(5, 0.3), 0.3)[1]
    assert np.isfinite(in_points).all()
    assert np.isfinite(in_scale)


@slow
@pytest.mark.parametrize(("nu", "largest"), [(0.5, 512), (1.5, 256), (2.5, 64)])
def test_worst_case_errors_fall_at_the_rate_of_theorem_3(nu, largest):
    """m^(-nu/s - 1/2) on regular grids in s = 1, where rounding (1e-16) does not matter yet."""
    m = 2 ** np.arange(3, int(np.log2(largest)) + 1)
    squared = [
        float(
            optimal_weights(
                Matern(nu), Uniform(), (np.arange(n) + 0.5) / n, nugget=0.0
            ).squared_worst_case_error
        )
        for n in m
    ]
    assert min(squared) > 1e-13
    slope = np.polyfit(np.log(m), 0.5 * np.log(squared), 1)[0]
    assert np.isclose(slope, -(nu + 0.5), rtol=0.15)
