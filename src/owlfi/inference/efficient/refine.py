"""From the estimate of plain MMD to the efficient one, with its errors and what to doubt."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import brief
from owlfi._tools.real_line import to_real
from owlfi.inference.efficient.doubts import SHORT, UNKNOWN, describe_refined
from owlfi.inference.efficient.free_mass import balance
from owlfi.inference.efficient.moments import Model, count_designs, model_around
from owlfi.inference.efficient.refined import MISFIT, Refined, describe_balance
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.ways import BySlopes
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule

_ROOM = 0.02  # of the width of the prior, between its ends and the beginning
_ATTEMPTS = 4
_AWAY = 2.0  # standard errors from where features were made
_MORE_ROOM = 0.2  # the same, of estimates that outliers may have drawn there
_NEAREST = 0.8  # of the observations
_ROUNDS = 2  # mostly, each with slopes once and two steps


class Sought(NamedTuple):
    """The best so far, and the calls of all."""

    found: Refined | None
    model: Model | None
    calls: int
    short: bool = False
    """Whether calls ended, or Ctrl-C came, while more was to be done."""

    @property
    def designs(self) -> int:
        """On how many designs: on fewer, another one is not better."""
        return 0 if self.found is None else len(self.found.balance.moments.means)


class Refinement(NamedTuple):
    """The efficient estimate, None where there is none, and what to know of it."""

    refined: Refined | None
    calls: int
    gradient_calls: int
    warnings: tuple[str, ...]


def as_discrepancy(value: Any) -> str:
    """Raises ValueError for another word."""
    if not (isinstance(value, str) and value in ("mmd", "efficient")):
        raise ValueError(f"discrepancy must be 'mmd' or 'efficient', got {brief(value)}")
    return value


def expect_refinement(m: int, problem: Problem) -> int:
    """The calls of `refine`, about."""
    rows, slopes = count_designs(m) * m, problem.simulator.slope_calls
    return slopes(m) + _ROUNDS * (slopes(rows) + 2 * rows)


def refine(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    theta: Float[Array, " p"],
    scatter: Scatter | None,
    strays: Int[np.ndarray, " k"],
) -> Refinement:
    """The efficient estimate near a first one.

    scatter: simulations around the first one, where the simulator is rough.
    strays: observations that are unlike all of its simulations, and may have drawn it away.
    """
    try:
        start, spent = _begin_without(stage, np.asarray(theta), scatter, strays)
        found, _, calls, short = _refine(key, rule, stage, start, scatter, drawn=not len(strays))
        calls += spent
    except KeyboardInterrupt:  # calls that are spent end work in the same way
        return Refinement(None, 0, 0, (SHORT,))
    told = (UNKNOWN,) if found is None else describe_refined(stage, found, short=short)
    derivatives = 0 if scatter is not None else stage.problem.simulator.derivative_calls(calls)
    return Refinement(found, calls, derivatives, told)


def _begin_without(
    stage: Stage,
    theta: Float[np.ndarray, " p"],
    scatter: Scatter | None,
    strays: Int[np.ndarray, " k"],
) -> tuple[Float[np.ndarray, " p"], int]:
    """The first estimate, or that of the other observations, and the calls of it."""
    if not 0 < len(strays) < stage.objective.n / 2 or scatter is not None:
        return theta, 0
    kept = np.ones(stage.objective.n, bool)
    kept[strays] = False
    return _fit_some(stage, theta, kept)


def _refine(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    theta: Float[np.ndarray, " p"],
    scatter: Scatter | None,
    *,
    drawn: bool,
) -> Sought:
    """Once more from the nearest observations, where others do not fit: outliers hide others.

    drawn: whether those that do not fit had a part in where it begins.
    """
    sought = _seek_near(key, rule, stage, theta, scatter)
    found = sought.found
    if found is None or sought.short:
        return sought
    drawn = drawn and bool(found.left_out.any()) and _is_at_end(stage, found.theta)
    if not (found.needs_guard or drawn):
        return sought
    try:
        if scatter is None:
            sought = _seek_nearest(key, rule, stage, sought, found)
        return _guard(stage, sought)
    except KeyboardInterrupt:
        return sought._replace(short=True)


def _seek_nearest(
    key: Key[Array, ""], rule: Rule, stage: Stage, sought: Sought, found: Refined
) -> Sought:
    """From the nearest observations, or what was found before where that fits better."""
    start, spent = _fit_nearest(stage, found)
    other = _seek_near(key, rule, stage, start, None)
    better = other.found is not None and other.found.misfit >= min(found.misfit, MISFIT)
    best = other if better else sought
    return best._replace(calls=sought.calls + spent + other.calls)


def _guard(stage: Stage, sought: Sought) -> Sought:
    """With features that fade, where observations that do not fit may be hidden."""
    found, model, calls, _ = sought
    if found is None or model is None or not found.needs_guard:
        return sought
    guarded = _seek(model, stage, found.theta, found.balance.moments.distances)
    if guarded is None:
        return sought
    return sought._replace(found=guarded, calls=calls + guarded.balance.calls)


def _seek_near(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    theta: Float[np.ndarray, " p"],
    scatter: Scatter | None,
) -> Sought:
    """With features that are made at theta, and again where the estimate has left it behind."""
    best = Sought(None, None, 0)
    for _ in range(_ATTEMPTS):
        inside = _step_inside(stage, theta)
        try:
            found, model, calls, _ = _seek_at(key, rule, stage, inside, scatter, best.designs)
        except KeyboardInterrupt:
            if best.found is None:
                raise
            return best._replace(short=True)
        calls += best.calls
        if found is None:
            return best._replace(calls=calls)
        best, theta = Sought(found, model, calls, found.balance.short), found.theta
        away = np.abs(theta - inside) / np.sqrt(np.diagonal(found.covariance))
        if best.short or away.max() < _AWAY or scatter is not None:
            break
    return best


def _seek_at(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    theta: Float[np.ndarray, " p"],
    scatter: Scatter | None,
    designs: int,
) -> Sought:
    v = to_real(as_jax(theta), stage.problem.prior.bounds)
    model, calls = model_around(key, rule, stage, v, scatter, designs)
    found = None if model is None else _seek(model, stage, theta)
    return Sought(found, model, calls + (0 if found is None else found.balance.calls))


def _fit_nearest(stage: Stage, found: Refined) -> tuple[Float[np.ndarray, " p"], int]:
    """The plain estimate of the observations without the farthest ones, and the calls of it."""
    far = found.balance.far
    return _fit_some(stage, found.theta, far <= np.quantile(far, _NEAREST))


def _fit_some(
    stage: Stage, theta: Float[np.ndarray, " p"], kept: Bool[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " p"], int]:
    """The plain estimate of some observations, from that of all, and the calls of it."""
    objective, start = stage.objective, _step_inside(stage, theta, _MORE_ROOM)
    shares = objective.fill_shares(as_jax(kept / kept.sum())[None])[0]
    landing = BySlopes().search(objective.with_data(objective.observed, shares), as_jax(start))
    found = np.asarray(landing.minimum.theta)
    return np.where(np.isfinite(found), found, start), int(landing.minimum.calls)


def _step_inside(
    stage: Stage, theta: Float[np.ndarray, " p"], share: float = _ROOM
) -> Float[np.ndarray, " p"]:
    """Off the ends of the prior, where simulations may no longer vary."""
    low, high = map(np.asarray, stage.problem.prior.bounds)
    room = share * np.asarray(stage.widths)
    return np.clip(theta, low + room, high - room)


def _is_at_end(stage: Stage, theta: Float[np.ndarray, " p"]) -> bool:
    """Whether a parameter is at the end of its prior, where outliers may have drawn it."""
    return bool((_step_inside(stage, theta) != theta).any())


def _seek(
    model: Model,
    stage: Stage,
    theta: Float[np.ndarray, " p"],
    distances: Float[np.ndarray, " m"] | None = None,
) -> Refined | None:
    observed, ends = stage.problem.observed, stage.problem.prior.bounds
    found = balance(model, observed, theta, ends, np.asarray(stage.widths), distances)
    if found is None or not np.isfinite(found.theta).all():
        return None
    return describe_balance(observed, found)
