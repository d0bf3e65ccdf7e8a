"""Minimum-distance estimation, eq. (3): the parameters whose simulations are nearest to the data.

One fixed quadrature makes the squared MMD a deterministic, smooth function of theta, which Newton's
method minimises from the best of some starts. Weights tuned to the whole prior need not suit the
estimate: they are tuned again there, from runs already made, and the search goes on.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from owlfi._tools.arrays import as_jax
from owlfi.inference.efficient.doubts import SHORT
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement
from owlfi.inference.expected_calls import expect_fit
from owlfi.inference.fit import Fit, find_minimum, settle_errors
from owlfi.inference.refined_fit import can_refine, refine_fit
from owlfi.inference.search.newton import STEPS
from owlfi.inference.thrift import least_fit
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.spending import Expected, limit_calls
from owlfi.results import Estimate, announce


def _expect(rule: Rule, problem: Problem, starts: int, refined: int, discrepancy: str) -> Expected:
    more = expect_refinement(rule.m, problem) if discrepancy == "efficient" else 0
    smooth, rough = (
        expect_fit(rule, problem, starts, refined, rough=rough) + more for rough in (False, True)
    )
    return Expected(least_fit(problem, starts), smooth, rough)


@limit_calls(_expect, plans=True)
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
    max_calls: the most rows that the simulator may compute. Work is planned for as many, on fewer
        points where they do not do for those of the rule, and what was left out is said in the
        warnings; errors that are not known are infinite.

    Derivatives are exact for JAX simulators; others are differenced on the same noise. Parameters
    stay between the ends of their prior. Ctrl-C during the first searches returns the best
    of those that are finished.

    Raises ValueError for discrete parameters, where the simulations fail at every start, for a
    U-statistic to retune, another discrepancy, and for too few calls.

    >>> import jax, owlfi
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
        whole=discrepancy == "mmd",
        progress=progress,
    )
    if discrepancy == "efficient" and can_refine(fit):
        return announce(_refine(key, fit, progress))
    short = (SHORT,) if discrepancy == "efficient" else ()
    return announce(replace(_describe(fit), warnings=(*fit.warnings, *short)))


def _describe(fit: Fit) -> Estimate:
    problem = fit.stage.problem
    return Estimate(
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


def _refine(key: Key[Array, ""], fit: Fit, progress: bool) -> Estimate:
    """The estimate by the efficient discrepancy, or the plain one with a word."""
    found = refine_fit(key, fit.begun.rule, fit, progress)
    spent: dict[str, Any] = {"calls": found.calls, "gradient_calls": found.gradient_calls}
    if found.refined is None:
        settled = settle_errors(key, fit)
        spent["calls"] = max(found.calls, settled.calls)
        told = (*settled.warnings, *found.warnings[len(fit.warnings) :])
        return replace(_describe(settled), **spent, warnings=told)
    estimate = _describe(fit)
    return replace(
        estimate,
        **spent,
        **found.refined.describe(),
        about={"method": "minimum distance, efficient discrepancy"},
        converged=estimate.converged and found.refined.settled,
        below=None,
        above=None,
        warnings=found.warnings,
    )
