"""Intervals from the profile of the squared MMD, where it is no parabola.

An end of an interval is where the squared MMD, minimised over the other parameters, has risen by as
much as the sandwich says that it rises at so many standard errors. On ridges and near bounds that
holds where a normal interval does not; it does not depend on how parameters are written.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import t

from owlfi.inference.search.newton import minimise
from owlfi.inference.search.objective import LocalModel, Objective, newton_model, simulate_each
from owlfi.inference.search.sandwich import Sandwich
from owlfi.inference.search.starts import values_of_rows

_PARABOLA = 0.6, 1.67  # of the rise that a parabola has, to count as one
_CLOSE = 0.07  # of the root of the rise, for an end
_TRIALS = 8
_INSIDE = 1e-6  # of the way to a bound, on which no search can stand
_LOWER = 0.02  # of the rise, to count as another minimum


class Reach(NamedTuple):
    """How far a 90% interval extends from the estimate, by parameter."""

    below: Float[np.ndarray, " p"]
    above: Float[np.ndarray, " p"]


def usual_units(n: int, p: int) -> float:
    """Standard errors of an end of a 90% interval: those of few observations are known badly."""
    return float(t.ppf(0.95, max(n - p, 1)))


def normal_reach(objective: Objective, sandwich: Sandwich) -> Reach:
    """As far as the covariance says."""
    errors = _units(objective) * np.sqrt(np.diag(np.asarray(sandwich.covariance)))
    return Reach(errors, errors)


def _units(objective: Objective) -> float:
    return usual_units(objective.observed.shape[0], objective.widths.shape[0])


def is_parabola(
    objective: Objective, theta: Float[Array, " p"], value: float, sandwich: Sandwich
) -> tuple[np.ndarray, int]:
    """Whether the squared MMD rises as it should at both ends (p, 2), and the calls of the look."""
    p, low, high = len(theta), *(np.asarray(end) for end in objective.ends)
    with np.errstate(all="ignore"):
        steps = _units(objective) * np.asarray(_ridge_steps(sandwich))
        ends = np.asarray(theta) + np.stack([-steps, steps], 1)  # (p, 2, p)
        within = ((ends > low) & (ends < high)).all(-1) & np.isfinite(ends).all(-1)
    places = np.where(within[..., None], ends, np.asarray(theta))
    y = simulate_each(objective, jnp.asarray(places.reshape(2 * p, p)))
    rises = np.asarray(values_of_rows(objective, y)).reshape(p, 2) - value
    expected = _units(objective) ** 2 * np.asarray(sandwich.rise)[:, None]
    with np.errstate(all="ignore"):
        ratio = rises / expected
    return within & (ratio > _PARABOLA[0]) & (ratio < _PARABOLA[1]), 2 * p * objective.m


def _ridge_steps(sandwich: Sandwich) -> Float[Array, "p p"]:
    """Each parameter a standard error off, the others where a parabola would have them."""
    inverse = jnp.linalg.inv(sandwich.hessian)
    variance = jnp.diag(inverse)
    errors = jnp.sqrt(jnp.diag(sandwich.covariance))
    return (errors / variance)[:, None] * inverse


class Pinned(eqx.Module):
    """The model of a search in which one parameter stays."""

    place: Int[Array, ""]

    def __call__(
        self, objective: Objective, v: Float[Array, " p"], below: Array | float
    ) -> LocalModel:
        model = newton_model(objective, v, below)
        free = jnp.arange(v.shape[0]) != self.place
        largest = jnp.abs(model.hessian).max()
        both = free[:, None] & free[None]
        hessian = jnp.where(both, model.hessian, jnp.diag(jnp.full(v.shape[0], largest)))
        return model._replace(gradient=jnp.where(free, model.gradient, 0.0), hessian=hessian)


class End(NamedTuple):
    """One end of an interval, or the end of the prior where the rise is not reached."""

    reach: float
    lower: tuple[Array, float] | None
    """A theta with a smaller squared MMD than the estimate's, found on the way, and its value."""
    calls: int


def find_end(
    objective: Objective,
    theta: Float[Array, " p"],
    value: float,
    sandwich: Sandwich,
    place: int,
    side: int,
    steps: int,
) -> End:
    """Where the profile of one parameter reaches the rise, below (-1) or above (+1)."""
    goal = _units(objective) * np.sqrt(float(sandwich.rise[place]))
    error = float(jnp.sqrt(sandwich.covariance[place, place]))
    if not (np.isfinite(error) and goal > 0):
        return End(np.inf, None, 0)
    room = abs(float(objective.ends[1 if side > 0 else 0][place] - theta[place]))
    near, far = (0.0, 0.0), None  # distances from the estimate, and the roots of their rises
    at, calls, lower, step = theta, 0, None, min(_units(objective) * error, room)
    for _ in range(_TRIALS):
        moved = at.at[place].set(theta[place] + side * min(step, (1 - _INSIDE) * room))
        found = minimise(objective, moved, model=Pinned(jnp.array(place)), steps=steps)
        calls += int(found.calls)
        rise = float(found.value) - value
        if rise < -_LOWER * goal**2 and (lower is None or rise + value < lower[1]):
            lower = found.theta, float(found.value)
        root = np.sqrt(max(rise, 0.0)) if np.isfinite(rise) else np.inf
        if root < goal:
            near, at = (step, root), found.theta
        else:
            far = step, root
        if root < goal and step >= room:  # nothing speaks against the end of the prior
            return End(np.inf, lower, calls)
        if abs(root / goal - 1) < _CLOSE:
            break
        step = min(_next_step(near, far, goal), room)
    return End(step, lower, calls)


def _next_step(near: tuple[float, float], far: tuple[float, float] | None, goal: float) -> float:
    """Twice as far until the rise is reached, then between: roots of rises are nearly straight."""
    if far is None:
        return 2 * near[0]
    if not np.isfinite(far[1]):
        return (near[0] + far[0]) / 2
    share = (goal - near[1]) / (far[1] - near[1])
    return near[0] + float(np.clip(share, 0.1, 0.9)) * (far[0] - near[0])
