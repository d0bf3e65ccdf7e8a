"""A fit: the minimum of the squared MMD and what is known around it, where methods begin."""

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.blas import use_one_blas_thread
from owlfi._tools.checks import as_count, as_truth
from owlfi._tools.keys import fold_key, split_key
from owlfi._tools.progress import begin_step, show_bars
from owlfi.inference.search.assess import DESIGNS, Assessed, assess, leave_unknown
from owlfi.inference.search.doubts import describe_fit, describe_search
from owlfi.inference.search.newton import STEPS, Minimum
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.profile import Reach
from owlfi.inference.search.regressed import Regressed, regressed
from owlfi.inference.search.rivals import rivals_apart
from owlfi.inference.search.roughness import is_rough
from owlfi.inference.search.sandwich import Sandwich, find_idle
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import Starts, coarsen, compare_starts
from owlfi.inference.search.ways import ByRegression, BySlopes, Landing, Way
from owlfi.inference.search.whitening import whiten_data, whitening_rows
from owlfi.inference.search.widely import Wide, search_widely, stay_at_best
from owlfi.inference.thrift import (
    afford_points,
    afford_starts,
    later_calls,
    refinement_calls,
    tell_fewer,
)
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import (
    OutOfCallsError,
    afford,
    calls_made,
    is_tight,
    keep_back,
    plan_calls,
    tell_rough,
)
from owlfi.weights.data_grams import are_enough

_SMALL = 1024  # points, whose matrices one thread solves as soon as several


class Begun(NamedTuple):
    """What a fit began with."""

    rule: Rule
    """Perhaps of fewer points than were asked for."""
    fewer: tuple[str, ...]
    """A word where they are."""
    tried: Starts
    wide: Wide


class Fit(NamedTuple):
    """The minimum and what is known around it, where the other methods begin."""

    stage: Stage
    assessed: Assessed
    squared_mmd: Float[Array, ""]
    calls: int
    gradient_calls: int
    trace: tuple[Float[Array, "t p"], Float[Array, " t"]]
    """The way to the minimum: thetas, and the squared MMD as the search saw it."""
    begun: Begun
    """Where its search came from."""
    warnings: tuple[str, ...] = ()
    """What is wrong with it, for the results of all methods that begin here."""
    search_warnings: tuple[str, ...] = ()
    """Those that another discrepancy around the same estimate does not change."""

    @property
    def objective(self) -> Objective:
        return self.stage.objective

    @property
    def minimum(self) -> Minimum:
        """On the points of the objective."""
        return self.assessed.landing.minimum

    @property
    def theta(self) -> Float[Array, " p"]:
        """The estimate: the minimum, shifted to that of the mean of other designs."""
        return self.assessed.theta(self.objective.ends)

    @property
    def rough(self) -> bool:
        """Whether the search did without derivatives of the simulations."""
        return self.assessed.way.rough

    @property
    def sandwich(self) -> Sandwich:
        return self.assessed.errors.sandwich

    @property
    def by_designs(self) -> Float[Array, "p p"]:
        """The covariance of theta over designs."""
        return self.sandwich.by_designs

    @property
    def idle(self) -> Bool[np.ndarray, " p"]:
        """Which parameters change nothing, whatever the others are."""
        return find_idle(self.sandwich, np.asarray(self.objective.widths))

    @property
    def flat(self) -> Bool[np.ndarray, " p"]:
        """Which parameters the data leave open, alone or together with others."""
        return np.isinf(np.diag(np.asarray(self.sandwich.covariance)))

    @property
    def fitted(self) -> int:
        """How many numbers are fitted."""
        return len(self.theta)

    @property
    def reach(self) -> Reach:
        return self.assessed.reach

    @property
    def scatter(self) -> Scatter | None:
        """The simulations around the estimate, where they are rough."""
        return self.assessed.landing.scatter if self.rough else None

    @property
    def regressed(self) -> Regressed | None:
        """The squared MMD around the estimate by regression, where simulations are rough."""
        return None if self.scatter is None else regressed(self.scatter)

    @property
    def rivals(self) -> Float[np.ndarray, "k p"]:
        """Minima that the data hardly tell from this one, from here on the real line."""
        if self.rough:  # what is known by regression is known around one of them
            return np.zeros((0, self.fitted))
        return rivals_apart(self.stage, self.begun.wide, self.assessed)

    def make_room(self, shares: Float[Array, "b n"]) -> "Fit":
        """The same where estimates of such other weightings of the data can be told from it."""
        found, filled = self.assessed, self.objective.fill_shares(shares)
        landing, calls = found.way.make_room(self.objective, found.landing, filled)
        return self._replace(assessed=found._replace(landing=landing), calls=self.calls + calls)

    def refit_each(
        self, observed: Float[Array, "b n d"] | None, shares: Float[Array, "b n"]
    ) -> Minimum:
        """The estimates of other data, or of other weightings of the data, from this one.

        All are shifted alike.
        """
        landing = self.assessed.landing
        if observed is None:
            shares = self.objective.fill_shares(shares)
        found = self.assessed.way.refit_each(self.objective, landing, observed, shares)
        moved = np.asarray(found.theta) + np.asarray(self.theta) - np.asarray(landing.minimum.theta)
        return found._replace(theta=as_jax(moved.clip(*map(np.asarray, self.objective.ends))))


def find_minimum(
    method: str,
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    starts: int = 16,
    refined: int = 2,
    steps: int = STEPS,
    whiten: bool = False,
    retune: bool | None = None,
    whole: bool = True,
    progress: bool = False,
) -> Fit:
    """The work of `minimum_distance`, with everything it finds on its way.

    whole: whether errors are looked for where slopes do not tell them.
    """
    problem, rule = as_problem(problem), as_rule(rule)
    _check(method, problem, rule, whiten, retune)
    starts, refined = as_count("starts", starts), as_count("refined", refined)
    steps = as_count("steps", steps)
    asked = rule.m
    plan_calls()
    rule, whole = afford_points(rule, problem, starts, whole=whole)
    with show_bars(progress), use_one_blas_thread() if rule.m <= _SMALL else nullcontext():
        quadrature_key, start_key, design_key = split_key(key, 3)
        begin_step("Weights")
        first = Stage(problem, rule.quadrature(quadrature_key, problem))
        begin_step("Starts")
        some = problem.prior.starts(start_key, starts)
        checked = problem.check_determined(some, first.quadrature)
        compared = afford_starts(rule.m, starts)
        tried = compare_starts(start_key, problem, first.objective, first.quadrature, compared)
        way, looked, seen = _choose_way(first, tried, steps)
        if way.rough:
            first, rule, whole = _afford_rough(quadrature_key, first, rule, starts, whole=whole)
        begin_step("Search")
        with keep_back(_later_calls(way, first.objective, whole)):
            wide = search_widely(first, way, tried, refined) if seen else stay_at_best(tried)
            last, best, more = _adapt(first, rule, way, wide.best, start_key, whiten, retune)
        found = _assess_searched(design_key, rule, last, way, best, wide, whole=whole)
        begun = Begun(rule, tell_fewer(asked, rule.m), tried, wide)
        return _as_fit(first, last, found, begun, more, checked + looked)


def _as_fit(
    first: Stage, last: Stage, found: Assessed, begun: Begun, adapted: int, looked: int
) -> Fit:
    """All that was found, its calls, and its words."""
    _, fewer, tried, wide = begun
    spent = wide.calls + adapted + found.calls.search
    beside = first.quadrature.tuning_calls + tried.calls + looked + found.calls.other
    seen = last, wide, found, tried
    return Fit(
        last,
        found,
        last.squared_mmd(found.landing.minimum.value),
        max(spent + beside, calls_made()),
        0 if found.way.rough else last.problem.simulator.derivative_calls(spent),
        _join_traces(first, wide.best, last, found.landing),
        begun,
        (*fewer, *describe_fit(*seen)),
        (*fewer, *describe_search(*seen)),
    )


def _afford_rough(
    key: Key[Array, ""], stage: Stage, rule: Rule, starts: int, *, whole: bool
) -> tuple[Stage, Rule, bool]:
    """On fewer points where calls are tight, since regressions take more of them."""
    if not is_tight():
        return stage, rule, whole
    rule, whole = afford_points(rule, stage.problem, starts, rough=True, whole=whole)
    return Stage(stage.problem, rule.quadrature(key, stage.problem)), rule, whole


def _assess_searched(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    way: Way,
    landing: Landing,
    wide: Wide,
    *,
    whole: bool,
) -> Assessed:
    """Errors, unknown where no search could be paid; calls are left for another discrepancy."""
    begin_step("Standard errors")
    with keep_back(refinement_calls(way, stage.objective, whole)):
        if not wide.searches:
            return leave_unknown(stage, way, landing)
        return assess(key, rule, stage, way, landing, whole=whole)


def settle_errors(key: Key[Array, ""], fit: Fit) -> Fit:
    """With the errors that were left to another discrepancy, which did not find its own."""
    if not fit.assessed.errors.later:
        return fit
    (rule, fewer, tried, wide), (way, landing, *_) = fit.begun, fit.assessed
    found = assess(split_key(key, 3)[2], rule, fit.stage, way, landing)
    return fit._replace(
        assessed=found,
        calls=max(fit.calls, calls_made()),
        warnings=(*fewer, *describe_fit(fit.stage, wide, found, tried)),
    )


def _later_calls(way: Way, objective: Objective, whole: bool) -> int:
    """Of what comes after a search, that it leaves them for."""
    if is_tight():
        return later_calls(objective.simulator, objective.m, way.rough, whole)
    return way.error_calls(objective, DESIGNS)


def _choose_way(stage: Stage, starts: Starts, steps: int) -> tuple[Way, int, bool]:
    """Along slopes where they tell how simulations change; calls of the look, if there was one."""
    nearest = as_jax(np.asarray(starts.thetas)[0])
    try:
        rough, looked = is_rough(coarsen(stage.objective, starts.ladder[0]), nearest)
    except OutOfCallsError:
        if not is_tight():
            raise
        return BySlopes(steps), 0, False
    if rough:
        tell_rough()
    return ByRegression(steps) if rough else BySlopes(steps), looked, True


def _adapt(
    stage: Stage,
    rule: Rule,
    way: Way,
    landing: Landing,
    key: Key[Array, ""],
    whiten: bool,
    retune: bool | None,
) -> tuple[Stage, Landing, int]:
    """The search goes on with whitened data or weights tuned to the estimate, as is asked for."""
    theta, problem, quadrature, calls = landing.minimum.theta, stage.problem, stage.quadrature, 0
    simulator, retuned = problem.simulator, rule.tuned if retune is None else retune
    if not (whiten or retuned):
        return stage, landing, 0
    try:
        again = way.search_calls(stage.objective) if is_tight() else 0
        afford(1, whiten * whitening_rows(problem) + retuned * stage.objective.m + again)
        if whiten:
            problem, calls = whiten_data(fold_key(key, 1), problem, theta)
        if retuned:
            columns = problem.observed.shape[1]
            y = simulator.attempt(theta, quadrature.points, columns)
            calls += len(y)
            if are_enough(y):
                tune_key = fold_key(key, 2)
                quadrature = rule.retune(tune_key, quadrature, problem, theta, y)
                calls += quadrature.tuning_calls
        adapted = Stage(problem, quadrature)
        found = way.search(adapted.objective, theta, around=landing)
    except OutOfCallsError:
        return stage, landing, 0
    return adapted, found, calls + int(found.minimum.calls)


def _join_traces(
    first: Stage, begun: Landing, last: Stage, ended: Landing
) -> tuple[Float[Array, "t p"], Float[Array, " t"]]:
    parts = [first.trace(begun.minimum)]
    if ended is not begun:
        parts.append(last.trace(ended.minimum))
    thetas, values = zip(*parts, strict=True)
    return as_jax(np.concatenate(thetas)), as_jax(np.concatenate(values))


def _check(method: str, problem: Problem, rule: Rule, whiten: bool, retune: bool | None) -> None:
    as_truth("whiten", whiten)
    problem.prior.check_continuous(method)
    if len(problem.observed) < 2:
        raise ValueError(
            f"observed has {len(problem.observed)} row; {method} needs 2 to know its errors; use "
            "rejection_abc"
        )
    if retune is not None and as_truth("retune", retune):
        rule.check_weighted("retune=True")
