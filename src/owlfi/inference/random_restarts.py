"""Algorithm 2 of the paper: random restarts and a gradient optimiser, any of optax's.

The paper draws new points at every step; here they stay, so that the gradient is exact and the
restarts can be compared. `minimum_distance` takes far fewer simulator calls.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.inference.minimum_distance import candidates, point_excess
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.inference.search.sandwich import sandwich
from owlfi.problem.problem import Problem
from owlfi.problem.real_line import from_real, to_real
from owlfi.problem.rules import Rule
from owlfi.results import Estimate

_FLAT = 1e-6


class Descent(NamedTuple):
    """The best of a descent, and its way."""

    theta: Float[Array, "... p"]
    value: Float[Array, "..."]
    slope: Float[Array, "..."]
    """The largest derivative at the end, on the real line."""
    thetas: Float[Array, "... steps p"]
    values: Float[Array, "... steps"]


def random_restarts(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    starts: int = 50,
    restarts: int = 10,
    steps: int = 200,
    optimizer: optax.GradientTransformation | None = None,
) -> Estimate:
    """The minimum-distance estimate by gradient descent from the best of some starts.

    starts, restarts, steps: I, R and S of Algorithm 2.
    optimizer: any of optax; Adam with step size 0.04 where left out.

    Raises ValueError for discrete parameters, simulators without derivatives, and where the
    simulations fail at every start.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, kernel=owlfi.Matern(2.5))
    >>> problem, fewer = owlfi.Problem(model, x), {"starts": 16, "restarts": 2}
    >>> estimate = owlfi.random_restarts(jax.random.key(1), problem, rule, **fewer)
    >>> estimate.theta.round(1), estimate.calls
    (Array([3., 1.], dtype=float64), 13344)
    """
    problem.prior.check_continuous("random_restarts")
    as_count("starts", starts), as_count("restarts", restarts), as_count("steps", steps)
    if problem.simulator.on_host:
        raise ValueError(
            "random_restarts needs the derivatives of the simulator, which is no JAX function; "
            "use minimum_distance"
        )
    quadrature_key, start_key = jax.random.split(as_key(key))
    quadrature = rule.quadrature(quadrature_key, problem)
    objective = objective_of(problem, quadrature)
    tried, calls = candidates(start_key, problem, objective, quadrature, starts)
    chosen = optax.adam(0.04) if optimizer is None else optimizer
    found = descend_each(objective, tried[:restarts], chosen, steps)
    best = jax.tree.map(lambda leaf: leaf[int(np.nanargmin(found.value))], found)
    spread = sandwich(objective, best.theta, excess=point_excess(rule, quadrature))
    evaluated = quadrature.m * (len(found.value) * steps + 1)
    return Estimate(
        problem.prior.names,
        best.theta,
        spread.covariance,
        best.value + objective.data_term(),
        calls + evaluated,
        evaluated * len(problem.prior.names),
        bool(best.slope < _FLAT),
        best.thetas,
        best.values + objective.data_term(),
    )


@eqx.filter_jit
def descend_each(
    objective: Objective,
    starts: Float[Array, "b p"],
    optimizer: optax.GradientTransformation,
    steps: int,
) -> Descent:
    """One descent from each start; where simulations fail (NaN), the gradient counts as 0."""
    slope = jax.value_and_grad(objective.at)

    def descend(start: Array) -> Descent:
        def step(state: tuple[Array, optax.OptState], _: None) -> tuple[tuple, tuple]:
            v, memory = state
            value, gradient = slope(v)
            change, memory = optimizer.update(jnp.nan_to_num(gradient), memory, v)
            return (optax.apply_updates(v, change), memory), (v, value, jnp.abs(gradient).max())

        v = to_real(start, objective.ends)
        _, (vs, values, slopes) = jax.lax.scan(step, (v, optimizer.init(v)), length=steps)
        best = jnp.nanargmin(values)
        thetas = from_real(vs, objective.ends)
        return Descent(thetas[best], values[best], slopes[best], thetas, values)

    return jax.lax.map(descend, starts)
