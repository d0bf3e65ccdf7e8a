"""Simulations of which some runs failed: without those thetas, or with other weights for them."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from owlfi._tools.checks import as_kind, brief
from owlfi.kernels import Kernel
from owlfi.measures import Measure
from owlfi.problem.simulations import Simulations
from owlfi.weights.data_grams import LEAST_FINE
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.quadrature import Quadrature, unweighted

WAYS = ("reject", "reweight")
_MATTERS = 0.01  # share of thetas


def without_failures(
    runs: Simulations,
    failed: Any,
    *,
    on_failure: str = "reject",
    base_kernel: Kernel | None = None,
    measure: Measure | None = None,
) -> Simulations:
    """Simulations that can be used although the rows marked in `failed` (t, m) have no y.

    They say in their `warnings` what is left out.

    on_failure: "reject" leaves out each theta with a failed run; "reweight" keeps it, with weight 0
        for the points that failed, which the others share in proportion to their own.
    base_kernel, measure: c and the measure of u, for "reweight" by optimal weights of the points
        that remain.

    Raises ValueError for another way, where nothing remains, and for a U-statistic to "reweight".

    >>> from owlfi.weights.quadrature import unweighted
    >>> u = unweighted(jnp.array([[0.2], [0.8]]))
    >>> runs = Simulations(jnp.ones((3, 1)), u, jnp.ones((3, 2, 1)), 6)
    >>> without_failures(runs, [[False, False], [True, False], [False, False]]).y.shape
    (2, 2, 1)
    """
    failed = np.asarray(failed, bool)
    check_way(on_failure)
    if base_kernel is not None:
        as_kind("base_kernel", base_kernel, Kernel, "a kernel such as SquaredExponential(1.0)")
    if not failed.any():
        return runs
    usable = find_usable(failed, on_failure)
    told = (*runs.warnings, *tell_lost(int((~usable).sum()), len(usable)))
    kept, holes = replace(runs.at(usable), warnings=told), failed[usable]
    return _reweight(kept, holes, base_kernel, measure) if holes.any() else kept


def find_failed(runs: Simulations) -> Bool[np.ndarray, "t m"]:
    """Which runs are NaN or infinite."""
    return ~np.isfinite(np.asarray(runs.y)).all(2)


def find_usable(failed: Bool[np.ndarray, "t m"], on_failure: str) -> Bool[np.ndarray, " t"]:
    """The thetas that remain; ValueError where none does."""
    usable = np.asarray(~failed.any(1) if on_failure == "reject" else ~failed.all(1))
    if not usable.any():
        others = ', or keep the other runs with on_failure="reweight"'
        raise ValueError(
            f"no theta is left: {failed.sum():,} of {failed.size:,} runs failed, at least one at "
            "each theta; mend the simulator, narrow the range of theta"
            f"{'' if failed.all() else others}"
        )
    return usable


def check_way(on_failure: str) -> None:
    """Raise ValueError for anything but one of the ways to go on."""
    if not isinstance(on_failure, str) or on_failure not in WAYS:
        raise ValueError(f"on_failure must be one of {', '.join(WAYS)}, got {brief(on_failure)}")


def tell_lost(lost: int, thetas: int) -> tuple[str, ...]:
    """A sentence where so many thetas are left out that it matters, or none."""
    if lost <= _MATTERS * thetas:
        return ()
    return (
        f"At {lost:,} of {thetas:,} parameters a simulation failed, and none of them is kept: the "
        "answer is that of a prior without them; mend the generator or narrow the prior",
    )


def _tell_holes(count: int) -> tuple[str, ...]:
    return (
        f"{count:,} failed runs are left out of the weights: failures that depend on u bias the "
        'estimate; mend the generator, or leave out the thetas with on_failure="reject"',
    )


def _scalars(q: Quadrature) -> tuple[Any, ...]:
    return q.squared_worst_case_error, q.condition, q.nugget


def _reweight(
    runs: Simulations, failed: np.ndarray, base_kernel: Kernel | None, measure: Measure | None
) -> Simulations:
    q = runs.quadrature
    if q.unbiased:
        raise ValueError('a U-statistic has no weights; use on_failure="reject"')
    t, m = failed.shape
    points = np.broadcast_to(q.points, (t, *q.points.shape[-2:]))
    known, weights = np.broadcast_to(q.weights, (t, m)), np.zeros((t, m))
    scalars = np.empty((3, t))
    for i in range(t):
        good = ~failed[i]
        part = _weigh(known[i], good, points[i], base_kernel, measure)
        weights[i, good], scalars[:, i] = part.weights, _scalars(part)
    quadrature = Quadrature(jnp.asarray(points), jnp.asarray(weights), *jnp.asarray(scalars))
    y = _fill(runs.y, failed)
    told = (*runs.warnings, *_tell_holes(int(failed.sum())))
    return Simulations(runs.thetas, quadrature, y, runs.calls, runs.importance, told)


def _weigh(
    weights: np.ndarray,
    good: np.ndarray,
    points: np.ndarray,
    base_kernel: Kernel | None,
    measure: Measure | None,
) -> Quadrature:
    """Of the good points: optimal weights, or their own with those of the others."""
    if base_kernel is not None and measure is not None:
        return optimal_weights(base_kernel, measure, points[good])
    equal, held, total = unweighted(jnp.asarray(points[good])), weights[good], weights.sum()
    if held.sum() < LEAST_FINE * total:  # the failed ones had most of it
        return equal
    return eqx.tree_at(lambda q: q.weights, equal, jnp.asarray(held * (total / held.sum())))


def _fill(y: Any, failed: np.ndarray) -> Any:
    """Some row of the same theta where one failed: its weight is 0, but 0 · NaN is not."""
    first = np.argmin(failed, axis=1)
    filler = np.asarray(y)[np.arange(len(failed)), first][:, None]
    return jnp.asarray(np.where(failed[..., None], filler, y))
