"""Minimum-distance estimation, eq. (3): the parameters whose simulations are nearest to the data.

One fixed quadrature makes the squared MMD a deterministic, smooth function of theta, which Newton's
method minimises from the best of some starts. Weights tuned to the whole prior need not suit the
estimate: they are tuned again there, from runs already made, and the search goes on.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.inference.search.newton import STEPS, Minimum, minimise
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.inference.search.sandwich import Sandwich, sandwich
from owlfi.inference.search.starts import compare_starts
from owlfi.kernels.transformed import whitening_kernel
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.results import Estimate, announce
from owlfi.weights.quadrature import Quadrature


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
) -> Estimate:
    """The parameters with the smallest squared MMD, with standard errors.

    starts: how many points of the prior are simulated, besides those that the rule has simulated.
    refined: from how many of the best a search begins.
    steps: the most that a search may take.
    whiten: fit once more with a kernel on data whitened by the covariance of the model at the first
        estimate. Where columns are correlated, this uses the data better.
    retune: fit once more with weights tuned to the simulations at the first estimate, on the same
        points. Done where the rule tunes its weights, unless False; with True for any points.

    Derivatives are exact for JAX simulators; others are differenced on the same noise. Parameters
    with bounds are transformed to the real line. Ctrl-C during the first searches returns the best
    of those that are finished.

    Raises ValueError for discrete parameters, where the simulations fail at every start, and for
    a U-statistic to retune.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> owlfi.minimum_distance(jax.random.key(1), owlfi.Problem(model, x), rule).theta.round(1)
    Array([3., 1.], dtype=float64)
    """
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
    )
    estimate = Estimate(
        problem.prior.names,
        fit.minimum.theta,
        fit.sandwich.covariance,
        fit.squared_mmd,
        fit.calls,
        fit.gradient_calls,
        bool(fit.minimum.converged),
        *fit.trace,
        warnings=fit.warnings,
    )
    return announce(estimate)


class Fit(NamedTuple):
    """The minimum and what is known around it, where the other methods begin."""

    objective: Objective
    minimum: Minimum
    squared_mmd: Float[Array, ""]
    sandwich: Sandwich
    calls: int
    gradient_calls: int
    trace: tuple[Float[Array, "t p"], Float[Array, " t"]]
    """The way to the minimum: thetas, and the squared MMD as the search saw it."""
    warnings: tuple[str, ...] = ()
    """What is wrong with it, for the results of all methods that begin here."""


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
) -> Fit:
    """The work of `minimum_distance`, with everything it finds on its way."""
    _check(method, problem, as_rule(rule), retune)
    as_count("starts", starts), as_count("refined", refined), as_count("steps", steps)
    quadrature_key, start_key = jax.random.split(as_key(key))
    first = _Stage(problem, rule.quadrature(quadrature_key, problem))
    checked = problem.check_determined(problem.prior.starts(start_key, starts), first.quadrature)
    tried, calls = compare_starts(start_key, problem, first.objective, first.quadrature, starts)
    minima = _search_each(first.objective, tried[:refined], steps)
    best = min(minima, key=lambda minimum: float(minimum.value))
    last, way = first, [first.trace(best)]
    spent = sum(int(minimum.calls) for minimum in minima)
    retuned = rule.tuned if retune is None else retune
    if whiten or retuned:
        y = problem.simulator.rows(best.theta, first.quadrature.points)
        last = _adapt(first, rule, y, whiten, retuned)
        best = minimise(last.objective, best.theta, steps=steps)
        way.append(last.trace(best))
        spent += len(y) + int(best.calls)
    spread, more = sandwich(last.objective, best.theta, excess=last.quadrature.excess)
    return Fit(
        last.objective,
        best,
        best.value + last.data_term,
        spread,
        first.quadrature.tuning_calls + checked + calls + spent + more,
        problem.simulator.derivative_calls(spent + more),
        (jnp.concatenate([thetas for thetas, _ in way]), jnp.concatenate([v for _, v in way])),
        (*problem.warnings, *last.quadrature.warnings),
    )


class _Stage:
    """A problem on one quadrature: searches go on when either is replaced."""

    def __init__(self, problem: Problem, quadrature: Quadrature):
        self.problem, self.quadrature = problem, quadrature
        self.objective = objective_of(problem, quadrature)
        self.data_term = problem.data_term(quadrature.unbiased)

    def trace(self, minimum: Minimum) -> tuple[Array, Array]:
        """The thetas of a search and their squared MMD, as far as it went."""
        seen = np.isfinite(np.asarray(minimum.values))
        return minimum.thetas[seen], minimum.values[seen] + self.data_term


def _adapt(
    stage: _Stage, rule: Rule, y: Float[Array, "m d"], whiten: bool, retuned: bool
) -> _Stage:
    """With a kernel on data whitened by the covariance of simulations y, or weights tuned to y."""
    problem, quadrature = stage.problem, stage.quadrature
    if whiten:
        covariance = np.cov(np.asarray(y).T)
        problem = problem.with_kernel(whitening_kernel(problem.observed, covariance=covariance))
    if retuned:
        quadrature = rule.retune(quadrature, problem, y)
    return _Stage(problem, quadrature)


def _check(method: str, problem: Problem, rule: Rule, retune: bool | None) -> None:
    problem.prior.check_continuous(method)
    if len(problem.observed) < 2:
        raise ValueError(
            f"observed has {len(problem.observed)} row; {method} needs 2 to know its errors; use "
            "rejection_abc"
        )
    if retune:
        rule.check_weighted("retune=True")


def _search_each(objective: Objective, starts: Array, steps: int) -> list[Minimum]:
    """One search from each start; those finished when interrupted."""
    minima: list[Minimum] = []
    try:
        for start in starts:
            minima.append(jax.block_until_ready(minimise(objective, start, steps=steps)))
    except KeyboardInterrupt:
        if not minima:
            raise
    return minima
