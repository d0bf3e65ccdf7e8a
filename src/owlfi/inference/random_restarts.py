"""Minimum-distance estimation by Algorithm 2: random restarts and any gradient optimiser of optax.

The paper draws new points at every step; here they stay, so that the gradient is exact and the
restarts can be compared. `minimum_distance` takes far fewer simulator calls.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, as_kind
from owlfi._tools.keys import split_key
from owlfi._tools.programs import compile_fully
from owlfi._tools.progress import begin_step, show_bars
from owlfi._tools.real_line import to_real
from owlfi.inference.search.assess import DESIGNS, measure_errors
from owlfi.inference.search.descent import descend_each
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.sandwich import Sandwich
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import compare_starts, comparison_points
from owlfi.inference.search.ways import BySlopes, Landing
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import CHECK_CALLS
from owlfi.problem.spending import Expected, limit_calls, take_calls
from owlfi.results import Estimate, announce

_ADAM = optax.adam(0.04)  # one object, one compilation
_FLAT = 1e-6
_MATTERS = 0.01  # a tenth of a standard error


def _expect(problem: Problem, rule: Rule, starts: int, restarts: int, steps: int) -> Expected:
    begun = rule.tuning_calls(problem) or CHECK_CALLS
    compared = starts * comparison_points(rule.m)
    calls = begun + compared + (restarts * steps + DESIGNS + 1) * rule.m  # and the errors
    return Expected(calls, calls)


@limit_calls(_expect)
def random_restarts(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    starts: int = 50,
    restarts: int = 10,
    steps: int = 200,
    optimizer: optax.GradientTransformation | None = None,
    progress: bool = False,
    max_calls: int | None = None,
) -> Estimate:
    """The minimum-distance estimate by gradient descent from the best of some starts.

    starts, restarts, steps: I, R and S of Algorithm 2.
    optimizer: any of optax; Adam with step size 0.04 where left out.
    progress: show what is done.
    max_calls: the most rows that the simulator may compute; fewer than it takes are refused.

    Raises ValueError for discrete parameters, simulators without derivatives, where the simulations
    fail at every start, and for too few calls.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem, fewer = owlfi.Problem(model, x), {"starts": 16, "restarts": 2}
    >>> estimate = owlfi.random_restarts(jax.random.key(1), problem, rule, **fewer)
    >>> estimate.theta.round(1), estimate.calls
    (Array([3., 1.], dtype=float64), 13508)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    problem.prior.check_continuous("random_restarts")
    starts, restarts = as_count("starts", starts), as_count("restarts", restarts)
    steps = as_count("steps", steps)
    chosen = _ADAM if optimizer is None else optimizer
    as_kind("optimizer", chosen, optax.GradientTransformation, "of optax, such as optax.adam(0.01)")
    problem.simulator.check_differentiable("random_restarts", "minimum_distance")
    quadrature_key, start_key, design_key = split_key(key, 3)
    with show_bars(progress):
        begin_step("Weights and starts")
        stage = Stage(problem, rule.quadrature(quadrature_key, problem))
        drawn = problem.prior.starts(start_key, starts)
        checked = problem.check_determined(drawn, stage.quadrature)
        tried = compare_starts(start_key, problem, stage.objective, stage.quadrature, starts)
        begin_step("Descents")
        descent = stage.objective.m * len(tried.thetas[:restarts]) * steps
        take_calls(descent)
        best = _descend(stage.objective, tried.thetas[:restarts], chosen, steps)
        begin_step("Standard errors")
        landing = _as_landing(best)
        errors = measure_errors(design_key, rule, stage, BySlopes(), landing)
    evaluated = descent + errors.calls.search
    values = stage.squared_mmd(best.values)
    estimate = Estimate(
        problem.prior.names,
        best.thetas[best.lowest],
        errors.sandwich.covariance,
        values[best.lowest],
        stage.quadrature.tuning_calls + checked + tried.calls + evaluated + errors.calls.other,
        problem.simulator.derivative_calls(evaluated),
        bool(best.slopes[best.lowest] < _FLAT),
        best.thetas,
        values,
        about={"method": "random restarts"},
        warnings=_describe(stage, best, errors.sandwich),
    )
    return announce(estimate)


class _Best(NamedTuple):
    """The descent that came lowest, and the step at which it did."""

    thetas: Float[Array, "steps p"]
    values: Float[Array, " steps"]
    slopes: Float[Array, " steps"]
    lowest: int


def _as_landing(best: _Best) -> Landing:
    theta, value = best.thetas[best.lowest], best.values[best.lowest]
    flat = best.slopes[best.lowest] < _FLAT
    return Landing(Minimum(theta, value, jnp.array(0), flat, best.thetas, best.values))


def _describe(stage: Stage, best: _Best, errors: Sandwich) -> tuple[str, ...]:
    known = *stage.problem.warnings, *stage.quadrature.warnings
    return *known, *_tell_unfinished(best, errors)


def _tell_unfinished(best: _Best, errors: Sandwich) -> tuple[str, ...]:
    """A sentence where the last tenth of the steps lowered the squared MMD by what matters.

    One standard error from the minimum it is higher by about tr(H Σ) / 2.
    """
    steps = len(best.values)
    late = float(best.values[-max(2, steps // 10)] - best.values[best.lowest])
    if not late > _MATTERS * float(jnp.trace(errors.hessian @ errors.covariance)) / 2:
        return ()
    return (
        f"The squared MMD was still falling after {steps} steps, so that the estimate is not at "
        "its minimum; give more steps, a larger step size, or use minimum_distance",
    )


def _descend(
    objective: Objective,
    starts: Float[Array, "b p"],
    optimizer: optax.GradientTransformation,
    steps: int,
) -> _Best:
    bank = objective.points[None], objective.weights[None]
    at, anything = to_real(starts, objective.ends), jax.random.key(0)  # a bank of one has no choice
    found = _descend_each(anything, objective, bank, at, optimizer, steps)
    start, step = np.unravel_index(np.nanargmin(found.values), found.values.shape)
    thetas = objective.theta_of(found.vs[start])
    return _Best(thetas, found.values[start], found.slopes[start], int(step))


_descend_each = compile_fully(descend_each)
