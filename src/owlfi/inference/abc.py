"""Approximate Bayesian computation, eq. (4): keep the parameters whose simulations are near.

All of it works on `Simulations`, so that a run is never needed twice: another threshold, kernel or
weighting asks for no simulation.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Key

from owlfi._tools.arrays import as_jax, take_rows
from owlfi._tools.checks import as_count, as_truth
from owlfi._tools.keys import fold_key, numpy_generator, split_key
from owlfi.inference.acceptance import (
    FEWEST,
    Accepted,
    Cut,
    accept_nearest,
    tell_loose,
)
from owlfi.inference.adjustment.adjust import (
    Adjusted,
    View,
    adjust_draws,
    view_runs,
)
from owlfi.inference.adjustment.features import UnadjustableError
from owlfi.inference.adjustment.polynomial import draws_needed
from owlfi.inference.adjustment.redrawn import redraw, redrawn_calls
from owlfi.inference.health import tell_few_draws
from owlfi.inference.prior_runs import simulate_prior
from owlfi.inference.yardstick import (
    Yardstick,
    check_yardstick,
    choose_yardstick,
    expect_yardstick,
    look_sharply,
    measure_by_mmd,
    tell_unseen,
)
from owlfi.kernels import Kernel
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import CHECK_CALLS, Simulations, as_simulations
from owlfi.problem.spending import Expected, OutOfCallsError, keep_back, limit_calls
from owlfi.problem.tuned_design import noise_of, retune_points
from owlfi.problem.without_failures import check_way, find_failed, without_failures
from owlfi.results import Posterior, announce


def _expect_rejection(
    problem: Problem, rule: Rule, draws: int, adjust: bool, discrepancy: str
) -> Expected:
    needed = max(rule.tuning_calls(problem), rule.m + CHECK_CALLS)
    redrawn = redrawn_calls(rule, len(problem.prior.names)) if adjust else 0
    fitted = expect_yardstick(problem, rule, discrepancy)
    drawn = max(needed, draws * rule.m + CHECK_CALLS) + redrawn
    return Expected(fitted.needed + needed + redrawn, fitted.in_all + drawn)


@limit_calls(_expect_rejection)
def rejection_abc(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    draws: int = 2000,
    share: float | None = None,
    threshold: float | None = None,
    adjust: bool = False,
    discrepancy: str = "mmd",
    retune: bool = False,
    on_failure: str = "reject",
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """Draws from the prior, of which those with the smallest squared MMD are kept.

    draws: how many parameters are simulated, those included at which the rule was tuned.
    share, threshold, adjust, on_failure: see `accept`. An adjustment also simulates 16 to 64
        designs of the rule in the middle of the draws, and 4 to 16 around it, to know what the
        choice of the points adds and what they lack; where too few
        are accepted for one, the draws are those without it, and a warning says so.
    discrepancy: "mmd", or "efficient", as in `minimum_distance`, by which the data are fitted
        first. Distances are then twice the log ratio of quasi-likelihoods to the estimate's, and
        parameters up to the 95% quantile of chi-squared are as good as the nearest.
    retune: weights tuned to the simulations of the nearest parameter, instead of to the whole
        prior; this takes no simulation.
    max_calls: the most rows that the simulator may compute; fewer draws are made where they do
        not do.
    progress: show a bar; Ctrl-C goes on with what is simulated.

    Raises ValueError for a U-statistic to retune, another discrepancy, discrete parameters to fit
    or adjust, and too few calls to begin with.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem, options = owlfi.Problem(model, x), {"draws": 500, "share": 0.1}
    >>> posterior = owlfi.rejection_abc(jax.random.key(1), problem, rule, **options)
    >>> posterior.draws.shape, posterior.calls
    ((50, 2), 16004)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    draws = as_count("draws", draws)
    cut = Cut(share, threshold)
    _check(problem, cut, adjust, on_failure)
    check_yardstick(problem, discrepancy)
    if as_truth("retune", retune):
        rule.check_weighted("retune=True")
    theta_key, rule_key = split_key(key)
    quadrature = rule.quadrature(rule_key, problem)
    fit_key = fold_key(rule_key, 3)
    yardstick = choose_yardstick(fit_key, problem, rule, quadrature, discrepancy, progress)
    later = redrawn_calls(rule, len(problem.prior.names)) if adjust else 0
    with keep_back(later):
        runs = simulate_prior(
            theta_key, problem, quadrature, draws, on_failure=on_failure, progress=progress
        )
    runs = _retune(problem, yardstick, runs) if retune else runs
    selected = _select(problem, yardstick, runs, cut, adjust, on_failure, None)
    if not adjust:
        return announce(selected.posterior(problem))
    random = numpy_generator(fold_key(rule_key, 1))
    try:
        first = adjust_draws(random, problem, views := selected.view(problem))
    except UnadjustableError as refusal:  # what is simulated is not lost
        return announce(selected.posterior(problem, unadjusted=str(refusal)))
    again_key, shared = fold_key(rule_key, 2), selected.runs.quadrature
    if shared.points.ndim > 2:  # since some of them failed
        return announce(selected.posterior(problem, first))
    try:
        redrawn, made = redraw(again_key, problem, rule, shared, first.thetas)
    except OutOfCallsError:  # what is finished is not lost
        redrawn, made = None, 0
    adjusted = first if redrawn is None else adjust_draws(random, problem, views, redrawn)
    return announce(selected.posterior(problem, adjusted, made))


def accept(
    problem: Problem,
    simulations: Simulations,
    *,
    share: float | None = None,
    threshold: float | None = None,
    adjust: bool = False,
    on_failure: str = "reject",
    base_kernel: Kernel | None = None,
) -> Posterior:
    """The posterior of simulations at parameters from the prior, or with importance weights.

    share: of the parameters to keep, those with the smallest squared MMD. Of parameters with
        `simulations.importance`, those that make up this share of the prior, the last in part.
    threshold: the largest squared MMD to keep. Where neither is given, and where it accepts
        nothing, which is warned of: 5%, at least 100 parameters (half of fewer than 200), and all
        whose squared MMD is no larger than that of 95 of 100 samples of a true model;
        `about["threshold_because"]` says which of these it was. Where neither is given and k does
        not see most of these from the data, it is stretched by factors of 2 until it does;
        `about["stretched"]` says how far.
    adjust: 1,000 draws of what the accepted runs say of theta by a regression of their mean
        embedding on theta, with the noise that as many observations have, inside the accepted
        cloud; `about["support"]` says how many runs it rests on.
    on_failure: what becomes of parameters at which a simulation was NaN or infinite. "reject" never
        keeps them; "reweight" uses their other simulations, with equal weights or those of
        base_kernel. They are listed in `about["failed"]` either way.

    Raises ValueError where all parameters failed, and for adjust with discrete parameters, or fewer
    draws than a regression needs.

    >>> import jax, owlfi
    >>> from owlfi.models.wind_farm import stored_runs
    >>> runs = stored_runs()
    >>> problem = owlfi.Problem(owlfi.models.wind_farm(), runs.x)
    >>> simulations = owlfi.stored_simulations(problem, runs.theta, runs.u, runs.y)
    >>> len(accept(problem, simulations, share=0.05).draws)
    50
    """
    problem, simulations = as_problem(problem), as_simulations("simulations", simulations)
    cut = Cut(share, threshold)
    _check(problem, cut, adjust, on_failure)
    yardstick = measure_by_mmd(problem)
    selected = _select(problem, yardstick, simulations, cut, adjust, on_failure, base_kernel)
    if not adjust:
        return announce(selected.posterior(problem))
    adjusted = adjust_draws(np.random.default_rng(0), problem, selected.view(problem))
    return announce(selected.posterior(problem, adjusted))


class _Selected(NamedTuple):
    """The runs, those that are accepted, and what is to be said of them."""

    runs: Simulations
    yardstick: Yardstick
    accepted: Accepted
    about: dict[str, Any]
    seen: float
    """The share of the accepted that the yardstick sees."""
    loose: tuple[str, ...]

    def view(self, problem: Problem) -> list[View]:
        """What an adjustment looks at."""
        runs, count = self.runs, len(self.accepted.kept)
        importance = np.ones(len(runs.thetas)) if runs.importance is None else runs.importance
        sights = self.yardstick.sights()
        return view_runs(problem, sights, runs, np.asarray(importance), count)

    def posterior(
        self,
        problem: Problem,
        adjusted: Adjusted | None = None,
        calls: int = 0,
        unadjusted: str = "",
    ) -> Posterior:
        thetas, weights = take_rows(self.runs.thetas, self.accepted.kept), self.accepted.weights
        about = self.about | {"adjusted": adjusted is not None}
        made = (*self.runs.quadrature.warnings, *self.runs.warnings)
        told = (*self.yardstick.tell(problem.warnings), *made, *tell_unseen(self.seen))
        told = (*told, *self.accepted.missed)
        if adjusted is None:
            remedy = "simulate more parameters, or accept a larger share of them"
            few = tell_few_draws(len(weights), about["effective_draws"], remedy)
            told = (*told, *few, *self.loose, *_tell_unadjusted(unadjusted))
        else:
            thetas, about = adjusted.thetas, about | adjusted.about
            weights, told = np.full(len(thetas), 1 / len(thetas)), (*told, *adjusted.warnings)
        calls += self.runs.calls + self.yardstick.calls
        return Posterior(problem.prior.names, thetas, as_jax(weights), calls, 1, about, told)


def _tell_unadjusted(why: str) -> tuple[str, ...]:
    return (f"these draws are not adjusted: {why}",) if why else ()


def _check(problem: Problem, cut: Cut, adjust: bool, on_failure: str) -> None:
    cut.check()
    check_way(on_failure)
    if as_truth("adjust", adjust):
        problem.prior.check_continuous("adjust=True")


def _select(
    problem: Problem,
    yardstick: Yardstick,
    simulations: Simulations,
    cut: Cut,
    adjust: bool,
    on_failure: str,
    base_kernel: Kernel | None,
) -> _Selected:
    failed = find_failed(simulations)
    measure = problem.simulator.measure
    runs = without_failures(
        simulations, failed, on_failure=on_failure, base_kernel=base_kernel, measure=measure
    )
    importance = None if runs.importance is None else np.asarray(runs.importance)
    wanted = FEWEST
    if adjust:  # it looks at fewer of them, too
        wanted = max(FEWEST, 4 * draws_needed(len(problem.prior.names), 3))

    def look(yardstick: Yardstick) -> tuple[Accepted, float]:
        found, explained = yardstick.measure(runs), yardstick.explain(runs.quadrature)
        accepted = accept_nearest(cut, found, len(failed), importance, explained, wanted)
        return accepted, float(yardstick.sees(runs.at(accepted.kept)).mean())

    if cut == Cut():
        yardstick, (accepted, seen) = look_sharply(yardstick, look, lambda found: found[1])
    else:  # what was asked for is by k as it is
        accepted, seen = look(yardstick)
    about = {
        "method": f"ABC{yardstick.method}",
        **accepted.about(len(failed)),
        "stretched": yardstick.stretched,
        "failed": np.asarray(simulations.thetas)[failed.any(1)].tolist(),
    }
    loose = tell_loose(accepted, len(failed), cut != Cut() and not accepted.missed)
    return _Selected(runs, yardstick, accepted, about, seen, loose)


def _retune(problem: Problem, yardstick: Yardstick, runs: Simulations) -> Simulations:
    """The runs with weights that suit the nearest of them, on the points that they have."""

    def look(yardstick: Yardstick) -> tuple[int, float]:
        nearest = int(np.argmin(yardstick.measure(runs)))
        return nearest, float(yardstick.sees(runs.at([nearest]))[0])

    nearest, _ = look_sharply(yardstick, look, lambda found: found[1])[1]
    y = np.asarray(runs.y)[nearest]
    if not np.isfinite(y).all():
        return runs
    old = runs.quadrature
    tuned = retune_points(old, problem, noise_of(problem, old), as_jax(y))
    return replace(runs, quadrature=tuned)
