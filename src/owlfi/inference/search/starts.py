"""Where searches begin: the best of some points of the prior, seen at a scale that sees them all.

Data of a well-determined model are close together while simulations of the prior are far apart, so
that k(y, x) = 0 at nearly every start. Searches therefore begin with k stretched until the starts
are seen, and go down to k itself by factors of 2, each from where the last one ended.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.programs import map_cases
from owlfi._tools.real_line import to_real
from owlfi.inference.search.nearness import SEEN, measure_nearness
from owlfi.inference.search.objective import Objective, simulate_each
from owlfi.problem.problem import Problem
from owlfi.problem.spending import is_tight
from owlfi.weights.quadrature import Quadrature

_FEWEST, _SHARE = 32, 4  # points to compare starts on, and of how many
_SCARCE = 16, 8  # the same where calls are
MOST_RUNGS = 24
"""Of a ladder of lengthscales, each twice the next."""


class Starts(NamedTuple):
    """Points of the prior, the best first, and how far k is stretched to see them."""

    thetas: Float[Array, "t p"]
    ladder: tuple[float, ...]
    """Factors of the lengthscales from the widest down to 1."""
    value: float
    """Of the objective itself at the first, on few points."""
    calls: int
    failed: int
    """Starts at which the simulations failed."""


def compare_starts(
    key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature, count: int
) -> Starts:
    """The starts, with the simulator calls of their comparison.

    A quarter of the points, equally weighted, is enough to compare them. Runs that the rule has
    made while it was tuned, on the same points, cost nothing again.

    Raises ValueError where the simulations fail at every start.
    """
    drawn = problem.prior.starts(key, count)
    coarse = coarsen(objective, 1.0)
    few = coarse.m
    known = problem.pilot(quadrature)
    y = as_jax(np.concatenate([simulate_each(coarse, drawn), np.asarray(known.y)[:, :few]]))
    thetas = np.concatenate([drawn, known.thetas])
    plain = np.asarray(values_of_rows(coarse, y))
    fine = np.isfinite(plain)
    if not fine.any():
        problem.simulator.rows(as_jax(thetas[0]), coarse.points)  # what it raises, if it raises
        raise ValueError(
            f"y is NaN or infinite at all {len(thetas)} starts, such as theta = {thetas[0]}; mend "
            "the generator or narrow the prior"
        )
    ladder = _choose_ladder(coarse, y, fine, float(problem.data_term()))
    values = np.asarray(values_of_rows(coarsen(objective, ladder[0]), y))
    ordered = thetas[fine][np.argsort(values[fine], kind="stable")]
    places = to_real(as_jax(ordered), objective.ends)
    order = _spread_out(np.asarray(places) / np.asarray(objective.widths))
    value = float(plain[fine][np.argmin(values[fine])])
    return Starts(as_jax(ordered[order]), ladder, value, count * few, int((~fine).sum()))


def _spread_out(places: Float[np.ndarray, "t p"]) -> np.ndarray:
    """The best first, then the better half, each the farthest from those before, then the others.

    Searches that begin side by side end side by side.
    """
    half = (len(places) + 1) // 2
    chosen, left = [0], list(range(1, half))
    while left:
        apart = ((places[left][:, None] - places[chosen][None]) ** 2).sum(2).min(1)
        chosen.append(left.pop(int(np.argmax(apart))))
    return np.array([*chosen, *range(half, len(places))])


def coarsen(objective: Objective, factor: float, least: int = 1) -> Objective:
    """On the first of its points, equally weighted, with k stretched.

    least: how many points at least.
    """
    few = min(objective.m, max(least, comparison_points(objective.m)))
    points, shares = np.asarray(objective.points)[:few], np.full(few, 1 / few)
    return objective.on(as_jax(points), as_jax(shares)).stretch(np.float64(factor))


def take_rung(objective: Objective, factor: float) -> Objective:
    """With k stretched, to lead on: on few points where calls are scarce."""
    return coarsen(objective, factor) if is_tight() else objective.stretch(np.float64(factor))


def comparison_points(m: int) -> int:
    """Of how many of m points a comparison makes use."""
    least, share = _SCARCE if is_tight() else (_FEWEST, _SHARE)
    return min(m, max(least, m // share))


def _choose_ladder(
    objective: Objective, y: Float[Array, "t m d"], fine: Bool[np.ndarray, " t"], mean: float
) -> tuple[float, ...]:
    """Powers of 2 from the first at which k sees half of the starts, as seen from the data.

    mean: of k between observations.
    """
    x = np.asarray(objective.observed)[: objective.n]
    for power in range(MOST_RUNGS):
        seen = measure_nearness(objective.data_kernel, 2.0**power, x, y)
        if np.median(seen[fine]) >= SEEN * mean:
            break
    return tuple(2.0**step for step in range(power, -1, -1))


def values_of_rows(objective: Objective, y: Float[Array, "t m d"]) -> Float[Array, " t"]:
    """Of the objective, from simulations on its points."""
    return map_cases(Objective.of_rows, objective, y)
