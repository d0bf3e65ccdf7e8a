"""Theta and mass together: the model may be a share c of the data, c μ(theta) ≈ mean of f(x).

Gauss-Newton steps on Q = (f̄ - c μ)ᵀ W (f̄ - c μ), with W chosen anew after each round. Rows that no
theta explains are far from all anchors: their features are 0, and only c feels them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import Ends, from_real, log_slope, to_real
from owlfi.inference.efficient.features import Summed, sum_features
from owlfi.inference.efficient.moments import Model, Moments, Thinned
from owlfi.inference.efficient.weighting import (
    Weighting,
    choose_weighting,
    cross_covariance,
    full_weights,
)
from owlfi.inference.outliers import chances_of, find_outliers

_ROUNDS = 3
_STEPS = 2  # of a round
_TRIES = (1.0, 0.3)  # of a step, until one helps
_NOTHING = 0.3  # standard errors that a round may move theta, to be the last one
_SETTLED = 1.0  # the same where there are no more rounds
_NEAR = 0.1  # standard errors of a step that need not be taken
_STILL = 0.5  # of the last move, that a round more may move theta
_FAR = 3.0  # standard errors of a step, beyond which slopes tell little
_LEAST_MASS = 0.05
_FARTHEST = 2.0  # on the real line of parameters with an end, one step may go
_GUARDED = (0.8, 0.9, 0.99, 0.99, 0.99)  # of the simulations, that are near: round by round


class Balance(NamedTuple):
    """Theta and mass, and what they were found by."""

    model: Model
    theta: Float[np.ndarray, " p"]
    mass: float
    """Of the observations that were kept."""
    weighting: Weighting
    moments: Moments
    """At the theta where the last round began."""
    mean: Float[np.ndarray, " q"]
    """μ at theta itself."""
    data: Summed
    kept: Float[np.ndarray, " n"]
    """1 for observations, 0 for those that do not fit."""
    chances: Float[np.ndarray, " n"]
    far: Float[np.ndarray, " n"]
    """How far each observation is from the model."""
    errors: Float[np.ndarray, "a a"]
    """The covariance of theta and mass over data sets and designs of the simulations."""
    by_designs: Float[np.ndarray, "a a"]
    """The part of it that is over designs."""
    coarseness: float
    """The standard error that the points make, over that of the data."""
    moved: float
    """Standard errors that the last round moved theta."""
    calls: int
    short: bool = False
    """Whether calls ended, or Ctrl-C came, before its rounds did."""

    @property
    def settled(self) -> bool:
        """Whether more rounds would hardly move it."""
        return self.moved < _SETTLED and not self.short


class Place(NamedTuple):
    """Theta, mass and the mean of the features there."""

    theta: Float[np.ndarray, " p"]
    mass: float
    mean: Float[np.ndarray, " q"]

    def rest(self, mean: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        """What is left of the mean of the features of data."""
        return mean - self.mass * self.mean


def balance(
    model: Model,
    observed: Float[Array, "n d"],
    theta: Float[np.ndarray, " p"],
    ends: Ends,
    widths: Float[np.ndarray, " p"],
    distances: Float[np.ndarray, " m"] | None = None,
) -> Balance | None:
    """From a first estimate; None where parameters are not told apart there.

    distances: of simulations from the model; where given, only rows near the model count, of data
        and simulations alike, the nearest in the first rounds.
    """
    shares = (None,) * _ROUNDS if distances is None else _GUARDED
    equal = as_jax(np.full(len(observed), 1 / len(observed)))
    far = np.asarray(sum_features(model.features, observed, equal).distances)
    mass, calls = 1.0, 0
    found: Balance | None = None
    for share in shares:
        if distances is not None and share is not None:
            model = model.fade(float(np.quantile(distances, share)))
        try:
            found = _take_round(model, observed, far, theta, mass, ends, widths)
        except KeyboardInterrupt:
            if found is None or share is not None:  # half a guard guards nothing
                raise
            return _widen(found._replace(calls=calls, short=True))
        if found is None:
            return None
        theta, mass, distances = found.theta, found.mass, found.moments.distances
        calls += found.calls
        if found.short or (found.moved < _NOTHING and share in (None, shares[-1])):
            break
    return None if found is None else _widen(found._replace(calls=calls))


def _widen(found: Balance) -> Balance:
    """With errors for what rounds that were not taken might move, half of what the last one did."""
    if not found.short:
        return found
    return found._replace(errors=found.errors * (1 + (_STILL * found.moved) ** 2))


def _take_round(
    model: Model,
    observed: Float[Array, "n d"],
    far: Float[np.ndarray, " n"],
    theta: Float[np.ndarray, " p"],
    mass: float,
    ends: Ends,
    widths: Float[np.ndarray, " p"],
) -> Balance | None:
    """Observations that fit, a weighting and some steps by what is simulated at theta."""
    moments, calls = model.look(to_real(as_jax(theta), ends))
    chances = chances_of(far, moments.distances)
    kept = 1.0 - find_outliers(chances)
    if kept.sum() <= len(theta) + 1:
        return None
    data = sum_features(model.features, observed, as_jax(kept / kept.sum()))
    weighting = choose_weighting(model.features, moments, mass, widths)
    if weighting is None:
        return None
    measured = _errors(weighting, moments, mass, data, kept.sum())
    if measured is None:
        return None
    errors, by_designs, coarseness = measured
    begin = Place(theta, mass, moments.mean)
    end, more, short = _descend(model, begin, weighting, moments, data, errors, ends)
    moved = np.abs(end.theta - theta) / np.sqrt(np.diagonal(errors)[:-1])
    at_end = end.theta, end.mass, weighting, moments, end.mean
    seen = data, kept, chances, far
    known = errors, by_designs, coarseness, float(moved.max())
    return Balance(model, *at_end, *seen, *known, calls + more, short)


def _errors(
    weighting: Weighting, moments: Moments, mass: float, data: Summed, n: float
) -> tuple[Float[np.ndarray, "a a"], Float[np.ndarray, "a a"], float] | None:
    """The covariance over data sets and designs, the part of these, and how much they add.

    The observations' own covariance has n - p - 1 degrees of freedom, the model's gives the others.
    """
    p = moments.slopes.shape[2]
    free = max(n - p - 1, 0) / n
    own = np.asarray(data.covariance) * n / max(n - 1, 1)
    spread = free * own + (1 - free) * mass * moments.covariances.mean(0)
    over_data = cross_covariance(weighting, moments, mass, spread)
    found = full_weights(weighting, moments, mass)
    if over_data is None or found is None:
        return None
    moved = mass * moments.means[:, weighting.columns] @ found[0].T
    designs = np.cov(moved.T, ddof=1) / len(moved)
    over_data = over_data / max(free, 1 / n) / n
    worst = float(np.sqrt((np.diagonal(designs) / np.diagonal(over_data))[:-1].max()))
    by_designs = _smooth(designs, over_data)
    return over_data + by_designs, by_designs, worst


def _smooth(designs: Float[np.ndarray, "a a"], data: Float[np.ndarray, "a a"]) -> np.ndarray:
    """A few designs know a variance badly: half of it is that of all parameters together."""
    each = np.diagonal(designs) / np.diagonal(data)
    share = np.sqrt((each + each.mean()) / 2)
    return data * share[:, None] * share[None]


def _descend(
    model: Model,
    begin: Place,
    weighting: Weighting,
    moments: Moments,
    data: Summed,
    errors: Float[np.ndarray, "a a"],
    ends: Ends,
) -> tuple[Place, int, bool]:
    """Steps with W and slopes as they were at the beginning, their calls, and whether they ended.

    Where not even the first can be simulated, slopes tell where it leads.
    """
    found = full_weights(weighting, moments, begin.mass)
    assert found is not None  # the errors come from it
    b, w, _ = found
    observed, units = np.asarray(data.mean), np.sqrt(np.diagonal(errors))
    place, calls = begin, 0

    def rest(at: Place) -> np.ndarray:
        return at.rest(observed)[weighting.columns]

    for _ in range(_STEPS):
        step = b @ rest(place)
        if np.abs(step / units).max() < _NEAR:
            break
        value = rest(place) @ w @ rest(place)
        for share in _TRIES:
            try:
                tried, spent = move(model, place, share * step, ends)
            except KeyboardInterrupt:
                if place is begin and np.abs(step / units).max() > _FAR:
                    raise
                told = _foretell(begin, step, moments, ends) if place is begin else place
                return told, calls, True
            calls += spent
            if rest(tried) @ w @ rest(tried) < value:
                break
        else:
            break
        place = tried
    return place, calls, False


def _foretell(begin: Place, step: Float[np.ndarray, " a"], moments: Moments, ends: Ends) -> Place:
    """Theta, mass and mean after a step, without a simulation."""
    theta = move_theta(begin.theta, step[:-1], ends)[0]
    mean = begin.mean + moments.slopes.mean(0) @ (theta - begin.theta)
    return Place(theta, max(begin.mass + float(step[-1]), _LEAST_MASS), mean)


def move(
    model: Model | Thinned, place: Place, step: Float[np.ndarray, " a"], ends: Ends
) -> tuple[Place, int]:
    """Theta and mass after a step, and the calls of the simulations there."""
    theta, v = move_theta(place.theta, step[:-1], ends)
    mean, calls = model.mean(v)
    return Place(theta, max(place.mass + float(step[-1]), _LEAST_MASS), mean), calls


def move_theta(
    theta: Float[np.ndarray, " p"], step: Float[np.ndarray, " p"], ends: Ends
) -> tuple[Float[np.ndarray, " p"], Float[Array, " p"]]:
    """Theta after a step, which is straight on the real line, and its place there."""
    v = np.asarray(to_real(as_jax(theta), ends))
    slope = np.exp(np.asarray(log_slope(as_jax(v), ends)))
    whole_line = np.isinf(np.asarray(ends)).all(0)  # has a unit, where logarithms have none
    most = np.where(whole_line, np.inf, _FARTHEST)
    moved = as_jax(v + np.clip(step / slope, -most, most))
    return np.asarray(from_real(moved, ends)), moved
