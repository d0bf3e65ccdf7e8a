"""Problems of independent numbers that are smooth in theta."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.scipy.stats import multivariate_normal, norm
from jaxtyping import Array, Float

from owlfi import models
from owlfi.experiments.likelihoods import g_and_k_log_likelihood
from owlfi.experiments.trust.case import Case, by_formula, by_search, make_simulator
from owlfi.measures import Exponential, Normal, Uniform
from owlfi.points.sequences import iid, sobol
from owlfi.problem.rules import OptimallyWeighted, VStatistic
from owlfi.problem.simulator import Simulator


@cache
def two_scales() -> Simulator:
    """Two columns of which one has a million times the size of the other."""
    return make_simulator(
        lambda theta, u: theta[:2][None] * (1 + theta[2] * u),
        Normal(dim=2),
        small=Uniform(0, 0.01),
        large=Uniform(0, 10_000),
        spread=Uniform(0.01, 1),
    )


def two_scales_log_likelihood(theta: Float[Array, " 3"], x: Float[Array, "n 2"]) -> Array:
    """Normal columns."""
    return norm.logpdf(x, theta[:2][None], theta[2] * theta[:2][None]).sum()


@cache
def copula() -> Simulator:
    """y = exp(mu + sigma z), three equally correlated normal z by their symmetric root."""

    def generate(theta: Array, u: Array) -> Array:
        mean = u.mean(1, keepdims=True)
        z = jnp.sqrt(1 - theta[2]) * (u - mean) + jnp.sqrt(1 + 2 * theta[2]) * mean
        return jnp.exp(theta[0] + theta[1] * z)

    return make_simulator(
        generate, Normal(dim=3), mu=Uniform(-2, 2), sigma=Uniform(0.1, 2), rho=Uniform(-0.45, 0.95)
    )


def copula_log_likelihood(theta: Float[Array, " 3"], x: Float[Array, "n 3"]) -> Array:
    """Of the logarithms, which are normal."""
    correlation = (1 - theta[2]) * jnp.eye(3) + theta[2]
    z = (jnp.log(x) - theta[0]) / theta[1]
    each = multivariate_normal.logpdf(z, jnp.zeros_like(z), correlation[None])
    return jnp.sum(each) - z.size * jnp.log(theta[1])


@cache
def shifted_log_normal() -> Simulator:
    """y = theta_1 + exp(theta_2 + theta_3 z): a long ridge, since it is almost normal."""
    return make_simulator(
        lambda theta, u: theta[0] + jnp.exp(theta[1] + theta[2] * u),
        Normal(),
        theta_1=Uniform(-10, 10),
        theta_2=Uniform(-3, 3),
        theta_3=Uniform(0.01, 2),
    )


def fit_shifted_log_normal(x: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, " 3"]:
    """By the profile of the shift; not at the least number, where the likelihood is infinite."""

    def logs(gap: float) -> np.ndarray:
        return np.log(x - x.min() + np.exp(gap))

    def loss(gap: float) -> float:
        return len(x) * np.log(logs(gap).std()) + logs(gap).sum()

    least, most = np.log(1e-3 * np.ptp(x)), np.log(10 + x.min())
    grid, step = np.linspace(least, most, 200, retstep=True)
    best = grid[np.argmin([loss(gap) for gap in grid])]
    near = best - step, min(best + step, most)
    gap = scipy.optimize.minimize_scalar(loss, bounds=near, method="bounded").x
    return np.array([x.min() - np.exp(gap), logs(gap).mean(), logs(gap).std()])


@cache
def tiny_units() -> Simulator:
    """Waiting times in microseconds, and a prior that reaches a hundred times too far."""
    return make_simulator(lambda theta, u: theta[0] * u, Exponential(), scale=Uniform(0, 1e-4))


@cache
def small_scale() -> Simulator:
    """y = scale z."""
    return make_simulator(lambda theta, u: theta[0] * u, Normal(), scale=Uniform(0, 1))


@cache
def mean_at_a_bound() -> Simulator:
    """y = mean + sd z, the mean not negative."""
    return make_simulator(
        lambda theta, u: theta[0] + theta[1] * u, Normal(), mean=Uniform(0, 1), sd=Uniform(0, 1)
    )


def fit_mean_at_a_bound(x: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, " 2"]:
    """With the deviation around the mean that is possible."""
    mean = x.mean().clip(0, 1)
    return np.array([mean, np.sqrt(((x - mean) ** 2).mean())])


@cache
def skew_normal() -> Simulator:
    """y = location + scale (delta |z| + √(1 - delta²) z'), delta = shape / √(1 + shape²)."""

    def generate(theta: Array, u: Array) -> Array:
        tail, rest = theta[2], jnp.sqrt(1 + theta[2] ** 2)
        return theta[0] + theta[1] * (tail * jnp.abs(u[:, 0]) + u[:, 1]) / rest

    return make_simulator(
        generate,
        Normal(dim=2),
        location=Uniform(-5, 5),
        scale=Uniform(0.1, 5),
        shape=Uniform(0, 10),
    )


def skew_normal_log_likelihood(theta: Float[Array, " 3"], x: Float[Array, "n 1"]) -> Array:
    """Azzalini's density 2 φ(z) Φ(shape z) / scale."""
    z = (x - theta[0]) / theta[1]
    return (norm.logpdf(z) + norm.logcdf(theta[2] * z) - jnp.log(theta[1] / 2)).sum()


SMOOTH = {
    "g-and-k": Case(
        models.g_and_k, (3.0, 1.0, 0.5, 0.2), 200, reference=by_search(g_and_k_log_likelihood)
    ),
    "bivariate beta": Case(models.bivariate_beta, (1.0,) * 5, 200),
    "two scales": Case(
        two_scales, (1e-3, 1e3, 0.2), 100, reference=by_search(two_scales_log_likelihood)
    ),
    "log-normal copula": Case(
        copula,
        (0.5, 0.7, 0.4),
        200,
        OptimallyWeighted(m=256),
        whiten=True,
        reference=by_search(copula_log_likelihood),
    ),
    "shifted log-normal": Case(
        shifted_log_normal,
        (1.0, 0.5, 0.25),
        100,
        reference=by_formula(fit_shifted_log_normal),
        doubt="a ridge that reaches the end of the prior",
    ),
    "exponential, 1e-6": Case(
        tiny_units, (1e-6,), 20, VStatistic(64, sobol), reference=by_formula(lambda x: x.mean(0))
    ),
    "small scale": Case(
        small_scale, (0.02,), 50, reference=by_formula(lambda x: np.sqrt((x**2).mean(0)))
    ),
    "mean at a bound": Case(
        mean_at_a_bound,
        (0.02, 0.5),
        50,
        VStatistic(256, iid),
        reference=by_formula(fit_mean_at_a_bound),
        doubt="a truth within a standard error of the end of the prior",
    ),
    "skew normal": Case(
        skew_normal,
        (1.0, 2.0, 2.0),
        20_000,
        VStatistic(64, sobol),
        reference=by_search(skew_normal_log_likelihood),
        doubt="far fewer points than observations",
    ),
}
