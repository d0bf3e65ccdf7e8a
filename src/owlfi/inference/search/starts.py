"""Where searches begin: the best of some points of the prior, and of runs that are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.inference.search.objective import Objective, values_at
from owlfi.problem.problem import Problem
from owlfi.weights.quadrature import Quadrature

_FEWEST = 32  # points to compare starts on


def compare_starts(
    key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature, count: int
) -> tuple[Float[Array, "t p"], int]:
    """Starts with the best first, and the simulator calls of their comparison.

    A quarter of the points, equally weighted, is enough to compare them. Runs that the rule has
    made while it was tuned, on the same points, cost nothing again.

    Raises ValueError where the simulations fail at every start.
    """
    thetas = problem.prior.starts(key, count)
    few = comparison_points(quadrature.m)
    coarse = objective.on(objective.points[:few], jnp.full(few, 1 / few))
    known = problem.pilot(quadrature)
    values = np.concatenate([values_at(coarse, thetas), _values_of_rows(coarse, known.y[:, :few])])
    thetas = jnp.concatenate([thetas, known.thetas])
    fine = np.isfinite(values)
    if not fine.any():
        raise ValueError(
            f"y is NaN or infinite at all {len(thetas)} starts, such as theta = "
            f"{np.asarray(thetas[0])}; mend the generator or narrow the prior"
        )
    order = np.argsort(np.where(fine, values, np.inf))[: fine.sum()]
    return thetas[order], count * few


def comparison_points(m: int) -> int:
    """Of how many of m points a comparison makes use."""
    return min(m, max(_FEWEST, m // 4))


@eqx.filter_jit
def _values_of_rows(objective: Objective, y: Float[Array, "t m d"]) -> Float[Array, " t"]:
    return jax.lax.map(objective.of_rows, y)
