"""Observations that are unlike all simulations at an estimate: far from where these are dense."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.programs import compile_quickly
from owlfi.inference.outliers import chances_of, find_outliers
from owlfi.inference.search.designs import Simulated
from owlfi.inference.search.objective import Objective

_LEAST = 1e-300


def find_strays(objective: Objective, designs: Simulated) -> Int[np.ndarray, " k"]:
    """Their row numbers, by the kernel mean of simulations on several designs; none without them.

    Simulations are compared with those of the other designs.
    """
    r, n = len(designs.y), objective.n
    if r < 2:
        return np.zeros(0, int)
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
