"""Minimise a smooth function of a few numbers, inside jit: BFGS with a backtracking line search."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SUFFICIENT = 1e-4  # share of the promised decrease that a step must keep (Armijo)
_SHRINK = 0.4
_SHORTEST_STEP = 1e-6


class _State(NamedTuple):
    """The best point so far, and where the next trial lies."""

    x: Array
    value: Array
    slope: Array
    inverse: Array  # approximation of the inverse Hessian
    direction: Array
    size: Array  # of the step along it
    steps: Array
    trials: Array
    finished: Array


def minimise(
    function: Callable[[Float[Array, " n"]], Float[Array, ""]],
    start: Float[Array, "*r n"],
    *,
    trials: int = 80,
    tolerance: float = 1e-2,
) -> Float[Array, " n"]:
    """A local minimum of the function near the start; values that are NaN count as too high.

    start: one point, or several (r, n), of which the one with the lowest value is taken.

    Stops when a step lowers the function by less than the tolerance, or after so many trials.

    >>> minimise(lambda x: (x[0] - 3.0) ** 2, jnp.zeros(1)).round(3)
    Array([3.], dtype=float64)
    """
    evaluate = jax.value_and_grad(function)
    starts = jnp.atleast_2d(start)
    zero, count = jnp.zeros_like(starts[0]), jnp.array(0)
    first = _State(
        starts[0], jnp.array(jnp.inf), zero, jnp.eye(zero.size), zero, jnp.array(1.0), count, count,
        jnp.array(False),
    )  # fmt: skip

    def is_unfinished(state: _State) -> Array:
        return ~state.finished & (state.trials < trials + len(starts) - 1)

    # One evaluation a turn, be it of a start, a step or a shorter one: it is compiled once.
    def try_step(state: _State) -> _State:
        starting = state.trials < len(starts)
        begun = first._replace(x=starts[jnp.minimum(state.trials, len(starts) - 1)])
        old = _choose(starting, begun, state)
        x = old.x + old.size * old.direction
        value, slope = evaluate(x)
        promise = _SUFFICIENT * old.size * (old.direction @ old.slope)
        accepted = value <= state.value + promise  # NaN is not
        moved = _next_step(old, old._replace(x=x, value=value, slope=slope), tolerance)
        shorter = state._replace(size=_SHRINK * state.size, finished=state.size < _SHORTEST_STEP)
        chosen = _choose(accepted, moved, _choose(starting, state, shorter))
        return chosen._replace(trials=state.trials + 1)

    return jax.lax.while_loop(is_unfinished, try_step, first).x


def _choose(which: Array, yes: _State, no: _State) -> _State:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), yes, no)


def _next_step(old: _State, new: _State, tolerance: float) -> _State:
    inverse = _update_inverse(old, new)
    direction = -inverse @ new.slope
    direction = jnp.where(direction @ new.slope < 0, direction, -new.slope)
    # No step is longer than 1 in any number: they are logarithms of natural scales.
    direction = direction / jnp.maximum(1.0, jnp.abs(direction).max())
    return new._replace(
        inverse=inverse,
        direction=direction,
        size=jnp.array(1.0),
        steps=old.steps + 1,
        finished=old.value - new.value < tolerance,
    )


def _update_inverse(old: _State, new: _State) -> Array:
    """The BFGS update, left out where the curvature along the step is not positive."""
    s, y = new.x - old.x, new.slope - old.slope
    curvature = s @ y
    usable = curvature > 1e-12 * jnp.linalg.norm(s) * jnp.linalg.norm(y)
    rho = 1 / jnp.where(usable, curvature, 1.0)
    scale = jnp.where(old.steps == 1, 1 / (rho * jnp.where(usable, y @ y, 1.0)), 1.0)
    project = jnp.eye(s.size) - rho * jnp.outer(s, y)
    updated = project @ (scale * old.inverse) @ project.T + rho * jnp.outer(s, s)
    return jnp.where(usable, updated, old.inverse)
