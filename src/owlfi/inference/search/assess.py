"""How sure an estimate is: other designs, the sandwich, and a profile where it is no parabola."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.profile import Reach, find_end, is_parabola, normal_reach
from owlfi.inference.search.roughness import is_rough
from owlfi.inference.search.sandwich import Sandwich, sandwich
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import coarsen
from owlfi.inference.search.tangent import Designs, Tangent, no_designs
from owlfi.inference.search.ways import ByRegression, Landing, Way
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.real_line import Ends
from owlfi.problem.rules import Rule

_RIPPLED = 2.0  # times the Hessian of a resolved embedding
DESIGNS = 6
"""Of the same kind, that are simulated at an estimate."""
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
    """Whether few simulations, as those of long tails, make the slopes.

    They then pass single observations, and the squared MMD has ripples of its own around the
    estimate, steeper than its valley.
    """
    calls: "Calls"


class Calls(NamedTuple):
    """Rows of the simulator that searches took, with slopes where it has them, and others."""

    search: int
    other: int

    def add(self, search: int = 0, other: int = 0) -> "Calls":
        return Calls(self.search + search, self.other + other)


class Assessed(NamedTuple):
    """A landing and what is known of its errors."""

    way: Way
    landing: Landing
    errors: Errors
    reach: Reach
    calls: Calls

    def theta(self, bounds: Ends) -> Float[Array, " p"]:
        """The estimate: the minimum, shifted to that of the mean of other designs."""
        minimum = np.asarray(self.landing.minimum.theta)
        shift, (low, high) = np.asarray(self.errors.sandwich.shift), map(np.asarray, bounds)
        room = np.where(shift < 0, minimum - low, high - minimum)
        share = np.minimum(1.0, _ROOM * room / np.where(shift == 0, 1.0, np.abs(shift)))
        return as_jax(minimum + shift * share.min())


def assess(
    key: Key[Array, ""], rule: Rule, stage: Stage, way: Way, landing: Landing, tries: int = 2
) -> Assessed:
    """The errors of an estimate; of another one, where the look finds that it was not the best.

    tries: how often a better one is followed.
    """
    objective, theta = stage.objective, landing.minimum.theta
    errors = measure_errors(key, rule, stage, way, landing)
    usual = normal_reach(objective, errors.sandwich)
    if way.rough:
        return Assessed(way, landing, errors, usual, errors.calls)
    normal, looked = is_parabola(objective, theta, landing.value, errors.sandwich)
    calls = errors.calls.add(other=looked)
    if normal.all() and not errors.rippled:
        return Assessed(way, landing, errors, usual, calls)
    rough, looked = is_rough(coarsen(objective, 1.0), theta)
    calls = calls.add(other=looked)
    if tries and rough:
        other: Way = ByRegression(way.steps)
        return _assess_next(
            key, rule, stage, other, other.search(objective, theta, _RUNGS), calls, 0
        )
    reach, lower, spent = _profile(objective, landing, errors.sandwich, normal, way.steps)
    calls = calls.add(spent)
    if tries and lower is not None:
        next_best = way.search(objective, lower)
        return _assess_next(key, rule, stage, way, next_best, calls, tries - 1)
    return Assessed(way, landing, errors, reach, calls)


def _assess_next(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    landing: Landing,
    calls: Calls,
    tries: int,
) -> Assessed:
    found = assess(key, rule, stage, way, landing, tries)
    spent = found.calls.add(int(landing.minimum.calls))
    return found._replace(calls=calls.add(*spent))


def measure_errors(
    key: Key[Array, ""], rule: Rule, stage: Stage, way: Way, landing: Landing
) -> Errors:
    """From the slopes of the embedding, and from other designs of the rule."""
    designs, other = redraw(key, rule, stage, landing.minimum.theta)
    tangent, search = way.tangent(stage.objective, landing, designs)
    shares, known = stage.objective.shares, stage.quadrature.excess
    found = sandwich(tangent, shares, stage.widths, known, stage.quadrature.independent)
    excess, failed = _excess(stage, designs), float(tangent.failed)
    return Errors(found, excess, failed, is_rippled(tangent), Calls(search, other))


def is_rippled(tangent: Tangent) -> bool:
    """Whether single points, that move alone, are much of how the embedding moves.

    H = 2 ⟨∂μ, ∂μ⟩ for a model that is right, but for what each point has with itself: it is part of
    the metric, and not of H, since k(y_i, y_i) does not change.
    """
    metric, hessian = np.diag(tangent.metric), np.diag(tangent.hessian)
    return bool((2 * metric > _RIPPLED * np.abs(hessian)).any())


def redraw(
    key: Key[Array, ""], rule: Rule, stage: Stage, theta: Float[Array, " p"]
) -> tuple[Designs, int]:
    """Simulations at theta on other designs of the same kind, none where the rule has none."""
    quadrature = rule.redraw(key, stage.problem, stage.quadrature, DESIGNS)
    if quadrature is None:
        return no_designs(stage.objective), 0
    y = _simulate_designs(stage.objective, theta, quadrature.points)
    designs = Designs(y, quadrature.weights)
    if not np.isfinite(y).all():
        designs, enough = _leave_out_failed(stage.objective, *designs)
        designs = jax.tree.map(lambda leaf: leaf[np.asarray(enough)], designs)
    return designs, y.shape[0] * y.shape[1]


@compile_quickly
def _leave_out_failed(
    objective: Objective, y: Float[Array, "r m d"], weights: Float[Array, "r m"]
) -> tuple[Designs, Bool[Array, " r"]]:
    """The designs without simulations that failed, and which have enough others."""
    kept = jax.vmap(lambda rows, w: objective.on(rows, w).finished(rows))(y, weights)
    return Designs(kept.y, kept.weights), kept.enough


@compile_where_it_runs
def _simulate_designs(
    objective: Objective, theta: Float[Array, " p"], points: Float[Array, "r m s"]
) -> Float[Array, "r m d"]:
    columns = objective.observed.shape[1]
    return objective.runtime.map(lambda u: objective.simulator.attempt(theta, u, columns), points)


def _excess(stage: Stage, designs: Designs) -> float:
    """What the points add: half the squared MMD between two designs, on average."""
    if len(designs.y) > 1:
        return float(_mean_distance(stage.objective, designs)) / 2
    known = stage.quadrature.excess
    return stage.independent_excess if known is None else float(known)


@compile_quickly
def _mean_distance(objective: Objective, designs: Designs) -> Float[Array, ""]:
    k, (r, m) = objective.data_kernel, designs.weights.shape
    own = jax.lax.map(lambda design: k.self_sum(*design), designs)
    flat, w = designs.y.reshape(r * m, -1), designs.weights.reshape(-1)
    others = (k.self_sum(flat, w) - own.sum()) / (r * (r - 1))
    return 2 * (own.mean() - others)


def _profile(
    objective: Objective, landing: Landing, spread: Sandwich, normal: np.ndarray, steps: int
) -> tuple[Reach, Array | None, int]:
    """The ends that are no parabola's, the lowest theta found beside the estimate, the calls."""
    reach, calls, lower = [np.array(side) for side in normal_reach(objective, spread)], 0, []
    for place, side in np.argwhere(~normal):
        sign = -1 if side == 0 else 1
        theta, value = landing.minimum.theta, landing.value
        end = find_end(objective, theta, value, spread, int(place), sign, steps)
        reach[side][place], calls = end.reach, calls + end.calls
        lower += [] if end.lower is None else [end.lower]
    best = min(lower, key=lambda pair: pair[1], default=None)
    return Reach(*reach), None if best is None else best[0], calls
