"""An Ornstein-Uhlenbeck process and Ricker's map, with what Huang et al. (2023) take for them.

Source: Huang, Bharti, Souza, Acerbi and Kaski, Learning robust statistics for simulation-based
inference under model misspecification (NeurIPS 2023).
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, Float

from owlfi.measures import Normal, Product, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator

ROWS = 100  # observed
OU_TRUTH, OU_ELSEWHERE = (0.5, 1.0), (-0.5, 1.0)
RICKER_TRUTH, RICKER_ELSEWHERE = (4.0, 10.0), (4.0, 100.0)
OU_NOISE = 0.1
_OU_START, _OU_STEPS, _OU_DT = 10.0, 24, 5 / 26
_RICKER_STEPS, _RICKER_NOISE = 100, 0.3
_LEVELS = 1e-12, 1 - 1e-12  # the ends have no count


@cache
def ornstein_uhlenbeck(noise: float = OU_NOISE) -> Simulator:
    """y_(t+1) = y_t + θ₁ (exp θ₂ - y_t) dt + 0.5 √dt w_t, from y_0 = 10; d = 25, s = 24.

    noise: the standard deviation of w.
    """
    prior = Prior(theta_1=Uniform(0, 2), theta_2=Uniform(-2, 2))
    measure = Normal(0, noise, dim=_OU_STEPS)
    return Simulator(_follow_process, measure, prior.names, prior=prior, theta=OU_TRUTH)


def _follow_process(theta: Float[Array, " 2"], w: Float[Array, "m s"]) -> Float[Array, "m d"]:
    def step(y: Array, noise: Array) -> tuple[Array, Array]:
        y = y + theta[0] * (jnp.exp(theta[1]) - y) * _OU_DT + 0.5 * _OU_DT**0.5 * noise
        return y, y

    start = jnp.full(len(w), _OU_START)
    return jnp.concatenate([start[None], jax.lax.scan(step, start, w.T)[1]]).T


def process_maximum_likelihood(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " 2"]:
    """Exact: increments are linear in y, with normal errors."""
    before, change = x[:, :-1].ravel(), np.diff(x).ravel() / _OU_DT
    slope, intercept = np.polyfit(before, change, 1)
    return np.array([-slope, np.log(-intercept / slope)])


@cache
def ricker() -> Simulator:
    """Counts y_t ~ Poisson(θ₂ N_t), log N_t = θ₁ + log N_(t-1) - N_(t-1) + 0.3 e_t, N_0 = 1.

    The noise is e, then the levels of the counts; d = 100, s = 200. On the host.
    """
    prior = Prior(theta_1=Uniform(2, 8), theta_2=Uniform(0, 20))
    noise = Product(Normal(dim=_RICKER_STEPS), Uniform(0, 1, dim=_RICKER_STEPS))
    return Simulator(
        _count_populations, noise, prior.names, prior=prior, theta=RICKER_TRUTH, on_host=True
    )


def _count_populations(
    theta: Float[np.ndarray, " 2"], u: Float[np.ndarray, "m s"]
) -> Float[np.ndarray, "m d"]:
    noise, levels = u[:, :_RICKER_STEPS], u[:, _RICKER_STEPS:].clip(*_LEVELS)
    logarithm, populations = np.zeros(len(u)), np.empty_like(noise)
    for t in range(_RICKER_STEPS):
        logarithm = theta[0] + logarithm - np.exp(logarithm) + _RICKER_NOISE * noise[:, t]
        populations[:, t] = np.exp(logarithm)
    return scipy.stats.poisson.ppf(levels, theta[1] * populations)


def summarise_counts(y: Float[Array | np.ndarray, "n d"]) -> Float[np.ndarray, "n 6"]:
    """Log mean, share of zeros, log maximum, log deviation, two autocorrelations of the roots.

    Logarithms of rows without a count are those of a single one.
    """
    rows = np.asarray(y)
    mean = np.log(np.maximum(rows.mean(1), 1 / rows.shape[1]))
    zeros = (rows == 0).mean(1)
    largest = np.log(np.maximum(rows.max(1), 1.0))
    deviation = np.log(np.maximum(rows.std(1), rows.shape[1] ** -0.5))
    lags = [_autocorrelate(np.sqrt(rows), lag) for lag in (1, 2)]
    return np.stack([mean, zeros, largest, deviation, *lags], 1)


def _autocorrelate(rows: Float[np.ndarray, "n d"], lag: int) -> Float[np.ndarray, " n"]:
    """Of each row; 0 where it is constant."""
    centred = rows - rows.mean(1, keepdims=True)
    total = (centred**2).sum(1)
    return (centred[:, lag:] * centred[:, :-lag]).sum(1) / np.where(total > 0, total, 1.0)
