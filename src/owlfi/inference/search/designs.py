"""Other designs of the same rule, simulated at an estimate: how much depends on the points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax, take_rows
from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.objective import Objective
from owlfi.problem.jax_or_host import compile_where_it_runs


class Designs(NamedTuple):
    """Points and weights of r designs."""

    points: Float[Array, "r m s"]
    weights: Float[Array, "r m"]


def no_designs(objective: Objective) -> Designs:
    """Where the choice of the points is known to matter little, or by a formula."""
    m, s = objective.points.shape
    return Designs(as_jax(np.zeros((0, m, s))), as_jax(np.zeros((0, m))))


def draw_apart(key: Key[Array, ""], objective: Objective) -> Designs:
    """Independent points, equally weighted, where the rule has no other designs."""
    points = objective.simulator.measure.sample(key, objective.m)[None]
    return Designs(points, as_jax(np.full((1, objective.m), 1 / objective.m)))


class Simulated(NamedTuple):
    """Simulations on some designs without those that failed, which have weight 0."""

    y: Float[Array, "r m d"]
    weights: Float[Array, "r m"]
    enough: Bool[Array, " r"]
    """Whether enough of a design is left."""

    def whole(self) -> "Simulated":
        """The designs of which enough is left."""
        if np.asarray(self.enough).all():
            return self
        return jax.tree.map(lambda leaf: take_rows(leaf, np.asarray(self.enough)), self)


@compile_where_it_runs
def simulate_designs(
    objective: Objective, theta: Float[Array, " p"], points: Float[Array, "r m s"]
) -> Float[Array, "r m d"]:
    """The rows of each design."""
    columns = objective.observed.shape[1]
    if not len(points):
        return jnp.zeros((*points.shape[:2], columns))
    return objective.runtime.map(lambda u: objective.simulator.attempt(theta, u, columns), points)


@compile_quickly
def leave_out_failed(
    objective: Objective, y: Float[Array, "r m d"], weights: Float[Array, "r m"]
) -> Simulated:
    """The rows that did not fail share the weight of their design."""
    kept = jax.vmap(lambda rows, w: objective.on(rows, w).finished(rows))(y, weights)
    return Simulated(kept.y, kept.weights, kept.enough)


@compile_quickly
def half_distance(objective: Objective, designs: Simulated) -> Float[Array, ""]:
    """Half the squared MMD between two designs, on average: what the points of one add."""
    k, (r, m) = objective.data_kernel, designs.weights.shape
    own = jax.lax.map(lambda design: k.self_sum(*design), (designs.y, designs.weights))
    flat, w = designs.y.reshape(r * m, -1), designs.weights.reshape(-1)
    others = (k.self_sum(flat, w) - own.sum()) / (r * (r - 1))
    return own.mean() - others
