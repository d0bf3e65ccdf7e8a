"""How sure an estimate is: other designs, the sandwich, and a profile where it is no parabola."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import Ends
from owlfi.inference.search.designs import Designs, Simulated, half_distance, no_designs
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.profile import Reach, Rises, find_end, look_at_rises, normal_reach
from owlfi.inference.search.roughness import is_rough
from owlfi.inference.search.sandwich import Sandwich, sandwich, widen
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import coarsen
from owlfi.inference.search.strays import FEW_DESIGNS, NO_ROWS, find_strays, look_for_strays
from owlfi.inference.search.ways import ByRegression, BySlopes, Calls, Landing, Way
from owlfi.inference.search.widely import is_doubtful
from owlfi.problem.rules import Rule
from owlfi.problem.spending import OutOfCallsError, calls_left, is_tight, keep_back

_RIPPLED = 0.5  # of the slopes
_NO_CALLS = Calls(0, 0)
DESIGNS = 6
"""Of the same kind, that are simulated at an estimate."""
_NEAR = 3.0  # standard errors to a minimum, beyond which a parabola tells little of the way there
_ROOM = 0.5  # of the way to a bound, that a shift may go
_RUNGS = (4.0, 2.0, 1.0)  # back up the ladder, where a search went astray


class Errors(NamedTuple):
    """What the data and the points leave open at an estimate."""

    sandwich: Sandwich
    excess: float
    """What the points add to the squared MMD, as far as it is known."""
    failed: float
    """The share of simulations that failed."""
    rippled: bool
    """Whether simulations that are alone, as those of long tails, make most of the slopes.

    They then pass single observations, and the squared MMD has ripples of its own around the
    estimate, steeper than its valley.
    """
    strays: Int[np.ndarray, " k"]
    """Observations that are unlike all simulations."""
    calls: Calls
    known: bool = True
    """Whether calls did for them; else they are infinite."""
    later: bool = False
    """Whether they are left to another discrepancy, which has simulations of its own."""


class Assessed(NamedTuple):
    """A landing and what is known of its errors."""

    way: Way
    landing: Landing
    errors: Errors
    reach: Reach
    calls: Calls

    @property
    def without_slopes(self) -> Scatter | None:
        """The simulations around it, where their derivatives do not tell how they change."""
        return None if self.way.smooth else self.landing.scatter

    def theta(self, bounds: Ends) -> Float[Array, " p"]:
        """The estimate: the minimum, shifted to that of the mean of other designs."""
        minimum = np.asarray(self.landing.minimum.theta)
        shift, (low, high) = np.asarray(self.errors.sandwich.shift), map(np.asarray, bounds)
        room = np.where(shift < 0, minimum - low, high - minimum)
        share = np.minimum(1.0, _ROOM * room / np.where(shift == 0, 1.0, np.abs(shift)))
        return as_jax(minimum + shift * share.min())


def assess(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    landing: Landing,
    *,
    tries: int = 2,
    whole: bool = True,
) -> Assessed:
    """The errors of an estimate; of another one, where the look finds that it was not the best.

    tries: how often a better one is followed.
    whole: whether also where slopes do not tell them, for those who take them as final. Where calls
        are scarce, the errors of others are left to what they go on with.
    """
    if way.rough:
        return _assess_rough(key, rule, stage, way, landing, tries, whole)
    errors = _measure_errors(key, rule, stage, way, landing, whole)
    usual = normal_reach(stage.objective, errors.sandwich)
    plain = Assessed(way, landing, errors, usual, errors.calls)
    if not (errors.known or errors.later):
        return plain
    look = _look_further if whole else _look_for_jumps
    try:
        return look(key, rule, stage, plain, tries)
    except OutOfCallsError:
        return plain


def leave_unknown(stage: Stage, way: Way, landing: Landing, calls: Calls = _NO_CALLS) -> Assessed:
    """An estimate whose errors nothing is known of."""
    errors = unknown_errors(stage)
    reach = normal_reach(stage.objective, errors.sandwich)
    return Assessed(way, landing, errors, reach, calls)


def _look_for_jumps(
    key: Key[Array, ""], rule: Rule, stage: Stage, plain: Assessed, tries: int
) -> Assessed:
    """Whether the simulator is smooth at the estimate, and its errors by regression where not."""
    central = stage.problem.prior.pull_in(plain.landing.minimum.theta)
    rough, looked = is_rough(coarsen(stage.objective, 1.0), central)
    calls = plain.calls.add(other=looked)
    if tries and rough:
        return _assess_by_regression(key, rule, stage, plain, central, calls, whole=False)
    return plain._replace(calls=calls)


def _look_further(
    key: Key[Array, ""], rule: Rule, stage: Stage, plain: Assessed, tries: int
) -> Assessed:
    """Whether errors along slopes can be believed, and other ones where not."""
    way, landing, errors, usual, calls = plain
    objective, theta = stage.objective, landing.minimum.theta
    central = stage.problem.prior.pull_in(theta)  # at an end nothing moves on the real line
    if tries and errors.rippled:
        found = _look_past_ripples(key, rule, stage, way, central, errors.sandwich, calls)
        if _is_sure(found):
            return found
        calls = found.calls
    rises = look_at_rises(objective, theta, landing.value, errors.sandwich)
    calls = calls.add(other=rises.calls)
    if rises.normal.all():
        return plain._replace(calls=calls)
    rough, looked = is_rough(coarsen(objective, 1.0), central)
    calls = calls.add(other=looked)
    if tries and rough and not errors.rippled:
        return _assess_by_regression(key, rule, stage, plain, central, calls)
    reach, lower, spent = _profile(objective, landing, errors.sandwich, rises, way.steps)
    calls = calls.add(spent)
    if tries and lower is not None:
        next_best = way.search(objective, lower)
        return _assess_next(key, rule, stage, way, next_best, calls, tries - 1)
    return plain._replace(reach=Reach(*map(_extend, reach, usual)), calls=calls)


def _assess_rough(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    landing: Landing,
    tries: int,
    whole: bool,
) -> Assessed:
    """What was rough where the search began may be smooth where it ended."""
    objective, calls = stage.objective, Calls(0, 0)
    if tries:
        central = stage.problem.prior.pull_in(landing.minimum.theta)
        rough, looked = _look_again(objective, way, central)
        calls = calls.add(other=looked)
        if not rough:
            smooth: Way = BySlopes(way.steps)
            with suppress(OutOfCallsError):
                found = smooth.search(objective, central, _RUNGS)
                return _assess_next(key, rule, stage, smooth, found, calls, tries - 1, whole)
    errors = _measure_errors(key, rule, stage, way, landing, whole)
    reach = normal_reach(objective, errors.sandwich)
    return Assessed(way, landing, errors, reach, calls.add(*errors.calls))


def _look_again(objective: Objective, way: Way, theta: Float[Array, " p"]) -> tuple[bool, int]:
    """Whether it is rough at an estimate, as far as calls are left beside those for its errors."""
    try:
        with keep_back(way.error_calls(objective, DESIGNS)):
            return is_rough(coarsen(objective, 1.0), theta)
    except OutOfCallsError:
        return True, 0


def _assess_by_regression(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    plain: Assessed,
    theta: Float[Array, " p"],
    calls: Calls,
    whole: bool = True,
) -> Assessed:
    """Over thetas as far apart as the data leave them jumps average out."""
    other = ByRegression(plain.way.steps)
    try:
        found = other.search(stage.objective, theta, _RUNGS)
        return _assess_next(key, rule, stage, other, found, calls, 0, whole)
    except OutOfCallsError:
        if not is_tight():
            raise
        return leave_unknown(stage, *plain[:2], calls)  # slopes do not tell them


def _look_past_ripples(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    theta: Float[Array, " p"],
    known: Sandwich,
    calls: Calls,
) -> Assessed:
    """The same where the squared MMD alone has ripples, at an estimate that is about right."""
    other, covariance = ByRegression(way.steps, smooth=True), known.covariance
    if np.isfinite(np.asarray(covariance)).all():
        found = other.search_near(stage.objective, theta, covariance, _RUNGS)
    else:
        found = other.search(stage.objective, theta, _RUNGS)
    return _assess_next(key, rule, stage, other, found, calls, 0)


def _extend(profile: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """A valley beside the true one, as between ripples or along a ridge, narrows no interval."""
    return np.where(np.isfinite(usual), np.maximum(profile, usual), profile)


def _is_sure(found: Assessed) -> bool:
    """Whether a search by regression ended at one place, with errors in all directions."""
    finite = np.isfinite(np.diag(np.asarray(found.errors.sandwich.covariance))).all()
    return bool(found.landing.minimum.converged) and bool(finite)


def _assess_next(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    landing: Landing,
    calls: Calls,
    tries: int,
    whole: bool = True,
) -> Assessed:
    found = assess(key, rule, stage, way, landing, tries=tries, whole=whole)
    spent = found.calls.add(int(landing.minimum.calls))
    return found._replace(calls=calls.add(*spent))


def _measure_errors(
    key: Key[Array, ""], rule: Rule, stage: Stage, way: Way, landing: Landing, whole: bool
) -> Errors:
    """The same as far as calls do for it; wider, where they did not do for the search."""
    if is_tight() and not (whole or way.rough):
        theta, designs = landing.minimum.theta, redraw(key, rule, stage, FEW_DESIGNS)
        strays = look_for_strays(stage.objective, theta, designs)
        return unknown_errors(stage, strays)._replace(later=True)
    try:
        found = measure_errors(key, rule, stage, way, landing)
    except OutOfCallsError:
        if not is_tight():
            raise
        return unknown_errors(stage)
    if not is_tight() or bool(landing.minimum.converged):
        return found
    far = np.maximum(np.asarray(found.sandwich.moved), np.asarray(found.sandwich.coarseness))
    if far.max() < _NEAR and not is_doubtful(stage, landing):  # not where NaN
        return found._replace(sandwich=widen(found.sandwich))
    return unknown_errors(stage)


def unknown_errors(stage: Stage, strays: Int[np.ndarray, " k"] = NO_ROWS) -> Errors:
    """Infinite ones."""
    p = len(stage.widths)
    none, square = as_jax(np.zeros(p)), as_jax(np.zeros((p, p)))
    wide = as_jax(np.diag(np.full(p, np.inf)))
    found = Sandwich(wide, square, none, none, none, none, square)
    excess = stage.independent_excess
    return Errors(found, excess, 0.0, False, strays, Calls(0, 0), known=False)


def measure_errors(
    key: Key[Array, ""], rule: Rule, stage: Stage, way: Way, landing: Landing
) -> Errors:
    """From the slopes of the embedding, and from other designs of the rule."""
    designs = redraw(key, rule, stage, _afford_designs(stage, way))
    tangent, seen, calls = way.look(key, stage.objective, landing, designs)
    shares, known = stage.objective.shares, stage.quadrature.excess
    found = sandwich(tangent, shares, stage.widths, known, stage.quadrature.independent)
    rippled = bool(np.asarray(tangent.alone).max() > _RIPPLED)
    strays = find_strays(stage.objective, seen)
    return Errors(found, _excess(stage, seen), float(tangent.failed), rippled, strays, calls)


def redraw(key: Key[Array, ""], rule: Rule, stage: Stage, count: int = DESIGNS) -> Designs:
    """Other designs of the same kind, none where the rule has none."""
    drawn = rule.redraw(key, stage.problem, stage.quadrature, count)
    return no_designs(stage.objective) if drawn is None else Designs(drawn.points, drawn.weights)


def _excess(stage: Stage, designs: Simulated) -> float:
    """What the points of one design add to the squared MMD."""
    if len(designs.y) > 1:
        return float(half_distance(stage.objective, designs))
    known = stage.quadrature.excess
    return stage.independent_excess if known is None else float(known)


def _profile(
    objective: Objective, landing: Landing, spread: Sandwich, rises: Rises, steps: int
) -> tuple[Reach, Array | None, int]:
    """The ends that are no parabola's, the lowest theta found beside the estimate, the calls."""
    reach, calls, lower = [np.array(side) for side in normal_reach(objective, spread)], 0, []
    for place, side in np.argwhere(~rises.normal):
        sign, risen = -1 if side == 0 else 1, float(rises.ratios[place, side])
        theta, value = landing.minimum.theta, landing.value
        end = find_end(objective, theta, value, spread, int(place), sign, risen, steps)
        reach[side][place], calls = end.reach, calls + end.calls
        lower += [] if end.lower is None else [end.lower]
    best = min(lower, key=lambda pair: pair[1], default=None)
    return Reach(*reach), None if best is None else best[0], calls


def _afford_designs(stage: Stage, way: Way) -> int:
    """As many as calls are left for, at least one."""
    if not is_tight():
        return DESIGNS
    m, simulator = stage.objective.m, stage.problem.simulator
    each = m if way.rough else simulator.slope_calls(m)
    return int(np.clip(calls_left() // each, 1, DESIGNS))
