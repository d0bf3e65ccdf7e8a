"""Other designs around the middle of the draws: what the one of all draws lacks there.

All draws share one design, whose errors change slowly with theta: as a constant and a slope, by the
mean of others. The constant is by their points without weights, which may err alike in each design.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.covariances import root_of
from owlfi._tools.real_line import from_real, to_real
from owlfi.inference.adjustment.features import Features, error_of_design, error_of_independent
from owlfi.inference.adjustment.slopes import (
    Both,
    OverDesigns,
    Scatter,
    gather_points,
    slopes_between,
)
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import Simulations, simulate
from owlfi.weights.quadrature import Quadrature

_ROWS, _FEWEST, _MOST = 2048, 16, 64  # rows, or designs, at the middle
_SLOPE_ROWS, _FEWEST_SLOPES, _MOST_SLOPES = 4096, 4, 16


class Redrawn(NamedTuple):
    """Simulations on the design of all draws, and on others of its kind."""

    middle: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p p"]
    """Of the draws on the real line: they reach to middle ± root_a along axis a."""
    own: Float[Array, "1 m d"]
    """At the middle."""
    own_ends: Float[Array, "e m d"]
    """At both ends of each axis, first those above."""
    others: Float[Array, "r m d"]
    ends: Float[Array, "k e m d"]
    """Of the first of the others, none where simulations failed."""
    weights: Float[np.ndarray, "r m"]


class Compared(NamedTuple):
    """How the features of a design differ from those of others."""

    middle: Float[np.ndarray, " p"] | None
    """None where there were no others."""
    there: Float[np.ndarray, " q"]
    """What they lack at the middle."""
    slope: Float[np.ndarray, "p q"]
    """How that changes on the real line."""
    design: Float[np.ndarray, " q"]
    """The variance that the choice of the designs leaves."""
    slopes: Scatter

    def lacking(self, v: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """What is to be added to features of the design at some places."""
        return self.there + (v - (0 if self.middle is None else self.middle)) @ self.slope


def count_redrawn(rule: Rule, p: int) -> tuple[int, int]:
    """How many other designs are looked at in the middle, and at the ends."""
    slopes = np.clip(_SLOPE_ROWS // (2 * p * rule.m), _FEWEST_SLOPES, _MOST_SLOPES)
    return int(np.clip(_ROWS // rule.m, _FEWEST, _MOST)), int(slopes)


def redrawn_calls(rule: Rule, p: int) -> int:
    """Rows that are simulated for them, where none fails."""
    count, slopes = count_redrawn(rule, p)
    return rule.m * (1 + count + 2 * p * (1 + slopes))


def redraw(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    quadrature: Quadrature,
    thetas: Float[Array, "n p"],
) -> tuple[Redrawn | None, int]:
    """Simulations around the middle of some draws, and the calls; None without other designs.

    quadrature: of the runs, with points that all thetas share.
    """
    ends, p = problem.prior.bounds, thetas.shape[1]
    count, slopes = count_redrawn(rule, p)
    others = rule.redraw(key, problem, quadrature, count)
    if others is None:
        return None, 0
    v = np.asarray(to_real(thetas, ends))
    middle, root = v.mean(0), root_of(np.cov(v.T).reshape(p, p))
    places = from_real(as_jax(np.stack([middle, *(middle + root.T), *(middle - root.T)])), ends)
    some = others.at(np.repeat(np.arange(slopes), 2 * p))
    options: dict[str, Any] = {"check": False, "keep_failed": True}
    options["columns"] = problem.observed.shape[1]
    own = simulate(problem.simulator, places, quadrature, **options)
    at_middle = jnp.broadcast_to(places[0], (count, p))
    more = simulate(problem.simulator, at_middle, others, **options)
    there = simulate(problem.simulator, jnp.tile(places[1:], (slopes, 1)), some, **options)
    calls = own.calls + more.calls + there.calls
    fine = np.isfinite(np.asarray(more.y)).all((1, 2))
    if not np.isfinite(np.asarray(own.y[0])).all() or fine.sum() < 2:
        return None, calls
    beside = there.y.reshape(slopes, 2 * p, *there.y.shape[1:])
    whole = fine[:slopes].all() and np.isfinite(np.asarray(beside)).all()
    whole &= np.isfinite(np.asarray(own.y)).all()
    weights = np.asarray(others.weights)[fine]
    parts = own.y[:1], own.y[1:], more.y[fine], beside[: slopes if whole else 0], weights
    return Redrawn(middle, root, *parts), calls


def compare_designs(
    problem: Problem, features: Features, runs: Simulations, redrawn: Redrawn | None
) -> Compared:
    """By other designs, or without any by what is known of the error of the one."""
    p, q = runs.thetas.shape[1], len(features.observed)
    by_chance = error_of_independent(features, runs.y[0]).sum()

    def compare_with_chance(error: Float[np.ndarray, " q"]) -> float:
        return float(error.sum() / by_chance) if by_chance > 0 else 1.0  # all rows may be alike

    if redrawn is None:
        error = error_of_design(features, problem.data_kernel, runs.quadrature, runs.y[0])
        points = gather_points(features, runs, compare_with_chance(error))
        return Compared(None, np.zeros(q), np.zeros((p, q)), error, points)
    weights = np.asarray(runs.quadrature.weights)
    plain = features.of(redrawn.others, np.ones_like(redrawn.weights))
    there = plain.mean(0) - features.of(redrawn.own, weights)[0]
    design = plain.var(0, ddof=1) / len(plain)
    alike = features.of(redrawn.others, redrawn.weights).var(0, ddof=1)
    share = compare_with_chance(alike)
    if len(redrawn.ends) < 2:
        points = gather_points(features, runs, share)
        return Compared(redrawn.middle, there, np.zeros((p, q)), design, points)
    root = redrawn.root
    own = slopes_between(features.of(redrawn.own_ends, weights)[None], root)
    pairs = zip(redrawn.ends, redrawn.weights, strict=False)
    slopes = slopes_between(np.stack([features.of(y, w) for y, w in pairs]), root)
    points = gather_points(features, runs, share, redrawn.own_ends, root)
    scatter = Both(first=points, second=OverDesigns(slopes=slopes))
    return Compared(redrawn.middle, there, slopes.mean(0) - own[0], design, scatter)
