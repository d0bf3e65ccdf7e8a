"""How far the columns of data spread that the prior predicts, for columns that tell nothing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.keys import split_key
from owlfi.kernels.spread import measure_spreads
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.prior import Prior
from owlfi.problem.simulations import check_determined
from owlfi.problem.simulator import Simulator

_ROWS = 32


def predict_spreads(simulator: Simulator, prior: Prior, columns: int) -> Float[Array, " columns"]:
    """Of one row at each of 32 thetas of the prior; 0 where they are constant, or all failed.

    Raises ValueError where the simulator gives another number of columns.
    """
    theta_key, noise_key = split_key(jax.random.key(0))
    thetas = prior.sample(theta_key, _ROWS)
    u = simulator.measure.sample(noise_key, _ROWS)
    check_determined(simulator, thetas, u, columns)
    y = _simulate_each(simulator, thetas, u, columns)
    fine = y[jnp.isfinite(y).all(1)]
    return measure_spreads(fine) if len(fine) else jnp.zeros(columns)


@compile_where_it_runs
def _simulate_each(
    simulator: Simulator, thetas: Float[Array, "t p"], u: Float[Array, "t s"], columns: int
) -> Float[Array, "t d"]:
    """One row at each theta, NaN where it fails."""
    return simulator.runtime.map(
        lambda pair: simulator.attempt(pair[0], pair[1][None], columns)[0], (thetas, u)
    )
