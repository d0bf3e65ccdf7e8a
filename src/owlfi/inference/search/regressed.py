"""The squared MMD around an estimate by regression: a smooth function where simulations are not."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.programs import compile_fully
from owlfi._tools.real_line import Ends, from_real
from owlfi.inference.search.places import to_place
from owlfi.inference.search.scatter import EDGE, Scatter, terms

_WALL = 4.0  # times as steep as the valley: steeper ones mislead samplers that follow slopes


class Regressed(eqx.Module):
    """MMD² less its data term, quadratic embeddings in place of simulations.

    It rises beyond the thetas that were simulated, of which it knows nothing.
    """

    centre: Float[Array, " p"]
    spread: Float[Array, "p p"]
    regression: Float[Array, "b t"]
    products: Float[Array, "t t"]
    towards: Float[Array, " t"]
    """⟨μ_t, data⟩."""
    ends: Ends

    def at(self, v: Float[Array, " p"]) -> Float[Array, ""]:
        """The value at a place on the real line."""
        place = to_place(from_real(v, self.ends), self.ends)
        xi = jnp.linalg.solve(self.spread, place - self.centre)
        beyond = jnp.maximum(jnp.abs(xi) - EDGE, 0.0)
        mixture = terms(jnp.clip(xi, -EDGE, EDGE)) @ self.regression
        value = mixture @ (self.products @ mixture) - 2 * mixture @ self.towards
        along = self.regression[1 : 1 + len(xi)]
        valley = jnp.einsum("at,ts,as->a", along, self.products, along)  # of ξ², about
        return value + _WALL * valley @ beyond**2


@compile_fully
def regressed(scatter: Scatter) -> Regressed:
    """From the simulations around an estimate."""
    objective = scatter.objective
    towards = scatter.at_rows(objective.observed) @ objective.shares
    parts = scatter.centre, scatter.spread, scatter.regression, scatter.products
    return Regressed(*parts, towards, objective.ends)


@compile_fully
def regressed_value(objective: Regressed, v: Float[Array, " p"]) -> Float[Array, ""]:
    """The value as a program of its own."""
    return objective.at(v)
