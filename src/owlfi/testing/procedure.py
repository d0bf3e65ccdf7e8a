"""What a goodness-of-fit test does to every data set alike, the observed one included.

One fit, and the squared MMD at its minimum, for one or several lengthscales of k.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from owlfi._tools.programs import compile_fully
from owlfi.inference.search.objective import Objective
from owlfi.kernels import Kernel
from owlfi.mmd import own_term
from owlfi.problem.jax_or_host import Runtime, compile_where_it_runs
from owlfi.testing.searches import Prepared
from owlfi.testing.views import compare_views, name_views


class Designs(eqx.Module):
    """A bank of designs: those that fits are made on, and those of the statistics.

    The statistics of all l lengthscales share their points (q = 1), or have points each (q = l).
    """

    points: Float[Array, "k m s"]
    weights: Float[Array, "k m"]
    statistic_points: Float[Array, "k q m s"]
    statistic_weights: Float[Array, "k l m"]

    @property
    def statistic_calls(self) -> int:
        """The rows that the statistics of a data set take."""
        return self.statistic_points.shape[1] * self.statistic_points.shape[2]


class Refit(NamedTuple):
    """Of one data set."""

    statistics: Float[Array, "... l"]
    """+∞ where the fit failed."""
    theta: Float[Array, "... p"]
    calls: Int[Array, "..."]
    converged: Bool[Array, "..."]
    value: Float[Array, "..."]
    """Of the objective at its minimum."""


class Procedure(eqx.Module):
    """From a data set to its statistics.

    objective: its simulator, kernel k and bounds; designs and data take the place of its own.
    others: (r, p), where searches begin besides the estimate, in case there are other minima.
    factors: of the lengthscale of k, one for each statistic.
    views: whether other views of the data follow, each a statistic, too.
    """

    objective: Objective
    designs: Designs
    others: Float[Array, "r p"]
    factors: tuple[float, ...] = eqx.field(static=True)
    search: Prepared
    views: bool = eqx.field(static=True, default=False)

    @property
    def names(self) -> list[str]:
        """Of the statistics."""
        wide = [f"{factor:g} lengthscales" for factor in self.factors]
        d = self.objective.observed.shape[1]
        return [*wide, *name_views(d)] if self.views else wide

    @property
    def runtime(self) -> Runtime:
        """Where the simulator runs."""
        return self.objective.runtime

    def refit(self, key: Key[Array, ""], x: Array, k: Kernel, start: Any) -> Refit:
        """What comes out for data x (n, d), searched from a start, as plain numbers.

        k: the objective's, or the like of it with the lengthscales of these data.
        """
        found = _refit(self, key, x, k, jnp.asarray(start))
        return jax.tree.map(np.asarray, found)

    def refit_from(self, key: Key[Array, ""], x: Array, starts: Float[Array, "b p"]) -> Refit:
        """The same from as many other starts."""
        moved = eqx.tree_at(lambda procedure: procedure.others, self, starts[1:])
        return moved.refit(key, x, self.objective.data_kernel, starts[0])


@compile_where_it_runs
def _refit(procedure: Procedure, key: Key[Array, ""], x: Array, k: Kernel, start: Array) -> Refit:
    designs, (design_key, search_key) = procedure.designs, jax.random.split(key)
    # Algorithm 1 simulates afresh for the statistic; a bank of one is the fixed design.
    i, j = jax.random.randint(design_key, (2,), 0, designs.points.shape[0])
    data = eqx.tree_at(lambda o: o.data_kernel, procedure.objective.with_data(x), k)
    objective = data.on(designs.points[i], designs.weights[i])
    starts = jnp.concatenate([start[None], procedure.others])
    bank = designs.points, designs.weights
    best = procedure.search.minimise(search_key, objective, bank, starts)
    simulator = objective.simulator
    points = designs.statistic_points[j]
    columns = x.shape[1]
    y = procedure.runtime.map(lambda u: simulator.attempt(best.theta, u, columns), points)
    weights = designs.statistic_weights[j]
    values = _compare(data, procedure.factors, y, weights)
    if procedure.views:
        usual = procedure.factors.index(1.0)
        rows = y[usual if len(y) > 1 else 0]
        kept = eqx.tree_at(lambda o: o.weights, data, weights[usual]).finished(rows)
        values = jnp.concatenate([values, _compare_views(data, kept.y, kept.weights)])
    failed = ~(jnp.isfinite(best.value) & jnp.isfinite(values).all())
    calls = best.calls + designs.statistic_calls
    values = jnp.where(failed, jnp.inf, values)
    return Refit(values, best.theta, calls, best.converged, best.value)


@compile_fully
def _compare(
    data: Objective,
    factors: tuple[float, ...],
    y: Float[Array, "q m d"],
    weights: Float[Array, "l m"],
) -> Float[Array, " l"]:
    """The squared MMD for each lengthscale, from simulations on the points of one design."""
    values = []
    for number, factor in enumerate(factors):
        rows = y[number if len(y) > 1 else 0]
        objective = eqx.tree_at(lambda o: o.weights, data.stretch(factor), weights[number])
        own = own_term(objective.data_kernel, data.observed, data.shares, data.unbiased)
        values.append(objective.of_rows(rows) + own)
    return jnp.stack(values)


_compare_views = compile_fully(compare_views)
