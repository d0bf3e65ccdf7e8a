"""Problems whose rows are series, or come from one."""

from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
from jax.scipy.stats import multivariate_normal, norm
from jaxtyping import Array, Float

from owlfi import models
from owlfi.experiments.likelihoods import moving_average_log_likelihood
from owlfi.experiments.ou_and_ricker import (
    OU_TRUTH,
    RICKER_TRUTH,
    ROWS,
    ornstein_uhlenbeck,
    process_maximum_likelihood,
    ricker,
    summarise_counts,
)
from owlfi.experiments.trust.case import Case, by_formula, by_search, make_simulator
from owlfi.measures import Normal, Uniform
from owlfi.points.sequences import iid, sobol
from owlfi.problem.rules import OptimallyWeighted, VStatistic
from owlfi.problem.simulator import Simulator

_PEOPLE, SIR_STEPS = 1000.0, 50
_SWITCH_STEPS = 50
_OU_DT, _OU_LENGTH = 0.2, 25
_AR_LENGTH = 50


@cache
def epidemic() -> Simulator:
    """SIR by the Langevin equation in 50 steps, the infected of every fifth; d = 10, s = 100."""
    noise = Normal(dim=2 * SIR_STEPS)
    return make_simulator(spread_illness, noise, beta=Uniform(0.5, 3), gamma=Uniform(0.1, 1.5))


def spread_illness(
    theta: Float[Array, " 2"],
    u: Float[Array, "m s"],
    *,
    first: float = 20.0,
    dt: float = 0.2,
    bounded: bool = False,
) -> Float[Array, "m d"]:
    """A step infects h + √h z, h = beta S I dt / N, and as many recover with h = gamma I dt.

    first: the number of infected at the beginning.
    bounded: whether neither is negative, nor more than there are.
    """

    def draw(expected: Array, z: Array, most: Array) -> Array:
        h = jnp.maximum(expected * dt, 1e-8)
        drawn = h + jnp.sqrt(h) * z
        return jnp.clip(drawn, 0.0, most) if bounded else drawn

    def step(state: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], Array]:
        well, ill = state
        infected = draw(theta[0] * well * ill / _PEOPLE, z[0], well)
        recovered = draw(theta[1] * ill, z[1], ill)
        well = jnp.maximum(well - infected, 1e-3)
        ill = jnp.maximum(ill + infected - recovered, 1e-3)
        return (well, ill), ill

    noise = u.reshape(len(u), SIR_STEPS, 2).transpose(1, 2, 0)
    start = jnp.full(len(u), _PEOPLE - first), jnp.full(len(u), first)
    return jax.lax.scan(step, start, noise)[1][4::5].T


@cache
def toggle_switch() -> Simulator:
    """Two genes that hold each other down for 50 steps, of which one is read; d = 1, s = 101."""
    return make_simulator(
        _read_switch,
        Normal(dim=2 * _SWITCH_STEPS + 1),
        mu=Uniform(200, 500),
        sigma=Uniform(0.01, 0.5),
        gamma=Uniform(0.01, 0.5),
    )


def _read_switch(theta: Float[Array, " 3"], u: Float[Array, "m s"]) -> Float[Array, "m 1"]:
    def step(state: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], None]:
        a, b = state
        next_a = a + 22 / (1 + b**4) - (1 + 0.03 * a) + 0.5 * z[0]
        next_b = b + 12 / (1 + a**4.5) - (1 + 0.03 * b) + 0.5 * z[1]
        return (jnp.maximum(next_a, 1.0), jnp.maximum(next_b, 1.0)), None

    noise = u[:, :-1].reshape(len(u), _SWITCH_STEPS, 2).transpose(1, 2, 0)
    (a, _), _ = jax.lax.scan(step, (jnp.full(len(u), 10.0), jnp.full(len(u), 10.0)), noise)
    mu, sigma, gamma = theta
    return (a + mu + mu * sigma * u[:, -1] / a**gamma)[:, None]


@cache
def stationary_process() -> Simulator:
    """dy = kappa (mu - y) dt + sigma dw from its stationary law, in exact steps; d = s = 25."""
    return make_simulator(
        _follow_stationary,
        Normal(dim=_OU_LENGTH),
        kappa=Uniform(0.1, 4),
        mu=Uniform(-5, 5),
        sigma=Uniform(0.1, 3),
    )


def _follow_stationary(theta: Float[Array, " 3"], u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    kappa, mu, sigma = theta
    return mu + sigma / jnp.sqrt(2 * kappa) * autoregress(jnp.exp(-kappa * _OU_DT), u)


def autoregress(phi: Array, u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """z_1 = u_1, z_t = phi z_(t-1) + √(1 - phi²) u_t: of variance 1 throughout."""

    def step(last: Array, noise: Array) -> tuple[Array, Array]:
        z = phi * last + jnp.sqrt(1 - phi**2) * noise
        return z, z

    rest = jax.lax.scan(step, u[:, 0], u[:, 1:].T)[1]
    return jnp.concatenate([u[:, :1], rest.T], 1)


def stationary_log_likelihood(theta: Float[Array, " 3"], x: Float[Array, "n d"]) -> Array:
    """That of the normal distribution."""
    kappa, mu, sigma = theta
    times = _OU_DT * jnp.arange(x.shape[1])
    apart = jnp.abs(times[:, None] - times[None])
    covariance = sigma**2 / (2 * kappa) * jnp.exp(-kappa * apart)
    return jnp.sum(multivariate_normal.logpdf(x, jnp.full_like(x, mu), covariance[None]))


@cache
def autoregression() -> Simulator:
    """y_t = phi y_(t-1) + sigma u_t from its stationary law; d = s = 50."""
    return make_simulator(
        lambda theta, u: theta[1] / jnp.sqrt(1 - theta[0] ** 2) * autoregress(theta[0], u),
        Normal(dim=_AR_LENGTH),
        phi=Uniform(-1, 1),
        sigma=Uniform(0, 3),
    )


def autoregression_log_likelihood(theta: Float[Array, " 2"], x: Float[Array, "n d"]) -> Array:
    """The first value by its stationary law, the others by the ones before."""
    phi, sigma = theta
    first = norm.logpdf(x[:, 0], 0.0, sigma / jnp.sqrt(1 - phi**2))
    return first.sum() + norm.logpdf(x[:, 1:], phi * x[:, :-1], sigma).sum()


SERIES = {
    "MA(2)": Case(
        models.moving_average,
        (0.6, 0.2),
        200,
        whiten=True,
        reference=by_search(moving_average_log_likelihood),
    ),
    "M/G/1 queue": Case(models.queue, (1.0, 5.0, 0.2), 100),
    "Ornstein-Uhlenbeck": Case(
        ornstein_uhlenbeck, OU_TRUTH, ROWS, reference=by_formula(process_maximum_likelihood)
    ),
    "Ornstein-Uhlenbeck, stationary": Case(
        stationary_process,
        (1.0, 2.0, 0.8),
        100,
        OptimallyWeighted(m=256),
        whiten=True,
        reference=by_search(stationary_log_likelihood),
    ),
    "SIR": Case(epidemic, (1.5, 0.5), 100, data_sets=Fraction(5, 3)),
    "toggle switch": Case(toggle_switch, (325.0, 0.25, 0.15), 100),
    "AR(1)": Case(
        autoregression,
        (0.7, 1.0),
        50,
        VStatistic(256, iid),
        reference=by_search(autoregression_log_likelihood),
    ),
    "Ricker": Case(ricker, RICKER_TRUTH, ROWS, VStatistic(64, sobol), summaries=summarise_counts),
}
