"""The squared MMD: V, U and weighted statistics, as defined and nothing else."""

import jax
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from owlfi import (
    Constant,
    Matern,
    Normal,
    SquaredExponential,
    data_term,
    optimal_weights,
    squared_mmd,
)
from owlfi.weights.quadrature import unweighted

SE = SquaredExponential(1.0)


def normal(*shapes):
    """Normal numbers, always the same."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in shapes]


def statistic(y, x, w=None, v=None, lengthscale=1.0):
    """The weighted statistic of the squared exponential kernel, from the full matrices."""
    w = np.full(len(y), 1 / len(y)) if w is None else w
    v = np.full(len(x), 1 / len(x)) if v is None else v
    yy, yx, xx = (
        np.exp(-0.5 * np.sum(((a[:, None] - b) / lengthscale) ** 2, -1))
        for a, b in ((y, y), (y, x), (x, x))
    )
    return w @ yy @ w - 2 * w @ yx @ v + v @ xx @ v


# At 0, 1 and 3 the kernel exp(-r²/2) takes the values
#   k(0, 1) = 0.606530659713   k(0, 3) = 0.011108996538   k(1, 3) = 0.135335283237
# so y = (0, 1), x = (0, 3) have the sums
#   yy: 2 + 2 · 0.606530659713 = 3.213061319425
#   yx: 1 + 0.011108996538 + 0.606530659713 + 0.135335283237 = 1.752974939488
#   xx: 2 + 2 · 0.011108996538 = 2.022217993077
BY_HAND = {
    "V": ({}, 3.213061319425 / 4 - 2 * 1.752974939488 / 4 + 2.022217993077 / 4),
    "U": ({"unbiased": True}, 0.606530659713 - 2 * 1.752974939488 / 4 + 0.011108996538),
    # 4 + 1 - 4 · 0.6065… - (2 · 1.0111… - 0.7418…) + 0.5055…
    "weighted": (
        {"weights": [2.0, -1.0]},
        2.573877361149 - (2 * 1.011108996538 - 0.741865942949) + 0.505554498269,
    ),
    "weighted x": (
        {"weights_x": [1.0, 0.0]},
        3.213061319425 / 4 - 2 * (1 + 0.606530659713) / 2 + 1.0,
    ),
    "both weighted": (
        {"weights": [2.0, -1.0], "weights_x": [0.5, 1.0]},
        2.573877361149
        - 2 * (1.0 + 2 * 0.011108996538 - 0.5 * 0.606530659713 - 0.135335283237)
        + (0.25 + 1.0 + 0.011108996538),
    ),
    "weights all zero": ({"weights": [0.0, 0.0]}, 0.505554498269),
}


@pytest.mark.parametrize(("options", "value"), BY_HAND.values(), ids=BY_HAND)
def test_two_points_each_by_hand(options, value):
    assert np.isclose(squared_mmd(SE, [0.0, 1.0], [0.0, 3.0], **options), value, atol=1e-11)


def test_three_points_by_hand():
    # 3 + 2 (0.6065… + 0.0111… + 0.1353…) = 4.505949878976 over all pairs of (0, 1, 3)
    same = squared_mmd(SE, [0.0, 1.0, 3.0], [1.0])
    assert np.isclose(same, 4.505949878976 / 9 - 2 * 1.741865942950 / 3 + 1, atol=1e-11)


def test_the_u_statistic_can_be_negative():
    assert squared_mmd(SE, [0.0, 1.0], [0.0, 1.0], unbiased=True) < -0.3


def test_the_weighted_statistic_is_not_clipped_at_zero():
    kernel = lambda a, b: -(a @ b)  # noqa: E731 (not a kernel, but the sums do not care)
    assert squared_mmd(kernel, [1.0], [3.0]) == -4


def test_equal_samples_have_distance_zero():
    (y,) = normal((20, 3))
    assert abs(squared_mmd(SE, y, y[::-1])) < 1e-15


def test_the_linear_kernel_compares_weighted_means():
    y, x, w, v = normal((9, 3), (14, 3), 9, 14)
    value = squared_mmd(lambda a, b: a @ b, y, x, w, weights_x=v)
    assert np.isclose(value, np.sum((w @ y - v @ x) ** 2), rtol=1e-12)


def test_the_constant_kernel_compares_sums_of_weights():
    assert np.isclose(squared_mmd(Constant(2.0), np.zeros(3), np.ones(4), [1.0, 2.0, -0.5]), 4.5)


@pytest.mark.parametrize("d", [3, 10])
def test_random_samples_agree_with_full_matrices(d):
    y, x, w, v = normal((130, d), (205, d), 130, 205)
    lengthscale = d**0.5
    value = squared_mmd(SquaredExponential(lengthscale), y, x, w, weights_x=v)
    reference = statistic(y, x, w, v, lengthscale)
    assert np.isclose(value, reference, rtol=1e-12, atol=1e-11)


def test_the_u_statistic_leaves_out_the_diagonals():
    y, x = normal((9, 3), (14, 3))
    yy, yx, xx = (np.exp(-0.5 * cdist(a, b, "sqeuclidean")) for a, b in ((y, y), (y, x), (x, x)))
    yy, xx = (matrix - np.eye(len(matrix)) for matrix in (yy, xx))
    reference = yy.sum() / (9 * 8) - 2 * yx.mean() + xx.sum() / (14 * 13)
    assert np.isclose(squared_mmd(SE, y, x, unbiased=True), reference, rtol=1e-12)


@pytest.mark.parametrize("lengthscale", [1.0, 0.7])
@pytest.mark.parametrize("d", [3, 10])
def test_a_shift_of_all_data_keeps_the_digits(d, lengthscale):
    y, x = normal((130, d), (205, d))
    y, x = y + 0.5 + 1e6, x + 1e6
    value = squared_mmd(SquaredExponential(lengthscale), y, x)
    assert np.isclose(value, statistic(y, x, lengthscale=lengthscale), rtol=1e-10, atol=0)


@pytest.mark.parametrize("d", [3, 10])
def test_clusters_far_apart_keep_the_digits(d):
    y, x = normal((130, d), (205, d))
    y[::2] += 1e8
    x[::3] += 1e8
    assert np.isclose(squared_mmd(SE, y, x), statistic(y, x), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"unbiased": True}, {"weights": np.arange(9.0)}, {"weights_x": np.arange(14.0)}],
    ids=["V", "U", "weights", "weights_x"],
)
def test_passing_the_data_term_changes_nothing(options):
    y, x = normal((9, 3), (14, 3))
    term = data_term(SE, x, options.get("weights_x"), unbiased=options.get("unbiased", False))
    assert squared_mmd(SE, y, x, data_term=term, **options) == squared_mmd(SE, y, x, **options)


def test_the_data_term_by_hand():
    assert np.isclose(data_term(SE, [0.0, 1.0]), 0.803265329856, atol=1e-12)
    assert np.isclose(data_term(SE, [0.0, 1.0], unbiased=True), 0.606530659713, atol=1e-12)
    assert np.isclose(data_term(SE, [0.0, 1.0], [2.0, -1.0]), 2.573877361149, atol=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
def test_many_thetas_at_once_equal_one_by_one(unbiased):
    y, x = normal((2, 2, 9, 3), (14, 3))
    together = squared_mmd(SE, y, x, unbiased=unbiased)
    single = [[squared_mmd(SE, sample, x, unbiased=unbiased) for sample in row] for row in y]
    assert together.shape == (2, 2)
    assert np.allclose(together, single, rtol=1e-13, atol=1e-15)


def test_many_thetas_share_weights_or_have_their_own():
    y, x, w = normal((2, 2, 9, 3), (14, 3), (2, 2, 9))
    own, shared = squared_mmd(SE, y, x, w), squared_mmd(SE, y, x, w[0, 0])
    for i in np.ndindex(2, 2):
        assert np.isclose(own[i], squared_mmd(SE, y[i], x, w[i]), rtol=1e-12)
        assert np.isclose(shared[i], squared_mmd(SE, y[i], x, w[0, 0]), rtol=1e-12)


def test_a_quadrature_stands_for_its_weights():
    y, x = normal((9, 2), (14, 2))
    quadrature = optimal_weights(SE, Normal(dim=2), y)
    expected = statistic(y, x, np.asarray(quadrature.weights))
    assert np.isclose(squared_mmd(SE, y, x, quadrature), expected, rtol=0, atol=1e-12)


def test_a_quadrature_of_a_u_statistic_leaves_out_the_diagonals():
    y, x = normal((9, 2), (14, 2))
    quadrature = unweighted(jax.numpy.asarray(y), unbiased=True)
    assert squared_mmd(SE, y, x, quadrature) == squared_mmd(SE, y, x, unbiased=True)


def test_vmap_equals_one_by_one():
    y, x, w = normal((4, 9, 3), (14, 3), (4, 9))
    together = jax.vmap(lambda sample, weights: squared_mmd(SE, sample, x, weights))(y, w)
    single = [squared_mmd(SE, sample, x, weights) for sample, weights in zip(y, w, strict=True)]
    assert np.allclose(together, single, rtol=1e-12, atol=1e-13)


def test_jit_changes_nothing():
    y, x, w = normal((9, 3), (14, 3), 9)
    compiled = jax.jit(lambda kernel, *samples: squared_mmd(kernel, *samples))
    assert np.isclose(compiled(SE, y, x, w), squared_mmd(SE, y, x, w), rtol=1e-13)


def assert_gradient_agrees_with_finite_differences(function, *point):
    """The derivative along three directions in all arguments at once."""
    compiled = jax.jit(jax.value_and_grad(function, argnums=tuple(range(len(point)))))
    gradient = compiled(*point)[1]
    rng = np.random.default_rng(1)
    step = 1e-5
    for _ in range(3):
        direction = [rng.normal(size=np.shape(part)) for part in point]
        ahead, behind = (
            compiled(*(p + sign * step * d for p, d in zip(point, direction, strict=True)))[0]
            for sign in (1, -1)
        )
        slope = sum(np.vdot(g, d) for g, d in zip(gradient, direction, strict=True))
        assert np.isclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("kernel", "d"), [(SE, 5), (Matern(0.5), 3)])
def test_gradients_in_simulations_agree_with_finite_differences(kernel, d):
    y, x, w = normal((9, d), (14, d), 9)
    assert_gradient_agrees_with_finite_differences(
        lambda y: squared_mmd(kernel, y, x, w, data_term=0.0), y
    )


def test_gradients_in_all_arguments_agree_with_finite_differences():
    y, x, w, v = normal((9, 3), (14, 3), 9, 14)

    def value(y, x, w, v, lengthscale, factor):
        kernel = factor * SquaredExponential(lengthscale) + 1.0
        return squared_mmd(kernel, y, x, w, weights_x=v)

    assert_gradient_agrees_with_finite_differences(value, y, x, w, v, np.ones(3), 2.0)


def test_gradients_of_the_u_statistic_agree_with_finite_differences():
    y, x = normal((9, 3), (14, 3))
    assert_gradient_agrees_with_finite_differences(
        lambda y: squared_mmd(Matern(1.5), y, x, unbiased=True), y
    )


def test_gradients_are_finite_where_points_coincide():
    y = np.zeros((9, 3))
    gradient = jax.jit(jax.grad(lambda y: squared_mmd(Matern(0.5), y, y + 0.0, data_term=0.0)))(y)
    assert np.isfinite(gradient).all()
