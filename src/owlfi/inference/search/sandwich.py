"""How far a minimum-distance estimate may be off: the sandwich covariance H⁻¹ S H⁻¹.

S is the covariance of the gradient of MMD² over samples of observations and over designs of the
points, H its Hessian.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from owlfi.inference.search.tangent import Tangent

_FARTHEST = 3.0  # standard errors that other designs may shift an estimate
_FLAT = 1e-10  # of the largest curvature, in widths of the prior


class Sandwich(NamedTuple):
    """The covariance of an estimate, and the Hessian of MMD² there."""

    covariance: Float[Array, "p p"]
    """Infinite in directions along which MMD² is flat."""
    hessian: Float[Array, "p p"]
    rise: Float[Array, " p"]
    """By how much MMD² rises where a parameter is one standard error off, the others refitted."""
    coarseness: Float[Array, " p"]
    """The standard error that the points of one design make, over that of the data."""
    shift: Float[Array, " p"]
    """From the minimum on its own points to that on the mean of other designs, by a Newton step.

    On its own points MMD² has a bias towards simulations that differ little.
    """
    by_designs: Float[Array, "p p"] | None = None
    """What of the covariance comes from the choice of the points."""


@eqx.filter_jit
def sandwich(
    tangent: Tangent,
    shares: Float[Array, " n"],
    widths: Float[Array, " p"],
    excess: ArrayLike | None = None,
    independent: bool = False,
) -> Sandwich:
    """Of an estimate.

    widths: of the parameters, by which curvatures are compared.
    excess: the squared MMD between the weighted points and the law of the simulator, where no other
        designs were tried; None for that of independent points, of order 1/m.
    independent: whether the points of the designs are independent draws.
    """
    p, n = tangent.at_data.shape
    free = n / max(n - p, 1)  # the residuals of a fit are smaller than errors
    spread = 4 * free * _covariance(tangent.at_data, shares) * jnp.sum(shares**2)
    of_design = _of_design(tangent, excess, independent)
    averaged = max(tangent.at_designs.shape[1], 1)
    scale = widths[:, None] * widths[None]
    definite = jnp.linalg.eigvalsh(tangent.hessian * scale)[0] > 0
    curved = jnp.where(definite, tangent.hessian, 2 * tangent.metric)
    sizes, directions = jnp.linalg.eigh(curved * scale)
    least = _FLAT * jnp.abs(sizes).max() + jnp.finfo(float).tiny
    inverse = directions @ (directions.T / jnp.maximum(sizes, least)[:, None]) * scale
    covariance = inverse @ (spread + of_design / averaged) @ inverse
    flat = ((directions**2) @ (sizes <= least)) > _FLAT**0.5
    variance = jnp.diag(covariance)
    rise = variance / (2 * jnp.diag(inverse))
    flat = flat | ~jnp.isfinite(variance)
    known = jnp.where(flat[:, None] | flat[None], 0.0, covariance)
    infinite = jnp.eye(len(flat), dtype=bool) & flat[None]
    by_data, by_design = (jnp.diag(inverse @ part @ inverse) for part in (spread, of_design))
    shift = jnp.where(flat, 0.0, -inverse @ _other_gradient(tangent, shares))
    size = (jnp.abs(shift) / jnp.sqrt(by_data + by_design)).max(where=~flat, initial=0.0)
    shift = shift * jnp.minimum(1.0, _FARTHEST / (size + jnp.finfo(float).tiny))
    coarseness = jnp.sqrt(by_design / by_data)
    of_points = jnp.where(flat[:, None] | flat[None], 0.0, inverse @ of_design @ inverse)
    covariance = jnp.where(infinite, jnp.inf, known)
    return Sandwich(covariance, curved, rise, coarseness, shift, of_points / averaged)


def _other_gradient(tangent: Tangent, shares: Float[Array, " n"]) -> Float[Array, " p"]:
    """2 ⟨∂μ, mean of other designs - data⟩, where 2 ⟨∂μ, own design - data⟩ is 0."""
    if not tangent.at_designs.shape[1]:
        return jnp.zeros(tangent.at_designs.shape[0])
    return 2 * (tangent.at_designs.mean(1) - tangent.at_data @ shares)


def _of_design(
    tangent: Tangent, excess: ArrayLike | None, independent: bool
) -> Float[Array, "p p"]:
    """What the choice of the points of one design adds."""
    m, designs = tangent.at_points.shape[1], tangent.at_designs.shape[1]
    own = 4 / m * _covariance(tangent.at_points, jnp.full(m, 1 / m))
    if independent:
        return own
    if designs > 1:
        seen = 4 * jnp.var(tangent.at_designs, axis=1, ddof=1)
        each = seen / (jnp.diag(own) + jnp.finfo(float).tiny)
        share = jnp.sqrt((each + each.mean()) / 2)  # a few designs know a variance badly
        return own * share[:, None] * share[None]
    if excess is None:
        return own
    error = tangent.independent
    return jnp.where(error > 0, own * excess / error, 0.0)  # one point has no spread


def _covariance(values: Float[Array, "p n"], shares: Array) -> Float[Array, "p p"]:
    centred = values - (values @ shares)[:, None]
    return (centred * shares[None]) @ centred.T
