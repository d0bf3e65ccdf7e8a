"""Problems that jump in theta: counts by their quantiles, and a share that switches rows."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.special import gammaln, xlogy
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from owlfi.experiments.trust.case import Case, by_formula, by_search, make_simulator
from owlfi.measures import Normal, Product, Uniform
from owlfi.points.sequences import iid, sobol
from owlfi.problem.rules import VStatistic
from owlfi.problem.simulator import Simulator

LEVELS = Uniform(0, 1)
Counts = Float[np.ndarray, "m 1"]
_INSIDE = 1e-12, 1 - 1e-12  # the ends have no count


@cache
def poisson() -> Simulator:
    """Counts of one rate."""
    return make_simulator(_draw_poisson, LEVELS, on_host=True, rate=Uniform(0.5, 10))


def _draw_poisson(theta: Float[np.ndarray, " 1"], u: Counts) -> Counts:
    return scipy.stats.poisson.ppf(u.clip(*_INSIDE), theta[0])


@cache
def negative_binomial() -> Simulator:
    """Counts of a mean, and a size that says how far they scatter: variance mean + mean² / size."""
    return make_simulator(
        _draw_negative_binomial, LEVELS, on_host=True, mean=Uniform(0.5, 20), size=Uniform(0.2, 10)
    )


def _draw_negative_binomial(theta: Float[np.ndarray, " 2"], u: Counts) -> Counts:
    mean, size = theta
    return scipy.stats.nbinom.ppf(u.clip(*_INSIDE), size, size / (size + mean))


def negative_binomial_log_likelihood(theta: Float[Array, " 2"], x: Float[Array, "n 1"]) -> Array:
    """Up to a constant."""
    mean, size = theta
    ways = gammaln(x + size) - gammaln(size)
    return (ways + size * jnp.log(size / (size + mean)) + x * jnp.log(mean / (size + mean))).sum()


@cache
def inflated_poisson() -> Simulator:
    """Poisson counts among which a share is 0 for another reason."""
    return make_simulator(
        _draw_inflated, LEVELS, on_host=True, share=Uniform(0, 1), rate=Uniform(0.5, 15)
    )


def _draw_inflated(theta: Float[np.ndarray, " 2"], u: Counts) -> Counts:
    share, rate = theta
    levels = ((u - share) / (1 - share)).clip(*_INSIDE)
    return np.where(u < share, 0.0, scipy.stats.poisson.ppf(levels, rate))


def inflated_poisson_log_likelihood(theta: Float[Array, " 2"], x: Float[Array, "n 1"]) -> Array:
    """Up to a constant."""
    share, rate = theta
    none = jnp.log(share + (1 - share) * jnp.exp(-rate))
    return jnp.where(x == 0, none, jnp.log(1 - share) + xlogy(x, rate) - rate).sum()


@cache
def two_modes() -> Simulator:
    """Normal numbers around one of two places; in JAX, where the slope by the share is 0."""

    def generate(theta: Array, u: Array) -> Array:
        place = jnp.where(u[:, :1] < theta[0], theta[1], theta[2])
        return place + theta[3] * u[:, 1:]

    return make_simulator(
        generate,
        Product(Uniform(0, 1), Normal()),
        share=Uniform(0, 1),
        low=Uniform(-5, 0),
        high=Uniform(0, 5),
        sd=Uniform(0.1, 3),
    )


def two_modes_log_likelihood(theta: Float[Array, " 4"], x: Float[Array, "n 1"]) -> Array:
    """That of the mixture."""
    share, low, high, sd = theta
    parts = jnp.log(share) + norm.logpdf(x, low, sd), jnp.log1p(-share) + norm.logpdf(x, high, sd)
    return jnp.logaddexp(*parts).sum()


COUNTS = {
    "Poisson": Case(poisson, (4.0,), 100, reference=by_formula(lambda x: x.mean(0))),
    "negative binomial": Case(
        negative_binomial,
        (5.0, 1.5),
        200,
        VStatistic(64, sobol),
        reference=by_search(negative_binomial_log_likelihood),
    ),
    "zero-inflated Poisson": Case(
        inflated_poisson,
        (0.3, 3.0),
        100,
        VStatistic(256, iid),
        reference=by_search(inflated_poisson_log_likelihood),
    ),
    "two modes": Case(
        two_modes, (0.3, -2.0, 2.0, 0.7), 200, reference=by_search(two_modes_log_likelihood)
    ),
}
