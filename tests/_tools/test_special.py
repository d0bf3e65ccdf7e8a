"""Special functions against mpmath, over wide ranges, with derivatives that stay finite."""

import inspect
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi._tools.special import (
    bernoulli_polynomial,
    erfcx,
    exponential_moment,
    gaussian_moments,
    log_ndtr_difference,
    lower_gamma,
    safe_sqrt,
    scaled_bessel_k,
)

mp = mpmath.MPContext()
mp.dps = 60
SWITCHES = [1.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 12.0]  # where the formulas behind change
POSITIVE = np.concatenate([[0.0], np.geomspace(1e-12, 1e4, 41), SWITCHES])
REAL = np.concatenate([-POSITIVE[1:], POSITIVE])


def exactly(function, *arguments):
    """A function of mpmath numbers at arrays of doubles."""
    points = zip(*map(np.ravel, arguments), strict=True)
    return np.array([float(function(*map(mp.mpf, point))) for point in points])


@lru_cache
def compile_with_slopes(function):
    """The function and its elementwise derivatives in each argument, compiled once a shape."""
    arguments = range(len(inspect.signature(function).parameters))
    return jax.jit(function), jax.jit(jax.grad(lambda *xs: function(*xs).sum(), arguments))


def values(function, *arguments):
    return np.asarray(compile_with_slopes(function)[0](*map(jnp.asarray, arguments)))


def slopes(function, *arguments):
    return [
        np.asarray(slope)
        for slope in compile_with_slopes(function)[1](*map(jnp.asarray, arguments))
    ]


# erfcx


def test_erfcx():
    expected = exactly(lambda x: mp.exp(x**2) * mp.erfc(x), POSITIVE)
    assert_allclose(values(erfcx, POSITIVE), expected, rtol=1e-14)


def test_slope_of_erfcx():
    expected = exactly(lambda x: 2 * x * mp.exp(x**2) * mp.erfc(x) - 2 / mp.sqrt(mp.pi), POSITIVE)
    assert_allclose(slopes(erfcx, POSITIVE)[0], expected, rtol=1e-14, atol=1e-15)


# Incomplete gamma functions

GAMMAS = {order: partial(lower_gamma, order) for order in (1, 5)}
MOMENTS = {order: partial(exponential_moment, order) for order in (0, 3)}
gammas = pytest.mark.parametrize(("order", "function"), GAMMAS.items())
moments = pytest.mark.parametrize(("order", "function"), MOMENTS.items())


@gammas
def test_lower_gamma(order, function):
    expected = exactly(lambda t: mp.gammainc(order, 0, t), POSITIVE)
    assert_allclose(values(function, POSITIVE), expected, rtol=1e-14)


@gammas
def test_slope_of_lower_gamma(order, function):
    expected = exactly(lambda t: t ** (order - 1) * mp.exp(-t), POSITIVE)
    assert_allclose(slopes(function, POSITIVE)[0], expected, rtol=1e-11, atol=1e-14)


def moment(order, x):
    """e^{-max(0, -x)} ∫_0^1 t^order e^{-x t} dt."""
    if x > 0:
        return mp.gammainc(order + 1, 0, x) / x ** (order + 1)
    return mp.exp(x) * mp.hyp1f1(order + 1, order + 2, -x) / (order + 1)


@moments
def test_exponential_moment(order, function):
    expected = exactly(lambda x: moment(order, x), REAL)
    assert_allclose(values(function, REAL), expected, rtol=1e-14)


@moments
def test_slope_of_exponential_moment(order, function):
    def slope(x):
        return (moment(order, x) if x < 0 else 0) - moment(order + 1, x)

    smooth = REAL != 0
    expected = exactly(slope, REAL)[smooth]
    assert_allclose(slopes(function, REAL)[0][smooth], expected, rtol=1e-11, atol=1e-14)


# Gaussian integrals

TILT, OFFSET = (
    grid.ravel()
    for grid in np.meshgrid(
        [1e-3, 0.1, 1.0, 3.0, 10.0, 1e3],
        [-40.0, -10.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 2.0, 10.0, 40.0],
    )
)


def three_moments(tilt, d):
    return jnp.stack(gaussian_moments(3, tilt, d))


def gaussian_moment(j, tilt, d):
    """φ(d) ∫ s^j exp(-(tilt + d) s - s²/2) ds, by the parabolic cylinder function."""
    scale = mp.exp((tilt + d) ** 2 / 4 - d**2 / 2) / mp.sqrt(2 * mp.pi)
    return mp.factorial(j) * scale * mp.pcfd(-j - 1, tilt + d)


@pytest.mark.parametrize("j", [0, 1, 2, 3])
def test_gaussian_moments(j):
    expected = exactly(lambda tilt, d: gaussian_moment(j, tilt, d), TILT, OFFSET)
    assert_allclose(values(three_moments, TILT, OFFSET)[j], expected, rtol=1e-12, atol=1e-300)


def first_moment(tilt, d):
    return gaussian_moments(1, tilt, d)[1]


def test_slopes_of_gaussian_moments():
    in_tilt = exactly(lambda tilt, d: -gaussian_moment(2, tilt, d), TILT, OFFSET)
    own = exactly(lambda tilt, d: -d * gaussian_moment(1, tilt, d), TILT, OFFSET)
    actual = slopes(first_moment, TILT, OFFSET)
    assert_allclose(actual[0], in_tilt, rtol=1e-9, atol=1e-12)
    assert_allclose(actual[1], in_tilt + own, rtol=1e-9, atol=1e-12)


# Normal probabilities

INTERVALS = {
    "around the mean": [(-1, 1), (-0.3, 2), (-8, 0.5), (-0.5, 8), (-30, 30)],
    "upper tail": [(1, 2), (4, 5), (8, 20), (30, 31), (1000, 1001)],
    "lower tail": [(-2, -1), (-20, -8), (-31, -30), (-101, -100), (-1001, -1000)],
    "narrow": [(0, 1e-10), (1, 1 + 1e-12), (-1e-9, 1e-9), (-30, -29.999), (40, 40.01)],
    "unbounded above": [(low, np.inf) for low in (-50, -1, 0, 4, 30)],
    "unbounded below": [(-np.inf, high) for high in (np.inf, 2, 0, -4, -30)],
}
intervals = pytest.mark.parametrize("ends", INTERVALS.values(), ids=INTERVALS)


def log_probability(low, high):
    low, high = (-high, -low) if low > 0 else (low, high)
    return mp.log(mp.ncdf(high) - mp.ncdf(low))


@intervals
def test_log_ndtr_difference(ends):
    low, high = np.array(ends, float).T
    expected = exactly(log_probability, low, high)
    assert_allclose(values(log_ndtr_difference, low, high), expected, rtol=3e-16, atol=1e-12)


@intervals
def test_slopes_of_log_ndtr_difference(ends):
    low, high = np.array(ends, float).T
    in_low = exactly(lambda a, b: -mp.npdf(a) / mp.exp(log_probability(a, b)), low, high)
    in_high = exactly(lambda a, b: mp.npdf(b) / mp.exp(log_probability(a, b)), low, high)
    actual = slopes(log_ndtr_difference, low, high)
    assert_allclose(actual[0], in_low, rtol=1e-10, atol=1e-300)
    assert_allclose(actual[1], in_high, rtol=1e-10, atol=1e-300)


# Bessel functions


def scaled_bessel(order, t2):
    if t2 == 0:
        return mp.gamma(order) * mp.mpf(2) ** (order - 1)
    t = mp.sqrt(t2)
    return t**order * mp.besselk(order, t)


ORDERS = [0.05, 1.2, 2.5, 10.0]


SQUARES = np.concatenate([[0.0], np.geomspace(1e-12, 4e5, 25)])


@pytest.mark.parametrize("order", ORDERS)
def test_scaled_bessel_k(order):
    expected = exactly(lambda t2: scaled_bessel(mp.mpf(order), t2), SQUARES)
    assert_allclose(values(partial(scaled_bessel_k, order), SQUARES), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [0.01, 0.3, 1.0, 1.0001, 2.7, 20.0, 99.7])
def test_scaled_bessel_k_next_to_zero(order):
    tiny = np.append(np.geomspace(1e-300, 1e-12, len(SQUARES) - 1), 1.0)
    expected = exactly(lambda t2: scaled_bessel(mp.mpf(order), t2), tiny)
    actual = values(partial(scaled_bessel_k, order), tiny)
    assert_allclose(actual, expected, rtol=2e-13)
    assert (actual <= scaled_bessel_k(order, jnp.array(0.0))).all()


@pytest.mark.parametrize("order", [1.2, 2.5])
def test_slope_of_scaled_bessel_k_is_the_order_below(order):
    expected = exactly(lambda t2: -scaled_bessel(mp.mpf(order) - 1, t2) / 2, SQUARES)
    assert_allclose(slopes(partial(scaled_bessel_k, order), SQUARES)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("order", [0.5, 1.0])
def test_scaled_bessel_k_has_a_finite_slope_where_it_has_a_kink(order):
    assert np.isfinite(slopes(partial(scaled_bessel_k, order), SQUARES)[0]).all()


@pytest.mark.parametrize("order", [1.2, 2.5])
def test_scaled_bessel_k_vanishes_far_away(order):
    far = np.geomspace(1e7, 1e200, len(SQUARES))
    assert np.array_equal(values(partial(scaled_bessel_k, order), far), np.zeros(len(far)))


# The rest


@pytest.mark.parametrize("degree", [1, 2, 4, 9, 10])
def test_bernoulli_polynomial(degree):
    x = np.linspace(0, 1, 13)
    expected = exactly(lambda x: mp.bernpoly(degree, x), x)
    largest = np.abs(expected).max()
    assert_allclose(
        values(partial(bernoulli_polynomial, degree), x), expected, rtol=1e-14, atol=1e-15 * largest
    )


def test_safe_sqrt_is_flat_at_zero():
    x = jnp.array([0.0, 4.0])
    assert_allclose(safe_sqrt(x), [0.0, 2.0])
    assert_allclose(slopes(safe_sqrt, x)[0], [0.0, 0.25])
