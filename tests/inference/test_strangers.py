"""Simulators that nothing here was made for: no estimate is far off without a word."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import owlfi
from owlfi import Exponential, Normal, Prior, Problem, Product, Simulator, Uniform

pytestmark = pytest.mark.slow
RULE = owlfi.OptimallyWeighted(m=128)
DATA_SETS = 3
FAR = 5.0  # standard errors


def small_shape(theta, rng):
    return [theta[1] * rng.gamma(theta[0])]


def censored(theta, rng):
    time = theta[1] * rng.weibull(theta[0])
    return [min(time, 2.0), float(time <= 2.0)]


def grow(theta, u):
    times = jnp.linspace(1, 10, 8)
    curve = theta[1] / (1 + (10 * theta[1] - 1) * jnp.exp(-theta[0] * times))
    return curve[None] * jnp.exp(theta[2] * u)


def regress(theta, u):
    return jnp.stack([u[:, 0], theta[0] + theta[1] * u[:, 0] + theta[2] * u[:, 1]], 1)


def oscillate(theta, u):
    return theta[1] * jnp.sin(theta[0] * jnp.arange(20.0) + 0.5)[None] + 0.5 * u


def stable(theta, u):
    angle, a = jnp.pi * (u[:, 0] - 0.5), theta[0]
    tail = (jnp.cos(angle - a * angle) / u[:, 1]) ** ((1 - a) / a)
    draws = jnp.sin(a * angle) / jnp.cos(angle) ** (1 / a) * tail
    return (theta[1] + theta[2] * draws)[:, None]


def switch_wells(theta, u):
    def step(x, noise):
        x = x + 0.1 * (theta[0] * x - x**3) + theta[1] * jnp.sqrt(0.1) * noise
        return x, x

    return jax.lax.scan(step, jnp.full(len(u), 0.1), u.T)[1].T[:, 4::5]


def shift_and_scale(theta, u):
    return theta[0] + theta[1] * u


def from_random(function, **prior):
    return Simulator.from_random(function, list(prior), prior=Prior(**prior))


def of_noise(function, noise, **prior):
    return Simulator(function, noise, list(prior), prior=Prior(**prior))


WIDE = {"mean": Uniform(-100, 100), "sd": Uniform(0.01, 50)}
STRANGERS = {
    "gamma of small shape": (
        partial(from_random, small_shape, shape=Uniform(0.05, 5), scale=Uniform(0.1, 10)),
        (0.3, 2.0),
        100,
    ),
    "censored Weibull": (
        partial(from_random, censored, shape=Uniform(0.3, 5), scale=Uniform(0.2, 8)),
        (1.5, 1.8),
        150,
    ),
    "growth": (
        partial(
            of_noise,
            grow,
            Normal(dim=8),
            rate=Uniform(0.1, 3),
            capacity=Uniform(1, 100),
            sd=Uniform(0.01, 1),
        ),
        (0.9, 20.0, 0.15),
        40,
    ),
    "regression": (
        partial(
            of_noise,
            regress,
            Normal(dim=2),
            a=Uniform(-10, 10),
            b=Uniform(-10, 10),
            sd=Uniform(0.05, 5),
        ),
        (1.0, -2.0, 0.4),
        50,
    ),
    "frequency": (
        partial(of_noise, oscillate, Normal(dim=20), w=Uniform(0.1, 3), a=Uniform(0.1, 5)),
        (1.7, 2.0),
        50,
    ),
    "stable": (
        partial(
            of_noise,
            stable,
            Product(Uniform(), Exponential()),
            alpha=Uniform(1.05, 1.98),
            place=Uniform(-10, 10),
            scale=Uniform(0.1, 10),
        ),
        (1.5, 1.0, 2.0),
        200,
    ),
    "log-normal, prior far too wide": (
        partial(
            of_noise,
            lambda theta, u: jnp.exp(shift_and_scale(theta, u)),
            Normal(),
            mu=Uniform(-50, 50),
            sigma=Uniform(0.01, 30),
        ),
        (1.0, 0.5),
        100,
    ),
    "two wells": (
        partial(of_noise, switch_wells, Normal(dim=50), a=Uniform(-2, 4), sd=Uniform(0.1, 1.5)),
        (1.0, 0.5),
        80,
    ),
    "cut at 0": (
        partial(
            of_noise,
            lambda theta, u: jnp.maximum(0.0, shift_and_scale(theta, u)),
            Normal(),
            mean=Uniform(-5, 5),
            sd=Uniform(0.1, 5),
        ),
        (-0.3, 1.0),
        150,
    ),
    "rounded": (
        partial(
            of_noise,
            lambda theta, u: np.round(shift_and_scale(theta, np.asarray(u))),
            Normal(),
            mean=Uniform(-20, 20),
            sd=Uniform(0.2, 5),
        ),
        (1.3, 0.6),
        150,
    ),
    "five rows": (partial(of_noise, shift_and_scale, Normal(), **WIDE), (3.0, 2.0), 5),
    "fifty thousand rows": (
        partial(of_noise, shift_and_scale, Normal(), **WIDE),
        (3.0, 2.0),
        50_000,
    ),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_no_estimate_is_far_off_without_a_word(name):
    make, theta, n = STRANGERS[name]
    model, truth = make(), np.array(theta)
    for key in jax.random.split(jax.random.key(5), DATA_SETS):
        data_key, fit_key = jax.random.split(key)
        x = model(truth, model.measure.sample(data_key, n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", owlfi.HealthWarning)
            estimate = owlfi.minimum_distance(fit_key, Problem(model, x), RULE)
        found, (low, high) = np.asarray(estimate.theta), estimate.interval(0.9)
        half = np.where(truth > found, np.asarray(high) - found, found - np.asarray(low))
        assert estimate.warnings or (np.abs(truth - found) < FAR * half / 1.645).all()
