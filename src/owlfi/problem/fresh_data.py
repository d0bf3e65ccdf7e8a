"""Data sets of a model: independent draws, never points of a design."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import Simulator
from owlfi.weights.data_grams import are_enough

_ROUNDS = 20  # half of the rows may fail, and none of a thousand is left


class Fresh(NamedTuple):
    """Rows of a model, and what they took."""

    rows: Float[Array, "n d"]
    failed: float
    """The share of rows that failed at first, and for which others were drawn."""
    calls: int


def draw_data(
    simulator: Simulator, key: Key[Array, ""], theta: Float[Array, " p"], n: int, columns: int
) -> Fresh:
    """n fresh rows at one theta, NaN or infinite where more than half of them are.

    A simulation that fails leaves no data, so that others are drawn in its place.
    """
    rows = np.array(_draw_rows(simulator, key, theta, n, columns))
    failed, calls = float((~np.isfinite(rows).all(1)).mean()), n
    for number in range(1, _ROUNDS if are_enough(rows) else 0):
        missing = ~np.isfinite(rows).all(1)
        if not missing.any():
            break
        own = jax.random.fold_in(key, number)
        rows[missing] = np.asarray(_draw_rows(simulator, own, theta, n, columns))[missing]
        calls += n
    return Fresh(as_jax(rows), failed, calls)


@compile_where_it_runs
def _draw_rows(
    simulator: Simulator, key: Key[Array, ""], theta: Float[Array, " p"], n: int, columns: int
) -> Float[Array, "n d"]:
    return simulator.attempt(theta, simulator.measure.sample(key, n), columns)
