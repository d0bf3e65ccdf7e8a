"""Data sets of a model: independent draws, never points of a design."""

from jaxtyping import Array, Float, Key

from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import Simulator


@compile_where_it_runs
def draw_data(
    simulator: Simulator, key: Key[Array, ""], theta: Float[Array, " p"], n: int
) -> Float[Array, "n d"]:
    """n fresh rows at one theta; NaN or infinite where the model gives that."""
    return simulator.rows(theta, simulator.measure.sample(key, n))
