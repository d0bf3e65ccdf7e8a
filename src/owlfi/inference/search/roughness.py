"""Whether derivatives of the simulations tell how their law changes with theta.

They do not where simulations are counts, jump, are rounded, or are chaotic: there a step along the
derivatives leads to other simulations than the simulator gives.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.programs import compile_quickly
from owlfi._tools.real_line import to_real
from owlfi.inference.search.objective import Objective, simulate_each, simulate_with_slopes
from owlfi.inference.search.tangent import independent_error
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import RowsWithSlopes, Simulator
from owlfi.problem.spending import afford, is_tight

_FIRST_STEP = 0.05  # in widths of the prior
_SHORTER = 1 / 8
_TRIALS = 6
_MOST = 0.25  # of a change, that derivatives may fail to tell
_VISIBLE = 4.0  # times the squared error of both samples
_ROUNDING = 1e-13
_SCARCE, _USUAL = 8, 32  # points


def is_rough(objective: Objective, theta: Float[Array, " p"]) -> tuple[bool, int]:
    """Whether the search must do without derivatives near theta, and the calls of the look.

    Steps that derivatives fail to tell are made shorter while they lead farther than samples can
    see: at a distance that matters, what is smooth is straight. Steps that lead nowhere, as from a
    place where nearly all counts are 0, are made longer.
    """
    asked, few = objective.m, look_points(objective.m)
    objective = objective if few == asked else _thin(objective, few)
    afford(1, look_calls(objective.simulator, few, most=False))
    rows, error = _look(objective, theta)
    if not rows.taken:  # the simulations fail, of which the fit will tell
        return False, rows.calls
    m, n = objective.m, objective.n
    usual = max(m, _USUAL) if few < asked else m  # few points see less, and bend no less
    visible = _VISIBLE * (1 + usual / n) * float(error) * (m / usual)
    widths, calls = np.asarray(objective.widths), rows.calls
    steps = _FIRST_STEP * widths
    for _ in range(_TRIALS):
        missed, changed = compare_steps(objective, theta, rows, steps)
        calls += 2 * len(theta) * m
        untold = missed > _MOST * np.maximum(changed, _ROUNDING)
        far = untold & (changed > visible)
        nowhere = (changed <= _ROUNDING) & (steps < widths)
        if not far.any() and (untold.any() or not nowhere.any()):
            return bool(untold.any()), calls
        steps = np.where(far, _SHORTER * steps, np.where(nowhere, steps / _SHORTER, steps))
    return True, calls


def look_points(m: int) -> int:
    """On how many of m points it looks: where calls are scarce, few show jumps, too."""
    return min(m, _SCARCE) if is_tight() else m


def _thin(objective: Objective, few: int) -> Objective:
    return objective.on(objective.points[:few], as_jax(np.full(few, 1 / few)))


def look_calls(simulator: Simulator, m: int, *, most: bool) -> int:
    """The rows that a look takes: where the first step tells, or at most."""
    trials = _TRIALS if most else 1
    return simulator.slope_calls(m) + 2 * trials * len(simulator.parameters) * m


def compare_steps(
    objective: Objective, theta: Float[Array, " p"], rows: RowsWithSlopes, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far a step in each parameter leads from where derivatives say, and from here, (p,) each.

    As squared MMDs between simulations on the same points.
    """
    v, p = np.asarray(to_real(theta, objective.ends)), len(theta)
    moves = np.concatenate([np.diag(steps), -np.diag(steps)])
    y = simulate_each(objective, objective.theta_of(as_jax(v + moves)))
    pairs = _distances(objective, rows.y, y, rows.slopes, as_jax(moves))
    missed, changed = (np.nan_to_num(np.asarray(part)).reshape(2, p).sum(0) for part in pairs)
    return missed, changed


@compile_where_it_runs
def _look(objective: Objective, theta: Float[Array, " p"]) -> tuple[RowsWithSlopes, Array]:
    """Rows with slopes, and the squared error of as many independent ones."""
    rows = simulate_with_slopes(objective, theta)
    return rows, _independent_error(objective, rows.y)


@compile_quickly
def _independent_error(objective: Objective, y: Float[Array, "m d"]) -> Float[Array, ""]:
    return independent_error(objective, objective.finished(y).y)


@compile_quickly
def _distances(
    objective: Objective, here: Array, there: Array, slopes: Array, moves: Array
) -> tuple[Float[Array, " t"], Float[Array, " t"]]:
    """The squared MMDs from where the moves lead to where slopes tell, and to here.

    Without points at which one of both failed.
    """
    told, k = here[None] + jnp.tensordot(moves, slopes, 1), objective.data_kernel

    def distance(a: Array, b: Array) -> Array:
        fine = jnp.isfinite(a + b).all(1)
        weights = jnp.where(fine, objective.weights, 0.0)
        rows = jnp.where(fine[None, :, None], jnp.stack([a, b]), objective.observed[0])
        return k.self_sum(rows.reshape(-1, a.shape[1]), jnp.concatenate([weights, -weights]))

    def compare(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        return distance(*pair), distance(pair[0], here)

    return jax.lax.map(compare, (there, told))
