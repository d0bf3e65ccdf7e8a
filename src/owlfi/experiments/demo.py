"""The first thing to see: the error of the squared MMD against the number of simulations."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from owlfi.checks import as_array
from owlfi.experiments.curves import curve, label
from owlfi.experiments.excess import product_rule, sample
from owlfi.kernels import SquaredExponential
from owlfi.median import median_heuristic
from owlfi.mmd import data_term, squared_mmd
from owlfi.models import g_and_k
from owlfi.points import iid
from owlfi.quadrature import optimal_weights

THETA = jnp.array([3.2, 1.1, 0.1, 0.1])
OBSERVATIONS = 1000
SIMULATIONS = (8, 16, 32, 64, 128, 256)
REPEATS = 100


class Errors(NamedTuple):
    """Absolute errors at one number of simulations, one a repeat."""

    m: int
    equal: Float[np.ndarray, " repeats"]
    optimal: Float[np.ndarray, " repeats"]


def errors(key: Array) -> Iterator[Errors]:
    """The errors of equal and of optimal weights for growing m, on the same simulations."""
    data_key, noise_key, key = jax.random.split(key, 3)
    simulator = g_and_k()
    noise = simulator.measure
    x = sample(data_key, simulator, as_array("theta", simulator.theta), OBSERVATIONS)
    k = SquaredExponential(median_heuristic(x))
    c = SquaredExponential(median_heuristic(iid(noise_key, OBSERVATIONS, noise)))
    term = data_term(k, x)

    def estimate(u: Array, weights: Array | None = None) -> np.ndarray:
        y = jax.vmap(lambda design: simulator.rows(THETA, design))(u)
        return np.asarray(squared_mmd(k, y, x, weights, data_term=term))

    u, weights = product_rule(noise)
    truth = estimate(u[None], weights[None])
    for m in SIMULATIONS:
        designs = iid(jax.random.fold_in(key, m), REPEATS * m, noise).reshape(REPEATS, m, 1)
        optimal = estimate(designs, optimal_weights(c, noise, designs).weights)
        yield Errors(m, np.abs(estimate(designs) - truth), np.abs(optimal - truth))


def picture(results: list[Errors]) -> Figure:
    """Median errors against m with their quartiles, on logarithmic axes."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    m = [row.m for row in results]
    curve(axes, m, [row.equal for row in results], 0, "equal weights")
    curve(axes, m, [row.optimal for row in results], 1, "optimal weights")
    label(axes, "simulations $m$", "error of the squared MMD", m)
    return figure
