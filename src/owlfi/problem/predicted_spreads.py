"""How far the columns of data spread that the prior predicts, for columns that tell nothing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.kernels.spread import measure_spreads
from owlfi.problem.prior import Prior
from owlfi.problem.simulations import simulate
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import unweighted

_ROWS = 32


def predict_spreads(simulator: Simulator, prior: Prior, columns: int) -> Float[Array, " columns"]:
    """Of one row at each of 32 thetas of the prior; 0 where they are constant, or all failed.

    Raises ValueError where the simulator gives another number of columns.
    """
    theta_key, noise_key = jax.random.split(jax.random.key(0))
    thetas = prior.sample(theta_key, _ROWS)
    u = simulator.measure.sample(noise_key, _ROWS)[:, None]
    y = simulate(simulator, thetas, unweighted(u), columns=columns, keep_failed=True).y[:, 0]
    fine = y[jnp.isfinite(y).all(1)]
    return measure_spreads(fine) if len(fine) else jnp.zeros(columns)
