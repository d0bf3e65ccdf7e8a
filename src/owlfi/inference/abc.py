"""Approximate Bayesian computation, eq. (4): keep the parameters whose simulations are near.

All of it works on `Simulations`, so that a run is never needed twice: another threshold, kernel or
weighting asks for no simulation.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array, as_count, brief, positive
from owlfi._tools.keys import as_key
from owlfi._tools.progress import collect, split_chunks
from owlfi.inference.health import tell_few_draws
from owlfi.kernels import Kernel
from owlfi.measures import as_points
from owlfi.problem.problem import Problem
from owlfi.problem.real_line import from_real, to_real
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import Simulations, simulate
from owlfi.problem.without_failures import check_way, without_failures
from owlfi.results import Posterior, announce
from owlfi.results.health import tell_interruption
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.pooled import pooled_weights
from owlfi.weights.quadrature import Quadrature, unweighted
from owlfi.weights.tuned import tuned_weights

SHARE = 0.05
_CHUNK = 100  # thetas between two moves of the progress bar
_LANDMARKS = 20
_DRAWS_A_SLOPE = 5  # of the regression, so that it is no interpolation
_SINGULAR = 1e-6


def rejection_abc(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    draws: int = 2000,
    share: float | None = None,
    threshold: float | None = None,
    adjust: bool = False,
    on_failure: str = "reject",
    progress: bool = False,
) -> Posterior:
    """Draws from the prior, of which those with the smallest squared MMD are kept.

    draws: how many parameters are simulated, those included at which the rule was tuned.
    share, threshold, adjust, on_failure: see `accept`.
    progress: show a bar; Ctrl-C goes on with what is simulated.

    Raises ValueError for a threshold that accepts nothing.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem, options = owlfi.Problem(model, x), {"draws": 500, "share": 0.1}
    >>> posterior = owlfi.rejection_abc(jax.random.key(1), problem, rule, **options)
    >>> posterior.draws.shape, posterior.calls
    ((50, 2), 16004)
    """
    as_count("draws", draws)
    _check_cut(share, threshold)
    check_way(on_failure)
    if adjust:
        problem.prior.check_continuous("adjust=True")
    theta_key, rule_key = jax.random.split(as_key(key))
    quadrature = as_rule(rule).quadrature(rule_key, problem)
    runs = simulate_prior(theta_key, problem, quadrature, draws, progress=progress)
    return accept(
        problem, runs, share=share, threshold=threshold, adjust=adjust, on_failure=on_failure
    )


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

    share: of the parameters to keep, those with the smallest squared MMD; 5% where neither this
        nor a threshold is given. Of parameters with `simulations.importance`, those that make up
        this share of the prior, the last of them in part.
    threshold: the largest squared MMD to keep.
    adjust: correct each draw by a local linear regression on the mean embedding of its simulations
        (Beaumont, Zhang and Balding 2002); draws then have weights.
    on_failure: what becomes of parameters at which a simulation was NaN or infinite. "reject" never
        keeps them; "reweight" uses their other simulations, with equal weights or those of
        base_kernel. They are listed in `about["failed"]` either way.

    Raises ValueError for a threshold that accepts nothing, where all parameters failed, and for
    adjust with discrete parameters or fewer than about ten accepted draws.
    """
    _check_cut(share, threshold)
    if adjust:
        problem.prior.check_continuous("adjust=True")
    failed = ~np.isfinite(np.asarray(simulations.y)).all(2)
    measure = problem.simulator.measure
    runs = without_failures(
        simulations, failed, on_failure=on_failure, base_kernel=base_kernel, measure=measure
    )
    found = measure_distances(problem, runs)
    importance = None if runs.importance is None else np.asarray(runs.importance)
    kept = _nearest(found, len(failed), share, threshold, importance)
    about = {
        "method": "ABC",
        "threshold": float(found[kept[-1]] if threshold is None else threshold),
        "simulated": len(failed),
        "failed": np.asarray(simulations.thetas)[failed.any(1)].tolist(),
        "adjusted": adjust,
    }
    thetas, weights = runs.thetas[kept], np.full(len(kept), 1 / len(kept))
    if importance is not None:
        mass = math.inf if threshold is not None else _share(share) * len(failed)
        weights = _within(importance[kept], mass)
        about["effective_draws"] = float(1 / np.sum(weights**2))
    if adjust:
        thetas, weights = _adjust(problem, runs.at(kept), found[kept], weights)
    remedy = "simulate more parameters, or accept a larger share of them"
    few = tell_few_draws(len(weights), 1 / np.sum(weights**2), remedy)
    told = (*problem.warnings, *runs.quadrature.warnings, *runs.warnings, *few)
    parts = problem.prior.names, thetas, jnp.asarray(weights), runs.calls
    return announce(Posterior(*parts, 1, about, told))


def _share(share: float | None) -> float:
    return SHARE if share is None else share


def _within(importance: np.ndarray, mass: float) -> np.ndarray:
    """Weights that sum to one, of draws in the order of their distance up to a prior mass."""
    before = np.cumsum(importance) - importance
    weights = np.minimum(importance, np.maximum(mass - before, 0))
    return weights / weights.sum()


def _nearest(
    found: np.ndarray,
    simulated: int,
    share: float | None,
    threshold: float | None,
    importance: np.ndarray | None,
) -> np.ndarray:
    """The places of the smallest distances, in their order."""
    order = np.argsort(found, kind="stable")
    if threshold is None and importance is not None:
        before = np.cumsum(importance[order]) - importance[order]
        return order[before < _share(share) * simulated]  # importance has mean one
    if threshold is None:
        return order[: max(1, round(_share(share) * simulated))]
    kept = order[found[order] <= threshold]
    if not len(kept):
        raise ValueError(
            f"threshold {threshold} accepts none of {simulated} parameters, whose smallest "
            f"squared MMD is {found[order[0]]:.4g}; give a larger threshold, or share=0.05"
        )
    return kept


def measure_distances(problem: Problem, simulations: Simulations) -> Float[np.ndarray, " t"]:
    """The squared MMD at each theta, +∞ where a simulation is NaN or infinite.

    Where each theta has points of its own and weights that know their error, the error is added.
    This is what to expect of the squared MMD given the simulations; without it, the less the
    points of a theta tell, the nearer it would look.
    """
    fine = np.isfinite(np.asarray(simulations.y)).all((1, 2))
    found = np.full(len(fine), np.inf)
    if fine.any():
        runs = simulations if fine.all() else simulations.at(fine)
        found[fine] = problem.squared_mmd(runs.y, runs.quadrature) + _own_errors(runs.quadrature)
    return found


def _own_errors(quadrature: Quadrature) -> Array:
    """Those of each theta's design; one design for all would only move the scale."""
    if quadrature.points.ndim == 2 or quadrature.certificate is None:
        return jnp.zeros(())
    return jnp.nan_to_num(quadrature.certificate.excess)


def stored_simulations(
    problem: Problem, thetas: Any, u: Any, y: Any, *, base_kernel: Kernel | str | None = None
) -> Simulations:
    """Runs made elsewhere: at each theta (t, p), the noise u (t, m, s) and what came out (t, m, d).

    y: rows of the simulator itself; where the problem has summaries, they are taken here.
    base_kernel: c, of the weights. "tuned" fits one to the runs (see `pooled_weights`); any other
        gives its optimal weights at the points of each theta; equal weights where left out. u may
        also be one design (m, s) for all thetas.

    Raises ValueError for arrays that do not fit each other or the problem, thetas outside the
    prior, and another word.
    """
    thetas = as_points("thetas", thetas, problem.prior.measure)
    measure = problem.simulator.measure
    u = as_points("u", u, measure, batched=True)
    y = _numbers(y)  # NaN marks runs that failed
    y = problem.summarise_rows(y[..., None] if y.ndim == 2 else y)
    expected = (len(thetas), u.shape[-2], problem.observed.shape[1])
    if y.shape != expected or u.shape[:-2] not in ((), (len(thetas),)):
        raise ValueError(
            f"y must have shape {expected} (thetas, points, columns of the observations) and u one "
            f"design or one a theta, got y {y.shape} and u {u.shape}"
        )
    quadrature = _weigh(problem, u, y, base_kernel)
    return Simulations(thetas, quadrature, y, y.shape[0] * y.shape[1])


def _numbers(y: Any) -> Array:
    try:
        return jnp.asarray(np.asarray(y, float))
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be an array of numbers, got {brief(y)}") from error


def _weigh(problem: Problem, u: Array, y: Array, base_kernel: Kernel | str | None) -> Quadrature:
    if base_kernel is None:
        return unweighted(u)
    measure = problem.simulator.measure
    if isinstance(base_kernel, Kernel):
        return optimal_weights(base_kernel, measure, u)
    if base_kernel != "tuned":
        raise ValueError(
            f"base_kernel must be 'tuned', a kernel on u, or left out, got {base_kernel!r}"
        )
    tune = tuned_weights if u.ndim == 2 else pooled_weights
    return tune(problem.data_kernel, measure, u, y)


def simulate_prior(
    key: Key[Array, ""],
    problem: Problem,
    quadrature: Quadrature,
    draws: int,
    *,
    progress: bool = False,
) -> Simulations:
    """Simulations at draws from the prior; those that the rule was tuned to are the first."""
    known = problem.pilot(quadrature).at(slice(draws))
    missing = draws - len(known.thetas)
    if not missing:
        return known
    thetas, check = problem.prior.sample(key, missing), quadrature.pilot is None
    more = simulate_in_chunks(problem, thetas, quadrature, check=check, progress=progress)
    return known.join(more)


def simulate_in_chunks(
    problem: Problem,
    thetas: Float[Array, "t p"],
    quadrature: Quadrature,
    *,
    check: bool = True,
    progress: bool = False,
) -> Simulations:
    """Simulations at all thetas on one design, or at the first of them when interrupted.

    check: see first that y is determined by theta and u.
    """
    parts = split_chunks(len(thetas), _CHUNK)

    def steps() -> Iterator[Simulations]:
        for number, part in enumerate(parts):
            yield simulate(
                problem.simulator,
                thetas[part],
                quadrature,
                check=check and number == 0,
                columns=problem.observed.shape[1],
                keep_failed=True,
            )

    done = collect(steps(), len(parts), "Simulating", show=progress)
    runs = done[0].join(*done[1:])
    return replace(runs, warnings=tell_interruption(len(runs.thetas), len(thetas), "parameters"))


def _adjust(
    problem: Problem, runs: Simulations, found: Float[np.ndarray, " t"], importance: np.ndarray
) -> tuple[Array, np.ndarray]:
    """Draws moved to where the regression puts them at the embedding of the observations."""
    weights = 1 - found / (found.max() * (1 + 1e-9) + np.finfo(float).tiny)  # Epanechnikov
    weights = (np.maximum(weights, 0) + np.finfo(float).eps) * importance
    weights = weights / weights.sum()
    n = problem.observed.shape[0]
    places = problem.observed[np.linspace(0, n - 1, min(n, _LANDMARKS)).astype(int)]
    k, w = problem.data_kernel, jnp.broadcast_to(runs.quadrature.weights, runs.y.shape[:2])
    reached = _embed_each(k, places, problem.observed[None], jnp.full((1, n), 1 / n))
    features = np.asarray(_embed_each(k, places, runs.y, w) - reached)
    ends = problem.prior.bounds
    v = np.asarray(to_real(runs.thetas, ends))
    scores = _main_directions(features, weights)
    root = np.sqrt(weights)[:, None]
    design = root * np.column_stack([np.ones(len(v)), scores])
    slopes = np.linalg.lstsq(design, root * v, rcond=_SINGULAR)[0][1:]
    return from_real(jnp.asarray(v - scores @ slopes), ends), weights


@eqx.filter_jit
def _embed_each(
    k: Kernel, places: Float[Array, "l d"], y: Float[Array, "t m d"], w: Float[Array, "t m"]
) -> Float[Array, "t l"]:
    """The mean embedding of each weighted sample at some places."""
    return jax.vmap(lambda rows, shares: k.row_sums(places, rows, shares))(y, w)


def _main_directions(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As many directions of the largest spread as the draws can tell slopes of."""
    draws = float(1 / np.sum(weights**2))
    most = int(draws / _DRAWS_A_SLOPE) - 1
    if most < 1:
        raise ValueError(
            f"adjust=True needs draws worth {2 * _DRAWS_A_SLOPE} at least, but the {len(weights)} "
            f"accepted ones, weighted by their distance, are worth {draws:.1f}; simulate more, "
            "accept a larger share, or leave adjust out"
        )
    centred = features - weights @ features
    directions = np.linalg.svd(np.sqrt(weights)[:, None] * centred, full_matrices=False)[2]
    return features @ directions[:most].T


def _check_cut(share: float | None, threshold: float | None) -> None:
    if share is not None and threshold is not None:
        raise ValueError(f"give a share or a threshold, not both ({share}, {threshold})")
    if share is not None and not 0 < float(as_array("share", share)) <= 1:
        raise ValueError(f"share must lie above 0 and be at most 1, got {share!r}")
    if threshold is not None:
        positive("threshold", threshold, number=True)
