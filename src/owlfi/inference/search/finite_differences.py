"""Searches with simulators that are no JAX functions: central differences on the same noise."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.inference.search.newton import STEPS, TOLERANCE, Minimum, advanced, begun, ended, goes_on
from owlfi.inference.search.objective import LocalModel, Objective, model_of_rows, rows_and_slopes
from owlfi.problem.real_line import to_real

_STEP = 1e-4  # of the prior's width: generators print or iterate to fewer digits than a double


def simulated_with_slopes(
    objective: Objective, theta: Float[Array, " p"]
) -> tuple[Array, Array, int]:
    """y (m, d) at theta, its derivatives (p, m, d) on the real line, and how often all were run.

    For simulators of both kinds.
    """
    v = to_real(theta, objective.ends)
    if objective.simulator.on_host:
        return objective.rows(v), slopes_on_host(objective, v), 1 + 2 * len(v)
    return *rows_and_slopes(objective, v), 1


def slopes_on_host(objective: Objective, v: Float[Array, " p"]) -> Float[Array, "p m d"]:
    """The derivatives of the simulations by each entry of v, at 2p simulations of all points."""
    reach = _STEP * objective.widths
    pairs = [(objective.rows(v + step), objective.rows(v - step)) for step in jnp.diag(reach)]
    return jnp.stack([(up - down) / (2 * h) for (up, down), h in zip(pairs, reach, strict=True)])


def minimise_on_host(
    objective: Objective,
    start: Float[Array, " p"],
    *,
    steps: int = STEPS,
    tolerance: float = TOLERANCE,
) -> Minimum:
    """The minimum near one start; derivatives are taken only where a step has helped."""
    v = to_real(start, objective.ends)
    evaluations = 1 + 2 * len(v)
    y = objective.rows(v)
    search = begun(v, _model(objective, y, slopes_on_host(objective, v)), objective, steps)
    while goes_on(search, steps, tolerance):
        v = search.v + search.step
        y = objective.rows(v)
        evaluations += 1
        if _value(objective, y) < search.model.value:  # NaN is not
            model = _model(objective, y, slopes_on_host(objective, v))
            evaluations += 2 * len(v)
        else:
            model = search.model._replace(value=jnp.array(jnp.inf))
        search = _advanced(search, v, model, objective)
    return ended(search, objective, tolerance)._replace(evaluations=jnp.array(evaluations))


@eqx.filter_jit
def _value(objective: Objective, y: Array) -> Array:
    return objective.of_rows(y)


@eqx.filter_jit
def _model(objective: Objective, y: Array, slopes: Array) -> LocalModel:
    return model_of_rows(objective, y, slopes)


_advanced = eqx.filter_jit(advanced)
