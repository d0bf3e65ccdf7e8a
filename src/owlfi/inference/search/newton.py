"""Newton's method with a trust region on the squared MMD: a handful of steps from a warm start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from owlfi._tools.programs import compile_quickly
from owlfi._tools.real_line import Ends, to_real
from owlfi.inference.search.objective import LocalModel, Objective, newton_model
from owlfi.inference.search.places import keep_within, place_to_real
from owlfi.problem.jax_or_host import Known, compile_where_it_runs
from owlfi.problem.spending import OutOfCallsError

STEPS = 50
TOLERANCE = 1e-10
"""The decrease of MMD² below which a promised step is not taken. MMD² varies by about 1/n between
samples, so that such a step is far below a standard error."""
_LARGEST_RADIUS = 1.0  # in widths of the prior: beyond, a parameter would jump to its end
_SMALLEST_RADIUS = 1e-8
_FLAT = 1e-10  # of the largest curvature
_NEAR = 0.05  # of the prior's range, from which a step may lead to its end
_PRESSED = 1e-9  # of a width, from an end
_MOST_OF_IT = 0.9  # of a longer way there: scales of 0 and the like are traps
_OLDEST = 2  # steps for each parameter, that slopes are carried on
NONE = np.int64(-1)
"""The parameter that is held where all are free."""

Room = tuple[Array, Array]
"""How far steps may lead down and up."""
Model = Callable[[Objective, Array, Array | float, Known | None], LocalModel]


class Minimum(NamedTuple):
    """Where a search ended, and its way there."""

    theta: Float[Array, "... p"]
    value: Float[Array, "..."]
    """MMD² less its data term; +∞ where the simulations at the start failed."""
    calls: Int[Array, "..."]
    """Rows that the simulator computed, with derivatives where it has them."""
    converged: Bool[Array, "..."]
    thetas: Float[Array, "... t p"]
    """The best theta after each evaluation, NaN once the search has ended."""
    values: Float[Array, "... t"]
    known: Known | None = None
    """What the host has simulated there, for searches that begin there."""


class Search(NamedTuple):
    """A search under way: the best v so far, what is known there, and the next step."""

    v: Array
    model: LocalModel
    radius: Array
    next: Array
    """Where its next step leads."""
    promised: Array
    renewing: Array
    """Whether that step only takes slopes anew that were carried on from elsewhere."""
    evaluations: Array
    calls: Array
    vs: Array
    values: Array


@compile_where_it_runs
def minimise(
    objective: Objective,
    start: Float[Array, " p"],
    *,
    model: Model = newton_model,
    steps: int = STEPS,
    tolerance: float | Float[Array, ""] = TOLERANCE,
    held: ArrayLike = NONE,
    whole: bool = True,
    known: Known | None = None,
) -> Minimum:
    """The minimum near one start (p,), which lies strictly inside the bounds.

    model: `newton_model` from afar, `gauss_newton_model` from a warm start.
    held: the place of a parameter that stays as it is.
    whole: whether it has no answer, rather than its best so far, where the calls are spent.
    known: of a search that ended at the start.
    Each step simulates all points once, with derivatives; one that fails (NaN) or does not help is
    taken back and made shorter. On the host derivatives are carried on from step to step, and taken
    anew where they mislead and at the end. Compiled where the simulator is; then it serves many
    starts or data sets inside `jax.lax.map`, too.
    """

    def step(search: Search) -> Search:
        v, now = search.next, search.model
        try:
            found = model(objective, v, now.value, now.known)
        except OutOfCallsError:
            if whole or not np.isfinite(now.value):
                raise
            return search._replace(radius=jnp.array(0.0))
        return _advance(search, v, found, objective, held, tolerance)

    v = to_real(start, objective.ends) if known is None else known.v  # to the last digit
    last = objective.runtime.while_loop(
        lambda search: _goes_on(search, steps, tolerance),
        step,
        _start_search(v, steps, known),
    )
    return _end_search(last, objective, tolerance)


@compile_where_it_runs
def minimise_each(
    objective: Objective,
    observed: Float[Array, "b n d"] | None,
    starts: Float[Array, "b p"],
    *,
    shares: Float[Array, "b n"] | None = None,
    model: Model = newton_model,
    steps: int = STEPS,
    known: Known | None = None,
) -> Minimum:
    """One fit for each data set, or each set of weights of the observations, or both.

    observed: those of the objective where None.
    shares: the weights of the observations, equal where left out.
    starts: one for each fit; all are on the quadrature of the objective.
    known: of a search that ended where they start.
    """

    def fit(case: tuple[Array | None, Array | None, Array]) -> Minimum:
        rows = objective.observed if case[0] is None else case[0]
        fitted = objective.with_data(rows, case[1])
        found = minimise(fitted, case[2], model=model, steps=steps, known=known)
        return found._replace(known=None)

    return objective.runtime.map(fit, (observed, shares, starts))


def choose_least(minima: Minimum) -> Minimum:
    """The best of some searches, with the calls of all."""
    best = jax.tree.map(lambda leaf: leaf[jnp.argmin(minima.value)], minima)
    return best._replace(calls=minima.calls.sum())


@compile_quickly
def _start_search(v: Array, steps: int, known: Known | None) -> Search:
    """A search that has seen nothing; its first step leads to its start.

    So the model is in the program once, which takes half the time to compile.
    """
    p, none = v.shape[0], jnp.array(0)
    unknown = LocalModel(jnp.array(jnp.inf), jnp.zeros(p), jnp.zeros((p, p)), none, known)
    vs, values = jnp.full((steps + 1, p), jnp.nan), jnp.full(steps + 1, jnp.nan)
    radius, promised = jnp.array(_LARGEST_RADIUS), jnp.array(jnp.inf)
    fresh = jnp.array(False)
    return Search(v, unknown, radius, v, promised, fresh, none, none, vs, values)


@compile_quickly
def _goes_on(search: Search, steps: int, tolerance: float | Array) -> Bool[Array, ""]:
    """Whether there is anything worth trying; NaN is not."""
    able = (search.radius > _SMALLEST_RADIUS) & (search.evaluations <= steps)
    begun = jnp.isfinite(search.model.value) | (search.evaluations == 0)
    return able & begun & (search.promised > tolerance)


@compile_quickly
def _advance(
    search: Search,
    v: Array,
    model: LocalModel,
    objective: Objective,
    held: ArrayLike,
    tolerance: float | Array,
) -> Search:
    """The search once the model at v is known: there if it is better, more careful if not."""
    model = _hold(model, held)
    size = _size(search.v, v, objective)
    gain = (search.model.value - model.value) / search.promised
    anew = search.renewing
    better = (model.value < search.model.value) | anew  # NaN is not
    wider = jnp.where(gain > 0.75, jnp.maximum(search.radius, 2 * size), search.radius)
    radius = jnp.where(gain < 0.25, 0.5 * size, jnp.minimum(wider, _LARGEST_RADIUS))
    radius = jnp.where(anew, search.radius, jnp.where(better, radius, 0.25 * size))
    calls = search.calls + model.calls
    v, model = _choose(better, (v, model), (search.v, search.model))
    count = search.evaluations
    vs, values = search.vs.at[count].set(v), search.values.at[count].set(model.value)
    best, promised = plan_step(v, model, radius, objective)
    doubtful = ~better | (gain < 0.25) | (promised <= tolerance)
    renewing = _are_stale(model.known, doubtful)
    best, promised = jnp.where(renewing, v, best), jnp.where(renewing, jnp.inf, promised)
    return Search(v, model, radius, best, promised, renewing, count + 1, calls, vs, values)


def _are_stale(known: Known | None, doubtful: Array) -> Bool[Array, ""]:
    """Whether slopes are to be taken anew: they are not of here, and mislead or are of long ago."""
    if known is None:
        return jnp.array(False)
    return (known.age > 0) & (doubtful | (known.age >= _OLDEST * known.v.shape[0]))


def _choose(better: Array, new: tuple[Array, LocalModel], old: tuple[Array, LocalModel]) -> Any:
    """The new or the old; the new where the old has seen nothing yet."""
    if old[1].known is None and new[1].known is not None:
        old = old[0], old[1]._replace(known=new[1].known)
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), new, old)


@compile_quickly
def _end_search(search: Search, objective: Objective, tolerance: float | Array) -> Minimum:
    """The result of a search."""
    theta, thetas = (objective.theta_of(v) for v in (search.v, search.vs))
    converged = (search.promised <= tolerance) & jnp.isfinite(search.model.value)
    found = theta, search.model.value, search.calls, converged, thetas, search.values
    return Minimum(*found, search.model.known)


def _hold(model: LocalModel, held: ArrayLike) -> LocalModel:
    """The model in which one parameter stays as it is."""
    free = jnp.arange(len(model.gradient)) != held
    return model._replace(
        gradient=jnp.where(free, model.gradient, 0.0), hessian=_part(model.hessian, free)
    )


def _part(hessian: Array, free: Array) -> Array:
    """A Hessian in which some parameters have nothing to do with the others."""
    kept = (free[:, None] & free[None]) | jnp.eye(len(free), dtype=bool)
    return jnp.where(kept, hessian, 0.0)


@compile_quickly
def plan_step(
    v: Array, model: LocalModel, radius: Array, objective: Objective
) -> tuple[Array, Array]:
    """Where to look next, and the decrease it promises: curvatures by size, so always downhill."""
    here, unit = objective.place_of(v), objective.units
    gradient, curvature = model.gradient * unit, _bend_up(model.hessian * jnp.outer(unit, unit))
    low, high = _room_around(here, objective.ends)
    room = low / unit, high / unit
    steps = jnp.stack(
        [
            *_step_to_the_end(gradient, curvature, radius, room),
            _step_downhill(gradient, curvature, radius, room),
        ]
    )
    promised = -(steps @ gradient + 0.5 * jnp.einsum("ia,ab,ib->i", steps, curvature, steps))
    best = jnp.argmax(promised)
    return place_to_real(here + unit * steps[best], objective.ends), promised[best]


def _step_to_the_end(
    gradient: Array, curvature: Array, radius: Array, room: Room
) -> tuple[Array, Array]:
    """Newton's step as far as the first end, and one that goes on along the ends it meets.

    Parameters that meet an end stay there; the others go to where they are best then.
    """

    def step_from(gradient: Array, curvature: Array) -> Array:
        step = -jnp.linalg.solve(curvature, gradient)
        return step * jnp.minimum(1.0, radius / jnp.maximum(jnp.abs(step).max(), radius))

    straight = step_from(gradient, curvature)
    stopped = jnp.clip(straight, room[0], room[1])
    beyond = straight != stopped
    pull = jnp.where(beyond, 0.0, gradient + curvature @ jnp.where(beyond, stopped, 0.0))
    along = jnp.where(beyond, stopped, step_from(pull, _part(curvature, ~beyond)))
    share = jnp.where(beyond, stopped / jnp.where(beyond, straight, 1.0), 1.0).min()
    return share * straight, jnp.clip(along, room[0], room[1])


def _step_downhill(gradient: Array, curvature: Array, radius: Array, room: Room) -> Array:
    """The best along the gradient of the parameters that it does not press against an end.

    It promises something wherever anything can be gained, which other steps may not (Cauchy's).
    """
    slope = -gradient / jnp.diag(curvature)
    limit = jnp.where(slope < 0, room[0], room[1])
    slope = jnp.where(jnp.abs(limit) < _PRESSED, 0.0, slope)
    moves, tiny = slope != 0, jnp.finfo(float).tiny
    ends = jnp.where(moves, limit / jnp.where(moves, slope, 1.0), jnp.inf).min()
    best = -(gradient @ slope) / (slope @ curvature @ slope + tiny)
    return slope * jnp.minimum(jnp.minimum(best, ends), radius / (jnp.abs(slope).max() + tiny))


def _room_around(here: Array, ends: Ends) -> tuple[Array, Array]:
    """How far a step may lead down and up: most of the way to an end, all of it from near."""
    low, high = (keep_within(jnp.full_like(here, far), ends) for far in (-jnp.inf, jnp.inf))
    near = _NEAR * (high - low)

    def shorten(way: Array) -> Array:
        return jnp.where((way < near) | jnp.isinf(way), way, _MOST_OF_IT * way)

    return -shorten(jnp.maximum(here - low, 0.0)), shorten(jnp.maximum(high - here, 0.0))


def _bend_up(hessian: Array) -> Array:
    """The Hessian with its curvatures by their size, none of them 0."""
    curvatures, directions = jnp.linalg.eigh(hessian)
    sizes = jnp.abs(curvatures)
    sizes = jnp.maximum(sizes, _FLAT * sizes.max() + jnp.finfo(float).tiny)
    return directions * sizes[None] @ directions.T


def _size(one: Array, other: Array, objective: Objective) -> Array:
    """The largest difference between two places, in widths of the prior."""
    apart = objective.place_of(one) - objective.place_of(other)
    return jnp.max(jnp.abs(apart) / objective.units)
