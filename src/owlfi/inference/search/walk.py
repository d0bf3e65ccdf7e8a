"""A search by regression: scatter, move to the minimum of the regression, look closer."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.places import from_place, steepness, to_place
from owlfi.inference.search.sandwich import sandwich
from owlfi.inference.search.scatter import (
    EDGE,
    Scatter,
    is_too_wide,
    minimise_inside,
    scatter_around,
)
from owlfi.inference.search.tangent_by_regression import tangent_by_regression
from owlfi.problem.spending import OutOfCallsError

_FIRST_SPREAD = 0.5  # in widths of the prior
_SCATTERED = 2.0  # standard errors of the estimate, to regress over
_UNSURE = 8.0  # times as many, where it may lie in a valley beside the true one
_LEAST, _MOST = 1 / 9, 4.0  # factors of a variance, at a time
_SETTLED = 0.3, 3.3  # of a variance, where another look would hardly change it
_NEAR = 1.0  # of a move, in units of the spread
_FARTHEST = 1e300
_LEAST_KNOWN = 1e-8  # of a variance, in widths of the prior


class Walk(NamedTuple):
    """A search under way."""

    v: Float[Array, " p"]
    spread: Float[Array, "p p"]
    """Of the thetas to scatter around v."""
    value: float = np.inf
    scatters: int = 0
    calls: int = 0
    settled: bool = False
    scatter: Scatter | None = None
    trail: tuple[tuple[Array, float], ...] = ()


def first_walk(objective: Objective, start: Float[Array, " p"]) -> Walk:
    """At a start, with a look around as wide as the prior."""
    spread = np.diag(_FIRST_SPREAD * np.asarray(objective.units))
    return Walk(to_place(start, objective.ends), as_jax(spread))


def walk_near(
    objective: Objective, theta: Float[Array, " p"], covariance: Float[Array, "p p"]
) -> Walk:
    """At an estimate whose errors are known about, with a look much wider than they ask for."""
    place, wide = to_place(theta, objective.ends), _UNSURE**2 * np.asarray(covariance)
    known = _limit(objective, as_jax(wide), steepness(place, objective.ends))
    units = np.asarray(objective.units)
    sizes, directions = np.linalg.eigh(known / np.outer(units, units))
    sizes = np.maximum(sizes, _LEAST_KNOWN * sizes.max())
    return Walk(place, as_jax(_SCATTERED * units[:, None] * directions * np.sqrt(sizes)))


def walk(objective: Objective, begun: Walk, rounds: int) -> Walk:
    """On from where a walk stands, until nothing changes, or the calls are spent."""
    now = begun._replace(settled=False)
    for _ in range(rounds):
        try:
            now = _advance(objective, now)
        except OutOfCallsError:
            if not now.trail:  # nothing was seen on these points
                raise
            break
        if now.settled:
            break
    return now


def _advance(objective: Objective, now: Walk) -> Walk:
    scatter, made = scatter_around(objective, now.v, now.spread, now.scatters)
    now = now._replace(calls=now.calls + made, scatters=now.scatters + 1)
    if scatter is None:  # closer to where it did not fail
        return now._replace(spread=now.spread / 3)
    found = minimise_inside(scatter)
    xi, value = found.xi, float(found.value)
    moved = float(jnp.abs(xi).max())
    inside = moved < 0.9 * EDGE
    factors, directions = _look_closer(scatter, xi)
    v = scatter.place(xi)
    return now._replace(
        v=v,
        value=value,
        spread=_change(now.spread, factors, directions) if inside else now.spread,
        settled=inside and moved < _NEAR and _are_settled(factors),
        scatter=scatter,
        trail=(*now.trail, (v, value)),
    )


def _change(spread: Array, factors: np.ndarray, directions: np.ndarray) -> Float[Array, "p p"]:
    """Half of the way where a look asks for closer and wider at once: much of that is noise."""
    least, most = _SETTLED
    torn = factors.min() < least and factors.max() > most
    return jnp.asarray(np.asarray(spread) @ directions * factors ** (1 / 4 if torn else 1 / 2))


def _look_closer(scatter: Scatter, xi: Float[Array, " p"]) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the variance in some directions: towards twice the standard errors in each."""
    objective = scatter.objective
    tangent = tangent_by_regression(scatter, xi)
    errors = sandwich(tangent, objective.shares, objective.widths, jnp.array(0.0))
    covariance = _limit(objective, errors.covariance, scatter.steepness(xi))
    inverse = np.linalg.inv(scatter.spread)
    sizes, directions = np.linalg.eigh(inverse @ covariance @ inverse.T)
    most = 0.5 if bool(is_too_wide(scatter)) else _MOST
    return np.clip(_SCATTERED**2 * sizes, _LEAST, most), directions


def _limit(objective: Objective, covariance: Array, slope: Array) -> Float[np.ndarray, "p p"]:
    """The covariance of places, no wider than the prior where the data tell nothing.

    slope: of parameters by their places.
    """
    by_place = np.asarray(covariance) / np.outer(slope, slope)
    known = np.nan_to_num(by_place, posinf=_FARTHEST)
    widest = _FIRST_SPREAD / _SCATTERED * np.asarray(objective.units)
    with np.errstate(divide="ignore"):
        shrink = np.minimum(1.0, widest / np.sqrt(np.diag(known)))
    return known * np.outer(shrink, shrink)


def _are_settled(factors: np.ndarray) -> bool:
    least, most = _SETTLED
    return bool(least <= factors.min() and factors.max() <= most)


def end_walk(scatter: Scatter) -> Walk:
    """At the minimum of one regression."""
    found = minimise_inside(scatter)
    return Walk(scatter.place(found.xi), scatter.spread, float(found.value), settled=True)


def as_minimum(objective: Objective, ended: Walk) -> Minimum:
    """Where a walk ended, as of any search."""
    vs, values = zip(*ended.trail, strict=True) if ended.trail else ([ended.v], [ended.value])
    return Minimum(
        from_place(ended.v, objective.ends),
        jnp.array(ended.value),
        jnp.array(ended.calls),
        jnp.array(ended.settled),
        from_place(jnp.stack(vs), objective.ends),
        jnp.array(values),
    )
