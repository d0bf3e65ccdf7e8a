"""Algorithm 2 of the paper: gradient descent by Adam from the best of some random starts.

Each step draws a design from a bank, so that the search sees fresh simulations.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, positive
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import Objective
from owlfi.problem.real_line import from_real, to_real
from owlfi.problem.simulator import Simulator

Bank = tuple[Float[Array, "k m s"], Float[Array, "k m"]]


class Adam(NamedTuple):
    """The paper's I, R, S and s. Steps are taken on the real line, so none leaves the bounds."""

    trials: int = 50
    restarts: int = 10
    steps: int = 200
    rate: float = 0.04


def check_adam(settings: Adam, simulator: Simulator) -> None:
    """Raises ValueError for settings that make no search, and simulators without gradients."""
    as_count("steps", settings.steps)
    if as_count("restarts", settings.restarts) > as_count("trials", settings.trials):
        raise ValueError(
            f"Adam descends from the best restarts = {settings.restarts} of trials = "
            f"{settings.trials}; give at least as many trials"
        )
    positive("rate", settings.rate, number=True)
    if simulator.on_host:
        raise ValueError("Adam needs a simulator that is a JAX function; use search='newton'")


def minimise_by_adam(
    key: Key[Array, ""],
    objective: Objective,
    bank: Bank,
    trials: Float[Array, "i p"],
    settings: Adam,
) -> Minimum:
    """The best of several descents, by the loss on one more design; for use inside jit."""
    loss_key, descent_key, last_key = jax.random.split(key, 3)
    keys = jax.random.split(loss_key, len(trials))
    trials = to_real(trials, objective.ends)
    losses = _losses(keys, objective, bank, trials)
    _, best = jax.lax.top_k(-jnp.where(jnp.isnan(losses), jnp.inf, losses), settings.restarts)
    keys = jax.random.split(descent_key, settings.restarts)
    ends = jax.lax.map(
        lambda case: _descent(case[0], objective, bank, case[1], settings), (keys, trials[best])
    )
    values = _losses(jax.random.split(last_key, settings.restarts), objective, bank, ends)
    return _minimum(objective, ends, jnp.where(jnp.isnan(values), jnp.inf, values), settings)


def evaluations(settings: Adam) -> int:
    """How often all points of a design are simulated."""
    return settings.trials + settings.restarts * (settings.steps + 1)


def _loss(key: Key[Array, ""], objective: Objective, bank: Bank, v: Array) -> Array:
    """The squared MMD less its data term, on a design of the bank."""
    points, weights = bank
    chosen = jax.random.randint(key, (), 0, points.shape[0])
    y = objective.simulator.rows(from_real(v, objective.ends), points[chosen])
    return eqx.tree_at(lambda o: o.weights, objective, weights[chosen]).of_rows(y)


def _losses(keys: Array, objective: Objective, bank: Bank, v: Float[Array, "i p"]) -> Array:
    return jax.lax.map(lambda case: _loss(case[0], objective, bank, case[1]), (keys, v))


def _descent(
    key: Key[Array, ""], objective: Objective, bank: Bank, v: Array, settings: Adam
) -> Float[Array, " p"]:
    optimiser = optax.adam(settings.rate)

    def step(state: tuple[Array, optax.OptState], own: Array) -> tuple[tuple, None]:
        v, memory = state
        slope = jax.grad(lambda at: _loss(own, objective, bank, at))(v)
        update, memory = optimiser.update(jnp.where(jnp.isfinite(slope), slope, 0.0), memory)
        return (v + update, memory), None

    keys = jax.random.split(key, settings.steps)
    return jax.lax.scan(step, (v, optimiser.init(v)), keys)[0][0]


def _minimum(objective: Objective, ends: Array, values: Array, settings: Adam) -> Minimum:
    best = jnp.argmin(values)
    theta = from_real(ends[best], objective.ends)
    count = jnp.array(evaluations(settings))
    return Minimum(theta, values[best], count, jnp.array(True), theta[None], values[best][None])
