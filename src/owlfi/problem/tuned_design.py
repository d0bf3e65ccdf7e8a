"""Points and weights tuned to simulations at some thetas, in coordinates that these may teach."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.keys import split_key
from owlfi.measures import Measure, Rotated
from owlfi.problem.learned_coordinates import (
    SLOPE_ROWS,
    Learned,
    learn_coordinates,
    learn_from_runs,
)
from owlfi.problem.pilot_spread import spread_factors
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import simulate
from owlfi.weights.data_grams import are_enough
from owlfi.weights.directions import FEWEST_COORDINATES, MOST_GIVEN
from owlfi.weights.quadrature import Pilot, Quadrature, unweighted
from owlfi.weights.tuned import weigh_runs

Points = Callable[[Key[Array, ""], int, Any], Float[Array, "m s"]]
MOST_NOISE = 16.0  # where y is too rough for weights, they cost at most 4 times the error


class Runs(NamedTuple):
    """Simulations on one design at the thetas where enough are finite."""

    u: Float[Array, "m s"]
    thetas: Float[np.ndarray, "t p"]
    y: Float[np.ndarray, "t m d"]
    calls: int


def learns(measure: Measure) -> bool:
    """Whether other coordinates may serve better than those of the measure."""
    return measure.smooth and measure.dim >= FEWEST_COORDINATES


def tune_design(
    key: Key[Array, ""], problem: Problem, points: Points, m: int, thetas: Float[Array, "t p"]
) -> Quadrature:
    """Weights on points drawn in the coordinates of the noise as it is given."""
    runs = run_design(problem, points(key, m, problem.simulator.measure), thetas)
    return _tune(problem, problem.simulator.measure, runs, runs.calls)


def tune_learned_design(
    key: Key[Array, ""], problem: Problem, points: Points, m: int, thetas: Float[Array, "t p"]
) -> Quadrature:
    """The same in learned coordinates.

    With few coordinates, points drawn in those that were given may serve as well: c only looks
    along the learned ones. The smaller certificate decides.
    """
    point_key, learn_key = split_key(key)
    measure = problem.simulator.measure
    if measure.dim > MOST_GIVEN:
        learned = learn_for(learn_key, problem, thetas, m)
        runs = run_design(problem, points(point_key, m, learned.measure), thetas)
        return _tune(problem, learned.measure, runs, runs.calls + learned.calls)
    first = run_design(problem, points(point_key, m, measure), thetas)
    learned = _learn_beside(learn_key, problem, first)
    calls = first.calls + learned.calls
    if not isinstance(learned.measure, Rotated):
        return _tune(problem, measure, first, calls)
    again = run_design(problem, points(point_key, m, learned.measure), thetas)
    calls += again.calls
    both = [_tune(problem, learned.measure, runs, calls) for runs in (first, again)]
    return min(both, key=_estimated_excess)


def retune_design(
    key: Key[Array, ""],
    problem: Problem,
    points: Points,
    quadrature: Quadrature,
    theta: Float[Array, " p"],
    y: Float[Array, "m d"],
) -> Quadrature:
    """Weights, and perhaps points, in coordinates learned anew from simulations at theta.

    quadrature: of points on which y was simulated at theta; kept where other points would not
        have the smaller certificate.
    """
    point_key, learn_key = split_key(key)
    u, known = quadrature.points, noise_of(problem, quadrature)
    learned = _learn_beside(
        learn_key, problem, Runs(u, np.asarray(theta)[None], np.asarray(y)[None], 0)
    )
    measure = learned.measure if isinstance(learned.measure, Rotated) else known
    kept = retune_points(quadrature, problem, measure, y)
    new = points(point_key, len(u), measure)
    rows = problem.simulator.attempt(theta, new, y.shape[1])
    calls = learned.calls + len(new)
    if not are_enough(rows):
        return _count(kept, theta, y, calls)
    moved = retune_points(replace(quadrature, points=new), problem, measure, rows)
    if _estimated_excess(kept) < _estimated_excess(moved):
        return _count(kept, theta, y, calls)
    return _count(moved, theta, rows, calls)


def _count(quadrature: Quadrature, theta: Array, y: Array, calls: int) -> Quadrature:
    return replace(quadrature, pilot=Pilot(theta[None], y[None], calls))


def retune_points(
    quadrature: Quadrature, problem: Problem, measure: Measure, y: Float[Array, "m d"]
) -> Quadrature:
    """The same points with weights tuned to simulations y on them."""
    known = quadrature.pilot
    # As many copies as the pilot has thetas: what was compiled for it serves again.
    samples = y if known is None else np.broadcast_to(y, (len(known.thetas), *y.shape))
    k, u = problem.data_kernel, quadrature.points
    return in_coordinates(weigh_runs(k, measure, u, samples, MOST_NOISE), measure)


def noise_of(problem: Problem, quadrature: Quadrature) -> Measure:
    """The noise of the simulator in the coordinates of a quadrature."""
    known = quadrature.coordinates
    return problem.simulator.measure if known is None else known


def learning_calls(problem: Problem, thetas: int, rows: int) -> int:
    """Rows that `learn_for` computes at most."""
    return thetas * rows + (SLOPE_ROWS if problem.simulator.runtime.differentiates else 0)


def learn_for(
    key: Key[Array, ""], problem: Problem, thetas: Float[Array, "t p"], rows: int
) -> Learned:
    """Coordinates for a problem, from simulations of their own."""
    simulator, k = problem.simulator, problem.data_kernel
    return learn_coordinates(key, simulator, k, thetas, observed=problem.observed, rows=rows)


def _learn_beside(key: Key[Array, ""], problem: Problem, runs: Runs) -> Learned:
    """From derivatives, or from runs that there are."""
    if problem.simulator.runtime.differentiates:
        return learn_for(key, problem, as_jax(runs.thetas), len(runs.u))
    measure, k = problem.simulator.measure, problem.data_kernel
    return Learned(learn_from_runs(measure, k, runs.u, as_jax(runs.y), problem.observed), 0)


def _estimated_excess(quadrature: Quadrature) -> float:
    assert quadrature.certificate is not None
    excess = float(quadrature.certificate.excess)
    return excess if np.isfinite(excess) else np.inf


def run_design(problem: Problem, u: Float[Array, "m s"], thetas: Float[Array, "t p"]) -> Runs:
    """Raises ValueError where most simulations fail at every theta."""
    columns = problem.observed.shape[1]
    runs = simulate(problem.simulator, thetas, unweighted(u), columns=columns, keep_failed=True)
    kept = usable_thetas(runs.y, thetas)
    return Runs(u, np.asarray(thetas)[kept], np.asarray(runs.y)[kept], runs.calls)


def _tune(problem: Problem, measure: Measure, runs: Runs, calls: int) -> Quadrature:
    rows = spread_factors(problem.data_kernel, problem.observed, runs.y) * runs.y
    quadrature = weigh_runs(problem.data_kernel, measure, runs.u, rows, MOST_NOISE)
    pilot = Pilot(as_jax(runs.thetas), as_jax(runs.y), calls)
    return in_coordinates(replace(quadrature, pilot=pilot), measure)


def usable_thetas(y: Float[Array | np.ndarray, "t m d"], thetas: Float[Array, "t p"]) -> np.ndarray:
    """Which thetas gave finite numbers at so many points that these stand for all.

    Raises ValueError where none did.
    """
    usable = are_enough(y)
    if not usable.any():
        raise ValueError(
            f"y is NaN or infinite, or the generator raises, for most u at all {len(thetas)} "
            f"thetas of the prior that were tried, such as {np.asarray(thetas[0])}; mend the "
            "generator, narrow the prior, or use VStatistic or base_kernel='median', which "
            "simulate nothing beforehand"
        )
    return np.flatnonzero(usable)


def in_coordinates(quadrature: Quadrature, measure: Measure) -> Quadrature:
    """The quadrature with the coordinates that were learned for it, if any were."""
    return replace(quadrature, coordinates=measure if isinstance(measure, Rotated) else None)
