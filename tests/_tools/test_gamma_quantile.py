"""The gamma quantile and its derivatives against mpmath."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi._tools.gamma_quantile import gamma_quantile

EXPONENTIALS = np.array([1e-12, 1e-4, 0.05, 0.4, 0.69, 0.7, 1.5, 6.0, 36.0, 300.0])
value = jax.jit(gamma_quantile)
slopes = jax.jit(jax.vmap(jax.grad(gamma_quantile, argnums=(0, 1))))


def newton_correction(shape, x, e):
    """How far x is from the quantile, relative to it: one exact Newton step."""
    x, e = mpmath.mpf(float(x)), mpmath.mpf(float(e))
    if e < 0.7:
        gap = mpmath.gammainc(shape, 0, x, regularized=True) + mpmath.expm1(-e)
    else:
        gap = mpmath.exp(-e) - mpmath.gammainc(shape, x, mpmath.inf, regularized=True)
    density = x ** (shape - 1) * mpmath.exp(-x) / mpmath.gamma(shape)
    return float(gap / density / x)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 1.7, 20.0, 300.0, 1000.0])
def test_quantile_has_the_survival_probability_asked_for(shape):
    with mpmath.workdps(40):
        x = value(jnp.full(len(EXPONENTIALS), shape), EXPONENTIALS)
        corrections = [newton_correction(shape, a, e) for a, e in zip(x, EXPONENTIALS, strict=True)]
    assert_allclose(corrections, 0.0, atol=1e-13)


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.2])
def test_derivatives_are_those_of_the_implicit_function(shape):
    e = np.array([0.01, 0.5, 1.0, 5.0])
    by_shape, by_e = slopes(jnp.full(4, shape), e)
    h = 1e-5
    across_shape = (value(jnp.full(4, shape + h), e) - value(jnp.full(4, shape - h), e)) / (2 * h)
    across_e = (value(jnp.full(4, shape), e + h * e) - value(jnp.full(4, shape), e - h * e)) / (
        2 * h * e
    )
    assert_allclose(by_shape, across_shape, rtol=1e-6)
    assert_allclose(by_e, across_e, rtol=1e-6)


@pytest.mark.parametrize("shape", [0.05, 1.0, 2.0, 7.0, 30.0, 200.0])
def test_derivative_by_shape_is_that_of_the_integral(shape):
    e = np.array([1e-3, 0.6, 0.8, 30.0])
    x = value(jnp.full(len(e), shape), e)
    by_shape, _ = slopes(jnp.full(len(e), shape), e)
    with mpmath.workdps(30):
        expected = [implicit_slope(shape, mpmath.mpf(float(at))) for at in x]
    assert_allclose(by_shape, expected, rtol=1e-9)


def implicit_slope(shape, x):
    """-(∂P/∂shape) / density at x."""
    above = mpmath.diff(lambda a: mpmath.gammainc(a, x, mpmath.inf, regularized=True), shape)
    return float(above * mpmath.gamma(shape) * mpmath.exp(x) / x ** (shape - 1))


def test_unit_shape_is_the_exponential_itself():
    assert np.array_equal(value(jnp.ones(len(EXPONENTIALS)), EXPONENTIALS), EXPONENTIALS)
