"""How far a minimum-distance estimate may be off: the sandwich covariance H⁻¹ S H⁻¹.

S is the covariance of the gradient of MMD² over samples of observations and over designs of the
points, H its Hessian.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.keys import numpy_generator
from owlfi.inference.search.tangent import Tangent

_FARTHEST = 3.0  # standard errors that other designs may shift an estimate
_LONGEST = 0.25  # widths of the prior that they may, along which a parabola is still believed
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
    moved: Float[Array, " p"]
    """The same in standard errors, before it is limited to what a parabola tells."""
    by_designs: Float[Array, "p p"]
    """What of the covariance comes from the choice of the points."""


@np.errstate(all="ignore")  # flat directions divide by 0
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
    # All of it is small: there is nothing to compile.
    moved: Any = jax.tree.map(np.asarray, tangent)
    v, units = np.asarray(shares), np.asarray(widths)
    p, n = moved.at_data.shape[0], int(np.count_nonzero(v))
    free = n / max(n - p, 1)  # the residuals of a fit are smaller than errors
    spread = 4 * free * _covariance(moved.at_data, v) * np.sum(v**2)
    of_design = _of_design(moved, excess, independent)
    averaged = max(moved.at_designs.shape[1], 1)
    scale = units[:, None] * units[None]
    definite = _eigh(moved.hessian * scale)[0][0] > 0
    curved = np.where(definite, moved.hessian, 2 * moved.metric)
    sizes, directions = _eigh(curved * scale)
    least = _FLAT * np.abs(sizes).max() + np.finfo(float).tiny
    inverse = directions @ (directions.T / np.maximum(sizes, least)[:, None]) * scale
    covariance = inverse @ (spread + of_design / averaged) @ inverse
    flat = ((directions**2) @ (sizes <= least)) > _FLAT**0.5
    variance = np.diag(covariance)
    rise = variance / (2 * np.diag(inverse))
    flat = flat | ~np.isfinite(variance)
    known = np.where(flat[:, None] | flat[None], 0.0, covariance)
    infinite = np.eye(len(flat), dtype=bool) & flat[None]
    by_data, by_design = (np.diag(inverse @ part @ inverse) for part in (spread, of_design))
    step = directions.T @ (units * _other_gradient(moved, independent)) / np.maximum(sizes, least)
    believed = np.clip(step, -_LONGEST, _LONGEST)
    asked, shift = (np.where(flat, 0.0, -units * (directions @ s)) for s in (step, believed))
    size = (np.abs(shift) / np.sqrt(by_data + by_design)).max(where=~flat, initial=0.0)
    shift = shift * np.minimum(1.0, _FARTHEST / (size + np.finfo(float).tiny))
    coarseness = np.sqrt(by_design / by_data)
    of_points = np.where(flat[:, None] | flat[None], 0.0, inverse @ of_design @ inverse) / averaged
    moved_by = np.where(flat, 0.0, np.abs(asked) / np.sqrt(variance))
    found = np.where(infinite, np.inf, known), curved, rise, coarseness, shift, moved_by, of_points
    return Sandwich(*jax.device_put(found))  # all at once, in half of the time


def widen(found: Sandwich) -> Sandwich:
    """Where a search has not ended: with what is left of the way to the minimum as an error."""
    variance, moved = (np.asarray(part) for part in (np.diag(found.covariance), found.moved))
    more = np.where(np.isfinite(variance), variance, 0.0) * moved**2
    return found._replace(covariance=as_jax(np.asarray(found.covariance) + np.diag(more)))


def find_idle(sandwich: Sandwich, widths: Float[np.ndarray, " p"]) -> Bool[np.ndarray, " p"]:
    """Which parameters MMD² is flat along alone, not together with others as on a ridge."""
    curved = np.abs(np.asarray(sandwich.hessian)) * np.outer(widths, widths)
    flat = np.isinf(np.diag(np.asarray(sandwich.covariance)))
    return flat & (curved.max(1) <= _FLAT**0.5 * curved.max())


def draw_by_designs(
    key: Key[Array, ""], by_designs: Float[Array | np.ndarray, "p p"], count: int
) -> Float[np.ndarray, "b p"]:
    """So many draws of how far the choice of the points moves an estimate."""
    spread = np.asarray(by_designs)
    sizes, directions = np.linalg.eigh(np.where(np.isfinite(spread), spread, 0.0))
    noise = numpy_generator(key).normal(size=(count, len(sizes)))
    return noise * np.sqrt(np.maximum(sizes, 0.0)) @ directions.T


def _eigh(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """NaN where the matrix is."""
    if np.isfinite(matrix).all():
        return np.linalg.eigh(matrix)
    return np.full(len(matrix), np.nan), np.full_like(matrix, np.nan)


def _other_gradient(tangent: Any, independent: bool) -> Float[np.ndarray, " p"]:
    """2 ⟨∂μ, mean of other designs - data⟩, where that of its own design is 0."""
    if not tangent.at_designs.shape[1]:
        return np.zeros(tangent.at_designs.shape[0])
    found = 2 * (tangent.at_designs.mean(1) - tangent.towards_data)
    # The bias of independent points falls as 1/m: what is left of it goes, too.
    return found / (1 - tangent.overlap) if independent and tangent.overlap < 1 else found


def _of_design(
    tangent: Any, excess: ArrayLike | None, independent: bool
) -> Float[np.ndarray, "p p"]:
    """What the choice of the points of one design adds."""
    own, designs = tangent.of_points, tangent.at_designs.shape[1]
    if independent:
        return own
    if designs > 1:
        seen = 4 * np.var(tangent.at_designs, axis=1, ddof=1)
        each = seen / (np.diag(own) + np.finfo(float).tiny)
        share = np.sqrt((each + each.mean()) / 2)  # a few designs know a variance badly
        return own * share[:, None] * share[None]
    if excess is None:
        return own
    error = tangent.independent
    return np.where(error > 0, own * excess / error, 0.0)  # one point has no spread


def _covariance(values: Float[np.ndarray, "p n"], shares: np.ndarray) -> Float[np.ndarray, "p p"]:
    centred = values - (values @ shares)[:, None]
    return (centred * shares[None]) @ centred.T
