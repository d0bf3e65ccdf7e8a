"""What a goodness-of-fit test does to every data set alike, the observed one included.

One fit, and the squared MMD at its minimum, for one or several lengthscales of k.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from owlfi._tools.checks import brief
from owlfi.inference.search.finite_differences import minimise_on_host
from owlfi.inference.search.newton import Minimum, minimise
from owlfi.inference.search.objective import Objective
from owlfi.kernels import Kernel
from owlfi.problem.rules import Rule
from owlfi.testing.adam import Adam, minimise_by_adam


class Designs(eqx.Module):
    """A bank of designs: those that fits are made on, and those of the statistics.

    The statistics of all l lengthscales share their points (q = 1), or have points each (q = l).
    """

    points: Float[Array, "k m s"]
    weights: Float[Array, "k m"]
    statistic_points: Float[Array, "k q m s"]
    statistic_weights: Float[Array, "k l m"]


class Outcome(NamedTuple):
    """Of one data set."""

    statistics: Float[Array, "... l"]
    """+∞ where the fit failed."""
    theta: Float[Array, "... p"]
    evaluations: Int[Array, "..."]
    """How often all points of a design were simulated."""
    converged: Bool[Array, "..."]
    value: Float[Array, "..."]
    """Of the objective at its minimum."""


class Procedure(eqx.Module):
    """From a data set to its statistics.

    objective: its simulator, kernel k and bounds; designs and data take the place of its own.
    restarts: (r, p), where searches begin besides the warm start, in case there are other minima.
    factors: of the lengthscale of k, one for each statistic.
    search: "newton", "adam", or "none" where theta is known.
    """

    objective: Objective
    designs: Designs
    restarts: Float[Array, "r p"]
    factors: tuple[float, ...] = eqx.field(static=True)
    search: str | Adam = eqx.field(static=True)

    def on(self, x: Array, scale: Array, points: Array, weights: Array) -> Objective:
        """The objective for data x, the lengthscale of k multiplied by the scale."""
        n = x.shape[0]
        kernel = rescaled(self.objective.kernel, scale)
        return eqx.tree_at(
            lambda o: (o.kernel, o.points, o.weights, o.observed, o.shares),
            self.objective,
            (kernel, points, weights, x, jnp.full(n, 1 / n)),
        )


def check_rule(rule: Any) -> None:
    """Raises ValueError for anything but a rule."""
    if not isinstance(rule, Rule):
        raise ValueError(
            f"rule must be a rule such as owlfi.OptimallyWeighted(m=100), got {brief(rule)}"
        )


def check_slopes(
    names: Sequence[str], theta: Float[Array, " p"], slopes: Float[Array, "p m d"]
) -> None:
    """Raises ValueError where no simulation changes with a parameter: no search can move it.

    The replicates of an estimate that stayed where it began would fit too well.
    """
    for name, slope in zip(names, np.asarray(slopes), strict=True):
        if not slope.any():
            raise ValueError(
                f"y does not change with {name} near theta = {np.asarray(theta)}: the model is "
                "piecewise constant in it and cannot be fitted by its slopes; hold it with "
                "simulator.fix(...), or test a given theta"
            )


def rescaled(kernel: Kernel, scale: Any) -> Kernel:
    """The kernel with its lengthscale multiplied, where it has one."""
    if not hasattr(kernel, "lengthscale"):
        return kernel
    return eqx.tree_at(lambda k: k.lengthscale, kernel, kernel.lengthscale * scale)


def outcome(
    procedure: Procedure, key: Key[Array, ""], x: Array, scale: Array, start: Array
) -> Outcome:
    """The outcome of one data set (n, d), searched from a warm start (p,); for use inside jit."""
    designs, (design_key, search_key) = procedure.designs, jax.random.split(key)
    # Algorithm 1 simulates afresh for the statistic; a bank of one is the fixed design.
    i, j = jax.random.randint(design_key, (2,), 0, designs.points.shape[0])
    objective = procedure.on(x, scale, designs.points[i], designs.weights[i])
    if isinstance(procedure.search, Adam):
        bank = designs.points, designs.weights
        best = minimise_by_adam(search_key, objective, bank, procedure.restarts, procedure.search)
    else:
        best = _searched(procedure, objective, start)

    def simulated(points: Array) -> Array:
        return objective.simulator.rows(best.theta, points)

    y = jax.lax.map(simulated, designs.statistic_points[j])
    values = statistics(procedure, x, scale, y, designs.statistic_weights[j])
    failed = ~(jnp.isfinite(best.value) & jnp.isfinite(values).all())
    evaluations = best.evaluations + designs.statistic_points.shape[1]
    values = jnp.where(failed, jnp.inf, values)
    return Outcome(values, best.theta, evaluations, best.converged, best.value)


def _searched(procedure: Procedure, objective: Objective, start: Array) -> Minimum:
    if procedure.search == "none":
        return _known(start)
    starts = jnp.concatenate([start[None], procedure.restarts])
    return least(jax.lax.map(lambda s: minimise(objective, s), starts))


def _known(theta: Array) -> Minimum:
    nothing = jnp.zeros(())
    return Minimum(theta, nothing, jnp.array(0), jnp.array(True), theta[None], nothing[None])


def least(minima: Minimum) -> Minimum:
    """The best of some searches, with the evaluations of all."""
    best = jax.tree.map(lambda leaf: leaf[jnp.argmin(minima.value)], minima)
    return best._replace(evaluations=minima.evaluations.sum())


def statistics(
    procedure: Procedure,
    x: Float[Array, "n d"],
    scale: Array,
    y: Float[Array, "q m d"],
    weights: Float[Array, "l m"],
) -> Float[Array, " l"]:
    """The squared MMD for each lengthscale, from simulations on the points of one design."""
    values = []
    for number, factor in enumerate(procedure.factors):
        rows = y[number if len(y) > 1 else 0]
        objective = procedure.on(x, scale * factor, rows, weights[number])
        values.append(objective.of_rows(rows) + objective.data_term())
    return jnp.stack(values)


_jitted_statistics = eqx.filter_jit(statistics)


def outcome_on_host(
    procedure: Procedure, key: Key[Array, ""], x: Array, scale: Array, start: Array
) -> Outcome:
    """The same for a simulator that is no JAX function."""
    designs, (design_key, _) = procedure.designs, jax.random.split(key)
    i, j = jax.random.randint(design_key, (2,), 0, designs.points.shape[0])
    objective = procedure.on(x, scale, designs.points[i], designs.weights[i])
    if procedure.search == "none":
        best = _known(start)
    else:
        minima = [minimise_on_host(objective, s) for s in (start, *procedure.restarts)]
        best = least(jax.tree.map(lambda *leaves: jnp.stack(leaves), *minima))
    rows = [objective.simulator.rows(best.theta, points) for points in designs.statistic_points[j]]
    values = _jitted_statistics(procedure, x, scale, jnp.stack(rows), designs.statistic_weights[j])
    failed = ~(jnp.isfinite(best.value) & jnp.isfinite(values).all())
    evaluations = best.evaluations + designs.statistic_points.shape[1]
    values = jnp.where(failed, jnp.inf, values)
    return Outcome(values, best.theta, evaluations, best.converged, best.value)


_jitted_outcome = eqx.filter_jit(outcome)


def applied(
    procedure: Procedure, key: Key[Array, ""], x: Array, scale: Any, start: Array
) -> Outcome:
    """The outcome of one data set, on the host as plain numbers."""
    apply = outcome_on_host if procedure.objective.simulator.on_host else _jitted_outcome
    found = apply(procedure, key, x, jnp.asarray(scale), start)
    return jax.tree.map(np.asarray, found)
