"""Learned coordinates: the directions of the noise that k sees."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

import owlfi
from owlfi.measures import Rotated

KEY = jax.random.key(6)
SLOPES = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 2)))[0] * [3.0, 1.0]
NOISE = owlfi.Normal(dim=30)
K = owlfi.SquaredExponential(3.0)


def linear(theta, u):
    return theta[0] * (u @ jnp.asarray(SLOPES))


def linear_on_the_host(theta, u):
    return float(theta[0]) * (np.asarray(u) @ SLOPES)


def learn(function, noise=NOISE, k=K, **options):
    model = owlfi.Simulator(function, noise, ["scale"])
    return owlfi.learn_coordinates(KEY, model, k, [1.0], **options)


def leading_space(measure, r=2):
    vectors = measure.rotation.directions[:, :r]
    return vectors @ vectors.T


def test_derivatives_find_the_space_of_a_linear_model_exactly():
    measure, calls = learn(linear)
    assert calls == 256
    expected = SLOPES @ np.diag([1 / 9, 1.0]) @ SLOPES.T
    assert_allclose(leading_space(measure), expected, atol=1e-10)
    assert_allclose(measure.shares, [0.9, 0.1], atol=1e-10)


def test_regression_on_the_host_finds_the_same_space():
    measure, calls = learn(linear_on_the_host, rows=1024)
    assert calls == 1024
    cosines = np.linalg.svd(measure.rotation.directions[:, :2].T @ SLOPES / [3.0, 1.0])[1]
    assert (cosines > 0.98).all()  # sines are about √(s / rows) times what is not linear


def test_noise_that_is_not_normal_goes_through_its_scores():
    noise = owlfi.Product(owlfi.Uniform(dim=15), owlfi.Exponential(dim=15))
    measure, _ = learn(lambda theta, u: u[:, 3:4] + u[:, 20:21], noise)
    ahead = np.abs(measure.rotation.directions[[3, 20]])
    assert_allclose((ahead**2).sum(0)[0], 1.0, atol=1e-10)


def test_large_slopes_where_k_has_saturated_do_not_mislead():
    def two_modes(theta, u):  # a jump along one direction, a slope along another
        return (50 * jnp.tanh(20 * u[:, 0]) + u[:, 1])[:, None]

    measure, _ = learn(two_modes, k=owlfi.SquaredExponential(1.0))
    shares = measure.rotation.directions[:2] ** 2 @ np.asarray(measure.shares)
    assert shares[1] > 0.3


def test_nothing_is_rotated_where_the_noise_explains_nothing():
    def scramble(theta, u):
        return np.modf(1e4 * np.abs(np.sin(1e4 * np.asarray(u).sum(1))))[0][:, None]

    assert not isinstance(learn(scramble, k=owlfi.SquaredExponential(0.3)).measure, Rotated)
    assert not isinstance(learn(lambda theta, u: 0 * u[:, :1] + 1).measure, Rotated)
