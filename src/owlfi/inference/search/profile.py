"""Intervals from the profile of the squared MMD, where it is no parabola.

An end of an interval is where the squared MMD, minimised over the other parameters, has risen by as
much as the sandwich says that it rises at so many standard errors. On ridges and near bounds that
holds where a normal interval does not; it does not depend on how parameters are written.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import stdtrit

from owlfi._tools.arrays import as_jax
from owlfi._tools.covariances import take_out_units
from owlfi._tools.real_line import to_real
from owlfi.inference.search.newton import minimise
from owlfi.inference.search.objective import Objective, value_at
from owlfi.inference.search.sandwich import Sandwich

_PARABOLA = 0.6, 1.67  # of the rise that a parabola has, to count as one
_CLOSE = 0.07  # of the root of the rise, for an end
_ENOUGH = 0.02  # of the rise, to which a search along the profile is taken
_TRIALS = 8
_FARTHER = 2.0  # at a time
_INSIDE = 1e-6  # of the way to a bound, on which no search can stand
_LOWER = 0.02  # of the rise, to count as another minimum


class Reach(NamedTuple):
    """How far a 90% interval extends from the estimate, by parameter."""

    below: Float[np.ndarray, " p"]
    above: Float[np.ndarray, " p"]


def usual_units(n: int, p: int) -> float:
    """Standard errors of an end of a 90% interval: those of few observations are known badly."""
    return float(stdtrit(max(n - p, 1), 0.95))


def normal_reach(objective: Objective, sandwich: Sandwich) -> Reach:
    """As far as the covariance says."""
    errors = _units(objective) * np.sqrt(np.diag(np.asarray(sandwich.covariance)))
    return Reach(errors, errors)


def _units(objective: Objective) -> float:
    return usual_units(objective.n, objective.widths.shape[0])


class Rises(NamedTuple):
    """How the squared MMD rises to both ends of normal intervals."""

    ratios: Float[np.ndarray, "p 2"]
    """Over those of a parabola; 0 where an end lies outside of the prior."""
    calls: int

    @property
    def normal(self) -> Bool[np.ndarray, "p 2"]:
        """Whether it rises as a parabola does."""
        return (self.ratios > _PARABOLA[0]) & (self.ratios < _PARABOLA[1])


def look_at_rises(
    objective: Objective, theta: Float[Array, " p"], value: float, sandwich: Sandwich
) -> Rises:
    """The squared MMD where normal intervals end."""
    low, high = (np.asarray(end) for end in objective.ends)
    with np.errstate(all="ignore"):
        steps = _units(objective) * _ridge_steps(sandwich)
        ends = np.asarray(theta) + np.stack([-steps, steps], 1)  # (p, 2, p)
        within = ((ends > low) & (ends < high)).all(-1) & np.isfinite(ends).all(-1)
    ratios, looked = np.zeros(within.shape), int(within.sum())
    if looked:
        places = to_real(as_jax(ends[within]), objective.ends)
        rises = np.asarray(objective.runtime.map_cases(value_at, objective, places)) - value
        expected = _units(objective) ** 2 * np.asarray(sandwich.rise)[np.nonzero(within)[0]]
        with np.errstate(all="ignore"):
            ratios[within] = np.nan_to_num(rises / expected, posinf=np.inf)
    return Rises(ratios, looked * objective.m)


def _ridge_steps(sandwich: Sandwich) -> Float[np.ndarray, "p p"]:
    """Each parameter a standard error off, the others where a parabola would have them."""
    hessian, covariance = np.asarray(sandwich.hessian), np.asarray(sandwich.covariance)
    finite = bool(np.isfinite(hessian).all())
    singular = not finite or np.linalg.matrix_rank(take_out_units(hessian)[0]) < len(hessian)
    inverse = np.full_like(hessian, np.nan) if singular else np.linalg.inv(hessian)
    with np.errstate(all="ignore"):
        return (np.sqrt(np.diag(covariance)) / np.diag(inverse))[:, None] * inverse


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
    risen: float,
    steps: int,
) -> End:
    """Where the profile of one parameter reaches the rise, below (-1) or above (+1).

    risen: how much of it where a normal interval ends, 0 where that is not known.
    """
    goal = _units(objective) * np.sqrt(np.asarray(sandwich.rise)[place])
    error = np.sqrt(np.asarray(sandwich.covariance)[place, place])
    if not (np.isfinite(error) and goal > 0):
        return End(np.inf, None, 0)
    end = np.asarray(objective.ends[1 if side > 0 else 0])
    room = abs(float(end[place] - np.asarray(theta)[place]))
    near, far = (0.0, 0.0), None  # distances from the estimate, and the roots of their rises
    usual = _units(objective) * error
    calls, lower, step = 0, None, min(_first_step(risen) * usual, room)
    path, enough = _follow_ridge(sandwich, place), as_jax(_ENOUGH * goal**2)
    for trial in range(_TRIALS):
        moved = _move_inside(objective, theta, side * min(step, (1 - _INSIDE) * room) * path)
        held = np.int64(place)  # all arguments as of searches: one program serves both
        found = minimise(objective, moved, steps=steps, tolerance=enough, held=held, whole=True)
        calls += int(found.calls)
        rise = float(found.value) - value
        if rise < -_LOWER * goal**2 and (lower is None or rise + value < lower[1]):
            lower = found.theta, float(found.value)
        root = np.sqrt(max(rise, 0.0)) if np.isfinite(rise) else np.inf
        if np.isfinite(root):
            path = _path_to(theta, found.theta, place)
        if root < goal:
            near = step, root
        else:
            far = step, root
        if root < goal and step >= room:  # nothing speaks against the end of the prior
            return End(np.inf, lower, calls)
        if abs(root / goal - 1) < _CLOSE or (root > goal and step <= usual):
            return End(step, lower, calls)
        step = min(_next_step(near, far, goal, trial == 0), room)
    return End(np.inf if far is None else step, lower, calls)


def _first_step(risen: float) -> float:
    """Roots of rises are nearly straight; nearer than a normal interval none ends."""
    return float(np.clip(1 / np.sqrt(risen), 1.0, _FARTHER)) if risen > 0 else 1.0


def _follow_ridge(sandwich: Sandwich, place: int) -> Float[np.ndarray, " p"]:
    """How all parameters change with one of them, as a parabola would have it."""
    steps = _ridge_steps(sandwich)[place]
    with np.errstate(all="ignore"):
        path = steps / steps[place]
    return path if np.isfinite(path).all() else np.eye(len(path))[place]


def _path_to(theta: Array, found: Array, place: int) -> Float[np.ndarray, " p"]:
    """The same by a point of the profile."""
    moved = np.asarray(found) - np.asarray(theta)
    return moved / moved[place]


def _move_inside(
    objective: Objective, theta: Float[Array, " p"], step: Float[np.ndarray, " p"]
) -> Float[Array, " p"]:
    """Where a step leads, or almost to the end of the prior."""
    low, high = (np.asarray(end) for end in objective.ends)
    here = np.asarray(theta)
    nearly = here - (1 - _INSIDE) * (here - low), here + (1 - _INSIDE) * (high - here)
    return as_jax(np.clip(here + step, *nearly))


def _next_step(
    near: tuple[float, float], far: tuple[float, float] | None, goal: float, straight: bool
) -> float:
    """Farther until the rise is reached, then between: roots of rises are nearly straight.

    straight: whether that is to be believed beyond what was seen; far out a rise may have an end.
    """
    if far is None:
        told = goal / max(near[1], goal / _FARTHER) if straight else _FARTHER
        return near[0] * float(np.clip(told, 1 + _CLOSE, _FARTHER))
    if not np.isfinite(far[1]):
        return (near[0] + far[0]) / 2
    share = (goal - near[1]) / (far[1] - near[1])
    return near[0] + float(np.clip(share, 0.1, 0.9)) * (far[0] - near[0])
