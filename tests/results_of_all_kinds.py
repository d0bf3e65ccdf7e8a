"""A result of every kind, made by hand."""

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from owlfi import (
    Calibration,
    Comparison,
    Estimate,
    HypothesisTest,
    Posterior,
    PredictiveCheck,
)

NAMES = ("rate", "scale")
WILD = '<script>alert("x")</script> & "a name"'


def make_estimate(**options):
    theta, trace = jnp.array([1.5, 200.0]), jnp.linspace(0.0, 1.0, 20)[:, None]
    way = {"trace_thetas": trace * theta[None], "trace_values": trace[::-1, 0]}
    return Estimate(
        NAMES, theta, jnp.diag(jnp.array([0.04, 9.0])), jnp.array(0.01), 512, **way, **options
    )


def make_posterior(p=2, **options):
    draws = np.random.default_rng(0).normal(size=(400, p)) @ (np.eye(p) + 0.3)
    names = tuple(f"theta_{j}" for j in range(p))
    about = {"method": "ABC", "threshold": 0.01}
    return Posterior(names, jnp.asarray(draws), jnp.full(400, 1 / 400), 1000, 2, about, **options)


def make_test(**options):
    null = jnp.asarray(np.random.default_rng(1).gamma(3.0, 0.002, 200))
    model = {"names": NAMES, "theta": jnp.array([1.0, 2.0]), "calls": 99, "about": {"failed": 1}}
    return HypothesisTest(0.02, 0.01, 0.015, 0.05, null, **model, **options)


def make_calibration(**options):
    rng = np.random.default_rng(2)
    theta, z = rng.normal(size=(100, 2)), 1.3 * rng.normal(size=(100, 2))
    parts = (jnp.asarray(each) for each in (theta, ndtr(z), z, theta - z, np.ones((100, 2))))
    joint = jnp.asarray(rng.uniform(size=100))
    about = {"method": "calibration of minimum_distance", "failed": 2, "warned": 3}
    return Calibration(NAMES, *parts, joint, prior_sd=jnp.full(2, 5.0), about=about, **options)


def make_check(d=3, **options):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, d)), rng.normal(size=(20, 60, d))
    statistics = jnp.asarray(rng.gamma(2.0, 0.01, (99, 2)))
    parts = (
        jnp.array([0.05, 2.0]),
        statistics,
        jnp.array([0.03, 0.6]),
        jnp.asarray(x),
        jnp.asarray(y),
    )
    scores, columns = jnp.asarray(rng.normal(size=60)), jnp.asarray(rng.uniform(size=d))
    return PredictiveCheck(("squared MMD", "largest"), *parts, scores, columns, 2000, **options)


def make_comparison(**options):
    p = jnp.array([[1.0, 0.01, 0.3], [0.01, 1.0, 0.02], [0.3, 0.02, 1.0]])
    parts = jnp.array([0.01, 0.06, 0.005]), jnp.array([0.004, 0.01, 0.003]), p
    about = {"method": "comparison of models", "estimates": {"a": {"x": 1.0}}}
    return Comparison(
        ("normal", "a long name of a model", "g-and-k"), *parts, calls=7, about=about, **options
    )


def make_efficient_estimate():
    chances = jnp.asarray(np.random.default_rng(4).uniform(size=30)).at[7].set(1e-9)
    left_out = jnp.zeros(30).at[7].set(1.0)
    known = {"chances": chances, "left_out": left_out, "influence": jnp.full((2, 30), 0.1)}
    return make_estimate(mass=0.97, mass_error=0.001, misfit=0.4, **known)


RESULTS = {
    "estimate": make_estimate(),
    "efficient estimate": make_efficient_estimate(),
    "posterior": make_posterior(),
    "posterior of many": make_posterior(9),
    "test": make_test(),
    "calibration": make_calibration(),
    "check": make_check(),
    "check of a series": make_check(40),
    "comparison": make_comparison(),
    "doubtful": make_posterior(warnings=("2 < 3 draws; draw more", WILD)),
}
