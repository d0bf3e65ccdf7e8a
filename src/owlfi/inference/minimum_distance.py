"""Minimum-distance estimation, eq. (3): the parameters whose simulations are nearest to the data.

One fixed quadrature makes the squared MMD a deterministic, smooth function of theta, which Newton's
method minimises from the best of some starts. Weights tuned to the whole prior need not suit the
estimate: they are tuned again there, from runs already made, and the search goes on.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_truth
from owlfi._tools.keys import split_key
from owlfi._tools.progress import begin_step, show_bars
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement, refine
from owlfi.inference.forecast import expect_fit
from owlfi.inference.search.assess import DESIGNS, Assessed, assess
from owlfi.inference.search.doubts import describe_fit, describe_search
from owlfi.inference.search.newton import STEPS, Minimum
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.profile import Reach
from owlfi.inference.search.regressed import Regressed, regressed
from owlfi.inference.search.roughness import is_rough
from owlfi.inference.search.sandwich import Sandwich
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import coarsen, compare_starts
from owlfi.inference.search.ways import ByRegression, BySlopes, Landing, Way
from owlfi.inference.search.whitening import whiten_data
from owlfi.inference.search.widely import search_widely
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import (
    Expected,
    OutOfCallsError,
    calls_made,
    keep_back,
    limit_calls,
    tell_rough,
)
from owlfi.results import Estimate, announce


def _expect(rule: Rule, problem: Problem, starts: int, refined: int, discrepancy: str) -> Expected:
    needed = expect_fit(rule, problem, starts, refined)
    more = expect_refinement(rule.m, problem) if discrepancy == "efficient" else 0
    rough = expect_fit(rule, problem, starts, refined, rough=True)
    return Expected(needed, needed + more, rough + more)


@limit_calls(_expect)
def minimum_distance(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    starts: int = 16,
    refined: int = 2,
    steps: int = STEPS,
    whiten: bool = False,
    retune: bool | None = None,
    discrepancy: str = "mmd",
    progress: bool = False,
    max_calls: int | None = None,
) -> Estimate:
    """The parameters with the smallest squared MMD, with standard errors.

    starts: how many points of the prior are simulated, besides those that the rule has simulated.
    refined: how many searches on all points at most: one for each of the different places to which
        three times as many searches on 64 points lead. With 1, one from the best start.
    steps: the most that a search may take.
    whiten: fit once more with a kernel on data in whose coordinates the model at the first estimate
        is normal and uncorrelated, from 20 simulations a column or more. Where columns are
        correlated or skewed, this uses the data better.
    retune: fit once more with weights tuned to the simulations at the first estimate, on the same
        points. Done where the rule tunes its weights, unless False; with True for any points.
    discrepancy: "mmd", or "efficient": from that estimate on, by the inverse covariance of many
        features of the data, which uses them about as well as the likelihood would, and with the
        share of the data that fits as a parameter of its own. The estimate then has `mass`,
        `misfit`, `chances`, `influence` and `outliers`, the observations that do not fit.
    progress: show what is done.
    max_calls: the most rows that the simulator may compute; no answer can be given
        where they end before the errors are known.

    Derivatives are exact for JAX simulators; others are differenced on the same noise. Parameters
    with bounds are transformed to the real line. Ctrl-C during the first searches returns the best
    of those that are finished.

    Raises ValueError for discrete parameters, where the simulations fail at every start, for a
    U-statistic to retune, another discrepancy, and for too few calls.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> owlfi.minimum_distance(jax.random.key(1), owlfi.Problem(model, x), rule).theta.round(1)
    Array([3., 1.], dtype=float64)
    """
    as_discrepancy(discrepancy)
    fit = find_minimum(
        "minimum_distance",
        key,
        problem,
        rule,
        starts=starts,
        refined=refined,
        steps=steps,
        whiten=whiten,
        retune=retune,
        progress=progress,
    )
    estimate = Estimate(
        problem.prior.names,
        fit.theta,
        fit.sandwich.covariance,
        fit.squared_mmd,
        fit.calls,
        fit.gradient_calls,
        bool(fit.minimum.converged),
        *fit.trace,
        below=as_jax(fit.reach.below),
        above=as_jax(fit.reach.above),
        ends=as_jax(np.stack(problem.prior.bounds)),
        warnings=fit.warnings,
    )
    if discrepancy == "efficient":
        estimate = _refine(jax.random.fold_in(key, 3), rule, fit, estimate, progress)
    return announce(estimate)


def _refine(
    key: Key[Array, ""], rule: Rule, fit: "Fit", estimate: Estimate, progress: bool
) -> Estimate:
    """The estimate by the efficient discrepancy, or the same one with a word."""
    with show_bars(progress):
        begin_step("Efficient discrepancy")
        found = refine(key, rule, fit.stage, fit.theta, fit.assessed.without_slopes)
    calls = max(fit.calls + found.calls, calls_made())
    derivatives = fit.gradient_calls + found.gradient_calls
    spent: dict[str, Any] = {"calls": calls, "gradient_calls": derivatives}
    if found.refined is None:
        return replace(estimate, **spent, warnings=(*fit.warnings, *found.warnings))
    known, about = found.refined, {"method": "minimum distance, efficient discrepancy"}
    return replace(
        estimate,
        **spent,
        **known.describe(),
        about=about,
        converged=estimate.converged and known.settled,
        below=None,
        above=None,
        warnings=(*fit.search_warnings, *found.warnings),
    )


class Fit(NamedTuple):
    """The minimum and what is known around it, where the other methods begin."""

    stage: Stage
    assessed: Assessed
    squared_mmd: Float[Array, ""]
    calls: int
    gradient_calls: int
    trace: tuple[Float[Array, "t p"], Float[Array, " t"]]
    """The way to the minimum: thetas, and the squared MMD as the search saw it."""
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
    progress: bool = False,
) -> Fit:
    """The work of `minimum_distance`, with everything it finds on its way."""
    problem, rule = as_problem(problem), as_rule(rule)
    _check(method, problem, rule, retune)
    starts, refined = as_count("starts", starts), as_count("refined", refined)
    steps = as_count("steps", steps)
    as_truth("whiten", whiten)
    with show_bars(progress):
        quadrature_key, start_key, design_key = split_key(key, 3)
        begin_step("Weights")
        first = Stage(problem, rule.quadrature(quadrature_key, problem))
        begin_step("Starts")
        checked = problem.check_determined(
            problem.prior.starts(start_key, starts), first.quadrature
        )
        tried = compare_starts(start_key, problem, first.objective, first.quadrature, starts)
        nearest = as_jax(np.asarray(tried.thetas)[0])
        rough, looked = is_rough(coarsen(first.objective, tried.ladder[0]), nearest)
        way: Way = ByRegression(steps) if rough else BySlopes(steps)
        if rough:
            tell_rough()
        begin_step("Search")
        with keep_back(way.error_calls(first.objective, DESIGNS)):
            wide = search_widely(first, way, tried, refined)
            last, best, more = _adapt(first, rule, way, wide.best, start_key, whiten, retune)
        begin_step("Standard errors")
        found = assess(design_key, rule, last, way, best)
        spent = wide.calls + more + found.calls.search
        beside = first.quadrature.tuning_calls + checked + tried.calls + looked + found.calls.other
        return Fit(
            last,
            found,
            last.squared_mmd(found.landing.minimum.value),
            max(spent + beside, calls_made()),
            0 if found.way.rough else problem.simulator.derivative_calls(spent),
            _join_traces(first, wide.best, last, found.landing),
            describe_fit(last, wide, found, tried),
            describe_search(last, wide, found, tried),
        )


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
    retuned = rule.tuned if retune is None else retune
    if not (whiten or retuned):
        return stage, landing, 0
    try:
        if whiten:
            problem, calls = whiten_data(jax.random.fold_in(key, 1), problem, theta)
        if retuned:
            y, tune_key = (
                problem.simulator.rows(theta, quadrature.points),
                jax.random.fold_in(key, 2),
            )
            calls += len(y)
            if np.isfinite(y).all():
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


def _check(method: str, problem: Problem, rule: Rule, retune: bool | None) -> None:
    problem.prior.check_continuous(method)
    if len(problem.observed) < 2:
        raise ValueError(
            f"observed has {len(problem.observed)} row; {method} needs 2 to know its errors; use "
            "rejection_abc"
        )
    if retune is not None and as_truth("retune", retune):
        rule.check_weighted("retune=True")
