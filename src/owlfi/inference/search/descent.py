"""Algorithm 2 of the paper: gradient descent from the best of some random starts.

Each step draws a design from a bank, so that the search may see fresh simulations; with a bank of
one the gradient is exact.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from owlfi._tools.real_line import to_real
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import Objective

Bank = tuple[Float[Array, "k m s"], Float[Array, "k m"]]
"""Points and weights of k designs."""


class Descent(NamedTuple):
    """The way of a descent on the real line, and where it ended."""

    end: Float[Array, "... p"]
    vs: Float[Array, "... steps p"]
    values: Float[Array, "... steps"]
    slopes: Float[Array, "... steps"]
    """The largest derivative at each step."""


def minimise_by_descent(
    key: Key[Array, ""],
    objective: Objective,
    bank: Bank,
    trials: Float[Array, "i p"],
    optimizer: Any,
    restarts: int,
    steps: int,
) -> Minimum:
    """The best of several descents, by the loss on one more design; for use inside jit."""
    loss_key, descent_key, last_key = jax.random.split(key, 3)
    starts = to_real(trials, objective.ends)
    _, best = jax.lax.top_k(-_losses(loss_key, objective, bank, starts), restarts)
    found = descend_each(descent_key, objective, bank, starts[best], optimizer, steps)
    values = _losses(last_key, objective, bank, found.end)
    lowest = jnp.argmin(values)
    theta, value = objective.theta_of(found.end[lowest]), values[lowest]
    calls = jnp.array(objective.m * (len(trials) + restarts * (steps + 1)))
    return Minimum(theta, value, calls, jnp.array(True), theta[None], value[None])


def descend_each(
    key: Key[Array, ""],
    objective: Objective,
    bank: Bank,
    starts: Float[Array, "b p"],
    optimizer: Any,
    steps: int,
) -> Descent:
    """One descent from each start on the real line; where simulations fail, the gradient is 0."""

    def descend(case: tuple[Array, Array]) -> Descent:
        def step(state: tuple[Array, Any], own: Array) -> tuple[tuple, tuple]:
            v, memory = state
            value, slope = jax.value_and_grad(lambda at: _loss(own, objective, bank, at))(v)
            usable = jnp.where(jnp.isfinite(slope), slope, 0.0)
            change, memory = optimizer.update(usable, memory, v)
            return (v + change, memory), (v, value, jnp.abs(slope).max())

        own_key, v = case
        state, way = jax.lax.scan(step, (v, optimizer.init(v)), jax.random.split(own_key, steps))
        return Descent(state[0], *way)

    return jax.lax.map(descend, (jax.random.split(key, len(starts)), starts))


def _loss(key: Key[Array, ""], objective: Objective, bank: Bank, v: Array) -> Array:
    """The squared MMD less its data term, on a design of the bank."""
    points, weights = bank
    chosen = jax.random.randint(key, (), 0, points.shape[0])
    return objective.on(points[chosen], weights[chosen]).at(v)


def _losses(
    key: Key[Array, ""], objective: Objective, bank: Bank, v: Float[Array, "i p"]
) -> Float[Array, " i"]:
    """One design each, +∞ where simulations fail."""
    keys = jax.random.split(key, len(v))
    losses = jax.lax.map(lambda case: _loss(case[0], objective, bank, case[1]), (keys, v))
    return jnp.where(jnp.isnan(losses), jnp.inf, losses)
