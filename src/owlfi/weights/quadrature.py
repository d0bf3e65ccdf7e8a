"""Points with weights: what stands for a measure in every method."""

from typing import Any

import equinox as eqx
import jax
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
    independent: bool = eqx.field(static=True, default=False)
    """Whether the points are independent draws of the measure, equally weighted."""
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

    @property
    def tuning_calls(self) -> int:
        """Rows that the simulator computed to tune the weights."""
        return 0 if self.pilot is None else self.pilot.calls

    @property
    def excess(self) -> Float[Array, "..."] | None:
        """The squared error that the points add to the embedding, as far as it is known.

        None stands for that of independent points, 0 is taken where there is no estimate.
        """
        if self.certificate is None:
            return None if self.independent else jnp.zeros(())
        return jnp.maximum(jnp.nan_to_num(self.certificate.excess), 0.0)

    def at(self, thetas: Any) -> "Quadrature":
        """The designs of some thetas, where each has one of its own; otherwise the one of all."""
        return self if self.points.ndim == 2 else jax.tree.map(lambda leaf: leaf[thetas], self)

    def explain(self) -> str:
        """In plain words: whether the weights help, what limits them, and what to do."""
        return explanation(self.points, self.weights, self.condition, self.certificate)


def unweighted(
    points: Float[Array, "... m s"], *, independent: bool = False, unbiased: bool = False
) -> Quadrature:
    """Equal weights without a base kernel, so without a worst-case error."""
    blank = jnp.ones(points.shape[:-2])
    error, kind = jnp.nan * blank, (independent, unbiased)
    return Quadrature(points, equal_shares(points), error, blank, 0 * blank, *kind)


def with_certificate(quadrature: Quadrature, certificate: Certificate) -> Quadrature:
    """The quadrature with what is known of its error."""
    return eqx.tree_at(
        lambda q: q.certificate, quadrature, certificate, is_leaf=lambda leaf: leaf is None
    )


def equal_shares(u: Float[Array, "... m s"]) -> Float[Array, "... m"]:
    """1/m for each point."""
    return jnp.full(u.shape[:-1], 1 / u.shape[-2], float)
