"""The first thing to see: the error of the squared MMD against the number of simulations."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from owlfi.kernels import SquaredExponential
from owlfi.measures import Normal
from owlfi.median import median_heuristic
from owlfi.mmd import data_term, squared_mmd
from owlfi.models.g_and_k import g_and_k
from owlfi.points import iid
from owlfi.quadrature import optimal_weights

OBSERVED_THETA = jnp.array([3.0, 1.0, 0.1, 0.1])
THETA = jnp.array([3.2, 1.1, 0.1, 0.1])
OBSERVATIONS = 1000
SIMULATIONS = (8, 16, 32, 64, 128, 256)
REPEATS = 100
NOISE = Normal(mean=0.0, sd=1.0)


class Errors(NamedTuple):
    """Absolute errors at one number of simulations, one a repeat."""

    m: int
    equal: Float[np.ndarray, " repeats"]
    optimal: Float[np.ndarray, " repeats"]


def errors(key: Array) -> Iterator[Errors]:
    """The errors of equal and of optimal weights for growing m, on the same simulations."""
    data_key, noise_key, key = jax.random.split(key, 3)
    x = g_and_k(OBSERVED_THETA, iid(data_key, OBSERVATIONS, NOISE))
    k = SquaredExponential(median_heuristic(x))
    c = SquaredExponential(median_heuristic(iid(noise_key, OBSERVATIONS, NOISE)))
    term = data_term(k, x)

    def estimate(u: Array, weights: Array | None = None) -> np.ndarray:
        return np.asarray(squared_mmd(k, g_and_k(THETA, u), x, weights, data_term=term))

    truth = estimate(*_trapezoid())
    for m in SIMULATIONS:
        designs = iid(jax.random.fold_in(key, m), REPEATS * m, NOISE).reshape(REPEATS, m, 1)
        optimal = estimate(designs, optimal_weights(c, NOISE, designs).weights)
        yield Errors(m, np.abs(estimate(designs) - truth), np.abs(optimal - truth))


def _trapezoid() -> tuple[Array, Array]:
    """The trapezoid rule for a standard normal: exact to rounding for smooth integrands."""
    z, step = jnp.linspace(-12.0, 12.0, 4801, retstep=True)
    return z[:, None], step * jnp.exp(NOISE.log_density(z[:, None]))


def picture(results: list[Errors]) -> Figure:
    """Median errors against m with their quartiles, on logarithmic axes."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    m = np.array([row.m for row in results])
    series = (("equal weights", "equal", "o--", "0.45"), ("optimal weights", "optimal", "s-", "C0"))
    for label, name, style, color in series:
        low, middle, high = np.quantile([getattr(r, name) for r in results], (0.25, 0.5, 0.75), 1)
        axes.loglog(m, middle, style, color=color, label=label)
        axes.fill_between(m, low, high, color=color, alpha=0.2, linewidth=0)
    axes.set_xlabel("simulations $m$")
    axes.set_ylabel("error of the squared MMD")
    axes.set_xticks(m, [str(value) for value in m], minor=False)
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
