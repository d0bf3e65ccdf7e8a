"""Minimise a smooth function of a few numbers, inside jit: BFGS with a backtracking line search."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SUFFICIENT = 1e-4  # share of the promised decrease that a step must keep (Armijo)
_SHORTEST_STEP = 1e-6


class _State(NamedTuple):
    x: Array
    value: Array
    slope: Array
    inverse: Array  # approximation of the inverse Hessian
    iterations: Array
    finished: Array


def minimise(
    function: Callable[[Float[Array, " n"]], Float[Array, ""]],
    start: Float[Array, " n"],
    *,
    iterations: int = 40,
    tolerance: float = 1e-2,
) -> Float[Array, " n"]:
    """A local minimum of the function near the start; values that are NaN count as too high.

    Stops when a step lowers the function by less than the tolerance, or after the iterations.

    >>> minimise(lambda x: (x[0] - 3.0) ** 2, jnp.zeros(1)).round(3)
    Array([3.], dtype=float64)
    """
    evaluate = jax.value_and_grad(function)
    value, slope = evaluate(start)
    identity = jnp.eye(start.size)
    first = _State(start, value, slope, identity, jnp.array(0), ~jnp.isfinite(value))

    def unfinished(state: _State) -> Array:
        return ~state.finished & (state.iterations < iterations)

    def step(state: _State) -> _State:
        direction = -state.inverse @ state.slope
        downhill = direction @ state.slope < 0
        direction = jnp.where(downhill, direction, -state.slope)
        # No step is longer than 1 in any number: they are logarithms of natural scales.
        direction = direction / jnp.maximum(1.0, jnp.abs(direction).max())
        moved = _line_search(evaluate, state, direction)
        lowered = state.value - moved.value
        return moved._replace(
            inverse=_updated(state, moved),
            iterations=state.iterations + 1,
            finished=lowered < tolerance,
        )

    return jax.lax.while_loop(unfinished, step, first).x


def _line_search(evaluate: Callable, state: _State, direction: Array) -> _State:
    """Halve the step until the function falls as promised; stay where it never does."""
    promise = _SUFFICIENT * direction @ state.slope

    def too_long(trial: tuple[Array, _State]) -> Array:
        size, moved = trial
        return ~(moved.value <= state.value + size * promise) & (size > _SHORTEST_STEP)

    def attempt(size: Array) -> tuple[Array, _State]:
        x = state.x + size * direction
        value, slope = evaluate(x)
        return size, state._replace(x=x, value=value, slope=slope)

    size, moved = jax.lax.while_loop(
        too_long, lambda t: attempt(0.4 * t[0]), attempt(jnp.array(1.0))
    )
    found = moved.value <= state.value + size * promise
    return jax.tree.map(lambda new, old: jnp.where(found, new, old), moved, state)


def _updated(old: _State, new: _State) -> Array:
    """The BFGS update, left out where the curvature along the step is not positive."""
    s, y = new.x - old.x, new.slope - old.slope
    curvature = s @ y
    usable = curvature > 1e-12 * jnp.linalg.norm(s) * jnp.linalg.norm(y)
    rho = 1 / jnp.where(usable, curvature, 1.0)
    scale = jnp.where(old.iterations == 0, 1 / (rho * jnp.where(usable, y @ y, 1.0)), 1.0)
    project = jnp.eye(s.size) - rho * jnp.outer(s, y)
    updated = project @ (scale * old.inverse) @ project.T + rho * jnp.outer(s, s)
    return jnp.where(usable, updated, old.inverse)
