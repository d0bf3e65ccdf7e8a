"""Whether derivatives of the simulations tell how their law changes with theta.

They do not where simulations are counts, jump, are rounded, or are chaotic: there a step along the
derivatives leads to other simulations than the simulator gives.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.inference.search.objective import Objective, simulate_each, simulate_with_slopes
from owlfi.problem.real_line import to_real

_STEPS = 0.05, 0.003  # in widths of the prior: what bends at the first is smooth at the second
_ROUNDING = 1e-13
_MOST = 0.25  # of a change, that derivatives may fail to tell


def is_rough(objective: Objective, theta: Float[Array, " p"]) -> tuple[bool, int]:
    """Whether the search must do without derivatives near theta, and the calls of the look."""
    calls = 0
    for step in _STEPS:
        missed, more = missed_change(objective, theta, step * objective.widths)
        calls += more
        if not (missed > _MOST).any():
            return False, calls
    return True, calls


def missed_change(
    objective: Objective, theta: Float[Array, " p"], steps: Float[Array, " p"]
) -> tuple[np.ndarray, int]:
    """Of the change by a step in each parameter, the share (p,) that derivatives do not tell.

    0 where nothing changes; and the calls.
    """
    rows = simulate_with_slopes(objective, theta)
    v, p = to_real(theta, objective.ends), len(theta)
    moves = jnp.concatenate([jnp.diag(steps), -jnp.diag(steps)])
    y = simulate_each(objective, objective.theta_of(v[None] + moves))
    told = rows.y[None] + jnp.tensordot(moves, rows.slopes, 1)
    missed, changed = _distances(objective, rows.y, y, told)
    missed, changed = (np.asarray(part).reshape(2, p).sum(0) for part in (missed, changed))
    seen = changed > _ROUNDING
    share = np.where(seen, missed / np.where(seen, changed, 1.0), 0.0)
    return np.nan_to_num(share, nan=0.0), rows.calls + 2 * p * objective.m


@eqx.filter_jit
def _distances(
    objective: Objective, here: Array, there: Array, told: Array
) -> tuple[Float[Array, " t"], Float[Array, " t"]]:
    """The squared MMDs from where the steps lead to where they were told, and to here."""
    k, signs = objective.data_kernel, jnp.concatenate([objective.weights, -objective.weights])

    def distance(a: Array, b: Array) -> Array:
        return k.self_sum(jnp.concatenate([a, b]), signs)

    def compare(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        return distance(*pair), distance(pair[0], here)

    return jax.lax.map(compare, (there, told))
