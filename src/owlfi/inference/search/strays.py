"""Observations that are unlike all simulations at an estimate: far from where these are dense."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.programs import compile_quickly
from owlfi.inference.outliers import chances_of, find_outliers
from owlfi.inference.search.designs import (
    Designs,
    Simulated,
    leave_out_failed,
    simulate_designs,
)
from owlfi.inference.search.objective import Objective
from owlfi.problem.spending import OutOfCallsError, afford

_LEAST = 1e-300
FEW_DESIGNS = 2
"""On which they are looked for where calls are scarce."""
NO_ROWS = np.zeros(0, int)


def strays_calls(m: int) -> int:
    """Of a look for strays."""
    return FEW_DESIGNS * m


def look_for_strays(
    objective: Objective, theta: Float[Array, " p"], designs: Designs
) -> Int[np.ndarray, " k"]:
    """The same by simulations at theta, none where calls do not do for them."""
    try:
        afford(1, max(designs.weights.size, 1))
        y = simulate_designs(objective, theta, designs.points)
    except OutOfCallsError:
        return NO_ROWS
    return find_strays(objective, leave_out_failed(objective, y, designs.weights))


def find_strays(objective: Objective, designs: Simulated) -> Int[np.ndarray, " k"]:
    """Their row numbers, by the kernel mean of simulations on several designs; none without them.

    Simulations are compared with those of the other designs.
    """
    r, n = len(designs.y), objective.n
    if r < 2:
        return NO_ROWS
    means = np.asarray(_kernel_means(objective, designs))
    at_data, among = means[:, :n], means[:, len(objective.observed) :]
    by_design = among.reshape(r, r, -1)  # rows of each in the mean of each
    others = (by_design.sum(0) - np.diagonal(by_design).T) / (r - 1)
    fine = np.asarray(designs.weights) != 0
    far, usual = (-np.log(np.maximum(m, _LEAST)) for m in (at_data.mean(0), others[fine]))
    return np.flatnonzero(find_outliers(chances_of(far, usual)))


@compile_quickly
def _kernel_means(objective: Objective, designs: Simulated) -> Float[Array, "r t"]:
    """At the observations and all simulations, with equal weights: others may be negative."""
    k, d = objective.data_kernel, designs.y.shape[2]
    rows = jnp.concatenate([objective.observed, designs.y.reshape(-1, d)])
    fine = designs.weights != 0  # what failed has none
    equal = fine / fine.sum(1, keepdims=True)
    return jax.lax.map(lambda design: k.row_sums(rows, *design), (designs.y, equal))
