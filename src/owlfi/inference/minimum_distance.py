"""Minimum-distance estimation, eq. (3): the parameters whose simulations are nearest to the data.

One fixed quadrature makes the squared MMD a deterministic, smooth function of theta, which Newton's
method minimises from the best of some starts. Weights tuned to the whole prior need not suit the
estimate: they are tuned again there, from runs already made, and the search goes on.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.inference.search.finite_differences import minimise_on_host, simulated_with_slopes
from owlfi.inference.search.newton import STEPS, Minimum, minimise
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.inference.search.sandwich import Sandwich, sandwich, sandwich_of_rows
from owlfi.kernels.transformed import whitened
from owlfi.points.sequences import iid
from owlfi.problem.problem import Problem
from owlfi.problem.real_line import to_real
from owlfi.problem.rules import Rule, UStatistic, VStatistic
from owlfi.results import Estimate
from owlfi.weights.quadrature import Quadrature
from owlfi.weights.tuned import tuned_weights

_FEWEST = 32  # points to compare starts on


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
    with bounds are transformed to the real line. Ctrl-C returns the best of the searches that
    are finished.

    Raises ValueError for discrete parameters, where the simulations fail at every start, and for
    a U-statistic to retune.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, kernel=owlfi.Matern(2.5))
    >>> owlfi.minimum_distance(jax.random.key(1), owlfi.Problem(model, x), rule).theta.round(1)
    Array([3., 1.], dtype=float64)
    """
    fit = fitted("minimum_distance", key, problem, rule, starts, refined, steps, whiten, retune)
    return Estimate(
        problem.prior.names,
        fit.minimum.theta,
        fit.sandwich.covariance,
        fit.minimum.value + fit.objective.data_term(),
        fit.calls,
        fit.gradient_calls,
        bool(fit.minimum.converged),
        *fit.trace,
    )


class Fit(NamedTuple):
    """The minimum and what is known around it, where the other methods begin."""

    objective: Objective
    minimum: Minimum
    sandwich: Sandwich
    calls: int
    gradient_calls: int
    trace: tuple[Float[Array, "t p"], Float[Array, " t"]]
    """The way to the minimum: thetas, and the squared MMD as the search saw it."""


def fitted(
    method: str,
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    starts: int = 16,
    refined: int = 2,
    steps: int = STEPS,
    whiten: bool = False,
    retune: bool | None = None,
) -> Fit:
    """The work of `minimum_distance`, with everything it finds on its way."""
    problem.prior.check_continuous(method)
    if len(problem.observed) < 2:
        raise ValueError(
            f"observed has {len(problem.observed)} row; {method} needs 2 to know its errors; use "
            "rejection_abc"
        )
    as_count("starts", starts), as_count("refined", refined), as_count("steps", steps)
    if retune and isinstance(rule, UStatistic):
        raise ValueError("a U-statistic has no weights to tune; use VStatistic, or retune=False")
    quadrature_key, start_key = jax.random.split(as_key(key))
    quadrature = rule.quadrature(quadrature_key, problem)
    objective = objective_of(problem, quadrature)
    tried, calls = candidates(start_key, problem, objective, quadrature, starts)
    minima = _searches(objective, tried[:refined], steps)
    best = min(minima, key=lambda minimum: float(minimum.value))
    way = [_way(objective, best)]
    tuned_again = quadrature.pilot is not None if retune is None else retune
    if whiten or tuned_again:
        y = objective.rows(to_real(best.theta, objective.ends))
        objective = _whitened(objective, y) if whiten else objective
        quadrature = _tuned(objective, quadrature, y) if tuned_again else quadrature
        objective = objective.on(quadrature.points, quadrature.weights)
        best = searched(objective, best.theta, steps)
        way.append(_way(objective, best))
        minima += [best, best._replace(evaluations=jnp.ones((), int))]  # and that of y
    spread, more = _sandwich(objective, best.theta, point_excess(rule, quadrature))
    evaluated = quadrature.m * (sum(int(minimum.evaluations) for minimum in minima) + more)
    derivatives = 0 if problem.simulator.on_host else evaluated * len(problem.prior.names)
    thetas, values = (jnp.concatenate(parts) for parts in zip(*way, strict=True))
    return Fit(objective, best, spread, calls + evaluated, derivatives, (thetas, values))


def _way(objective: Objective, minimum: Minimum) -> tuple[Array, Array]:
    seen = np.isfinite(np.asarray(minimum.values))
    return minimum.thetas[seen], minimum.values[seen] + objective.data_term()


def candidates(
    key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature, count: int
) -> tuple[Float[Array, "t p"], int]:
    """Starts with the best first, and the simulator calls that their comparison took.

    A quarter of the points, equally weighted, is enough to compare them. Runs that the rule has
    made while it was tuned, on the same points, cost nothing again.

    Raises ValueError where the simulations fail at every start.
    """
    thetas = problem.prior.starts(key, count)
    few = min(quadrature.m, max(_FEWEST, quadrature.m // 4))
    coarse = objective.on(objective.points[:few], jnp.full(few, 1 / few))
    values = _values(coarse, thetas)
    calls = count * few
    pilot = quadrature.pilot
    if pilot is not None:
        calls += pilot.calls
        thetas = jnp.concatenate([thetas, pilot.thetas])
        values = jnp.concatenate([values, _values_of_rows(coarse, pilot.y[:, :few])])
    known = np.asarray(jnp.isfinite(values))
    if not known.any():
        raise ValueError(
            f"y is NaN or infinite at all {len(thetas)} starts, such as theta = "
            f"{np.asarray(thetas[0])}; mend the generator or narrow the prior"
        )
    order = np.argsort(np.where(known, values, np.inf))[: known.sum()]
    return thetas[order], calls


def points_are_independent(rule: Rule) -> bool:
    """Whether the points of a rule are independent draws, equally weighted."""
    return isinstance(rule, UStatistic) or (isinstance(rule, VStatistic) and rule.points is iid)


def point_excess(rule: Rule, quadrature: Quadrature) -> Float[Array, ""] | None:
    """The squared error that the points add to the embedding, as far as it is known.

    None stands for that of independent points, 0 is taken where a rule gives no estimate.
    """
    certificate = quadrature.certificate
    if certificate is None:
        return None if points_are_independent(rule) else jnp.zeros(())
    return jnp.maximum(jnp.nan_to_num(certificate.excess), 0.0)


def _whitened(objective: Objective, y: Float[Array, "m d"]) -> Objective:
    """With the kernel on data whitened by the covariance of the simulations."""
    kernel = whitened(objective.observed, covariance=np.cov(np.asarray(y).T))
    return eqx.tree_at(lambda o: o.kernel, objective, kernel)


def _tuned(objective: Objective, quadrature: Quadrature, y: Float[Array, "m d"]) -> Quadrature:
    """The same points with weights for one theta."""
    pilot = quadrature.pilot
    # As many copies as the pilot has thetas: what was compiled for it serves again.
    samples = y if pilot is None else jnp.broadcast_to(y, (len(pilot.thetas), *y.shape))
    measure = objective.simulator.measure
    return tuned_weights(objective.kernel, measure, quadrature.points, samples)


def searched(objective: Objective, start: Float[Array, " p"], steps: int = STEPS) -> Minimum:
    """The minimum near a start, for simulators of both kinds."""
    search = minimise_on_host if objective.simulator.on_host else minimise
    return jax.block_until_ready(search(objective, start, steps=steps))


def _searches(objective: Objective, starts: Array, steps: int) -> list[Minimum]:
    """One search from each start; those finished when interrupted."""
    minima: list[Minimum] = []
    try:
        for start in starts:
            minima.append(searched(objective, start, steps))
    except KeyboardInterrupt:
        if not minima:
            raise
    return minima


def _sandwich(objective: Objective, theta: Array, excess: Array | None) -> tuple[Sandwich, int]:
    """With how often all points were simulated for it."""
    if not objective.simulator.on_host:
        return sandwich(objective, theta, excess=excess), 1
    y, slopes, count = simulated_with_slopes(objective, theta)
    return sandwich_of_rows(objective, theta, y, slopes, excess=excess), count


def _values(objective: Objective, thetas: Float[Array, "t p"]) -> Float[Array, " t"]:
    if not objective.simulator.on_host:
        return _values_in_jax(objective, thetas)
    y = [objective.simulator.rows(theta, objective.points) for theta in thetas]
    return _values_of_rows(objective, jnp.stack(y))


@eqx.filter_jit
def _values_in_jax(objective: Objective, thetas: Array) -> Array:
    return jax.lax.map(lambda theta: objective.at(to_real(theta, objective.ends)), thetas)


@eqx.filter_jit
def _values_of_rows(objective: Objective, y: Float[Array, "t m d"]) -> Array:
    return jax.lax.map(objective.of_rows, y)
