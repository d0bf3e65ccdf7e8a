"""Points with weights: what stands for a measure in every method."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.weights.certificate import Certificate, explanation


class Pilot(eqx.Module):
    """Simulations made to tune weights: kept, and counted."""

    thetas: Float[Array, "t p"]
    y: Float[Array, "t m d"]
    calls: int = eqx.field(static=True)
    """Rows that the simulator computed, those of thetas that failed included."""


class Quadrature(eqx.Module):
    """Points u with weights w: Σ w_i f(u_i) ≈ ∫ f dU. Leading axes are separate designs."""

    points: Float[Array, "... m s"]
    weights: Float[Array, "... m"]
    squared_worst_case_error: Float[Array, "..."]
    """I - 2 wᵀz + wᵀCw; rounding leaves about 1e-16 I, of either sign; NaN without a kernel c."""
    condition: Float[Array, "..."]
    """An estimate of the condition number of C with its nugget."""
    nugget: Float[Array, "..."]
    """What was added to the diagonal of C to compute the weights."""
    unbiased: bool = eqx.field(static=True, default=False)
    """Whether the pairs i = j are left out of the squared MMD: the U-statistic."""
    certificate: Certificate | None = None
    """An estimate of the error, where the weights were tuned to simulations."""
    pilot: Pilot | None = None
    """The simulations they were tuned to, on the points of the quadrature."""

    @property
    def m(self) -> int:
        """The number of points of a design."""
        return self.points.shape[-2]

    @property
    def sum_of_weights(self) -> Float[Array, "..."]:
        """Near 1 where constants are integrated well."""
        return self.weights.sum(-1)

    @property
    def sum_of_absolute_weights(self) -> Float[Array, "..."]:
        """How much errors of single simulations are amplified; far above 1 is a warning."""
        return jnp.abs(self.weights).sum(-1)

    def explain(self) -> str:
        """In plain words: whether the weights help, what limits them, and what to do."""
        return explanation(self.points, self.weights, self.condition, self.certificate)


def unweighted(points: Float[Array, "... m s"], *, unbiased: bool = False) -> Quadrature:
    """Equal weights without a base kernel, so without a worst-case error."""
    blank = jnp.ones(points.shape[:-2])
    return Quadrature(points, equal_shares(points), jnp.nan * blank, blank, 0 * blank, unbiased)


def with_certificate(quadrature: Quadrature, certificate: Certificate) -> Quadrature:
    """The quadrature with what is known of its error."""
    return eqx.tree_at(
        lambda q: q.certificate, quadrature, certificate, is_leaf=lambda leaf: leaf is None
    )


def equal_shares(u: Float[Array, "... m s"]) -> Float[Array, "... m"]:
    """1/m for each point."""
    return jnp.full(u.shape[:-1], 1 / u.shape[-2], float)
