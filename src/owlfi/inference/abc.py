"""Approximate Bayesian computation, eq. (4): keep the parameters whose simulations are near.

All of it works on `Simulations`, so that a run is never needed twice: another threshold, kernel or
weighting asks for no simulation.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.checks import as_array, as_count, as_rows, positive
from owlfi.keys import as_key
from owlfi.measures import as_points
from owlfi.problem import Problem
from owlfi.progress import collected
from owlfi.quadrature import Quadrature, optimal_weights, unweighted
from owlfi.results import Posterior
from owlfi.rules import Rule
from owlfi.simulator import Simulations, simulate
from owlfi.sums import row_sums
from owlfi.transforms import from_real, to_real

SHARE = 0.05
_CHUNK = 100  # thetas between two moves of the progress bar
_LANDMARKS = 20
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
    progress: bool = False,
) -> Posterior:
    """Draws from the prior, of which those with the smallest squared MMD are kept.

    draws: how many parameters are simulated.
    share, threshold, adjust: see `accepted`.
    progress: show a bar; Ctrl-C goes on with what is simulated.

    Raises ValueError for a threshold that accepts nothing.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 100, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, kernel=owlfi.Matern(2.5))
    >>> posterior = owlfi.rejection_abc(jax.random.key(1), owlfi.Problem(model, x), rule, draws=500)
    >>> posterior.draws.shape, posterior.calls
    ((25, 2), 16003)
    """
    as_count("draws", draws)
    _check_cut(share, threshold)
    theta_key, rule_key = jax.random.split(as_key(key))
    thetas = problem.prior.sample(theta_key, draws)
    quadrature = rule.quadrature(rule_key, problem)
    runs = simulated_in_chunks(problem, thetas, quadrature, progress=progress)
    return accepted(problem, runs, share=share, threshold=threshold, adjust=adjust)


def accepted(
    problem: Problem,
    simulations: Simulations,
    *,
    share: float | None = None,
    threshold: float | None = None,
    adjust: bool = False,
) -> Posterior:
    """The posterior of simulations at parameters from the prior.

    share: of the parameters to keep, those with the smallest squared MMD; 5% where neither this
        nor a threshold is given.
    threshold: the largest squared MMD to keep.
    adjust: correct each draw by a local linear regression on the mean embedding of its simulations
        (Beaumont, Zhang and Balding 2002); draws then have weights.

    Parameters at which a simulation was NaN or infinite are never kept; they are listed in
    `about["failed"]`.

    Raises ValueError for a threshold that accepts nothing.
    """
    _check_cut(share, threshold)
    found = distances(problem, simulations)
    order = np.argsort(found, kind="stable")
    usable = int(np.isfinite(found).sum())
    if threshold is None:
        wanted = SHARE if share is None else share
        kept = order[: min(max(1, round(wanted * len(found))), usable)]
    else:
        kept = order[found[order] <= threshold]
    if not len(kept):
        least = found[order[0]]
        raise ValueError(
            f"threshold {threshold} accepts none of {len(found)} parameters, whose smallest "
            f"squared MMD is {least:.4g}; give a larger threshold, or share=0.05"
        )
    failed = np.asarray(simulations.thetas)[~np.isfinite(found)].tolist()
    about = {
        "method": "ABC",
        "threshold": float(found[kept[-1]] if threshold is None else threshold),
        "simulated": len(found),
        "failed": failed,
        "adjusted": adjust,
    }
    thetas, weights = simulations.thetas[kept], jnp.full(len(kept), 1 / len(kept))
    if adjust:
        thetas, weights = _adjusted(problem, _some(simulations, kept), found[kept])
    return Posterior(problem.prior.names, thetas, weights, simulations.calls, 1, about)


def distances(problem: Problem, simulations: Simulations) -> Float[np.ndarray, " t"]:
    """The squared MMD at each theta, +∞ where a simulation is NaN or infinite."""
    fine = np.isfinite(np.asarray(simulations.y)).all((1, 2))
    found = np.full(len(fine), np.inf)
    if fine.any():
        runs = simulations if fine.all() else _some(simulations, np.flatnonzero(fine))
        found[fine] = problem.squared_mmd(runs.y, runs.quadrature)
    return found


def stored_simulations(
    problem: Problem, thetas: Any, u: Any, y: Any, *, kernel: Any = None
) -> Simulations:
    """Runs made elsewhere: at each theta (t, p), the noise u (t, m, s) and what came out (t, m, d).

    kernel: the base kernel c of optimal weights, computed for the points of each theta; equal
        weights where left out. u may also be one design (m, s) for all thetas.

    Raises ValueError for arrays that do not fit each other or the problem.
    """
    thetas = as_rows("thetas", thetas, len(problem.prior.names))
    measure = problem.simulator.measure
    u = as_points("u", u, measure, batched=True)
    y = jnp.asarray(y, float)  # NaN marks runs that failed
    y = y[..., None] if y.ndim == 2 else y
    expected = (len(thetas), u.shape[-2], problem.observed.shape[1])
    if y.shape != expected or u.shape[:-2] not in ((), (len(thetas),)):
        raise ValueError(
            f"y must have shape {expected} (thetas, points, columns of the observations) and u one "
            f"design or one a theta, got y {y.shape} and u {u.shape}"
        )
    quadrature = unweighted(u) if kernel is None else optimal_weights(kernel, measure, u)
    return Simulations(thetas, quadrature, y, y.shape[0] * y.shape[1])


def simulated_in_chunks(
    problem: Problem, thetas: Float[Array, "t p"], quadrature: Quadrature, *, progress: bool = False
) -> Simulations:
    """Simulations at all thetas on one design, or at the first of them when interrupted."""
    parts = np.array_split(np.arange(len(thetas)), -(-len(thetas) // _CHUNK))

    def steps() -> Iterator[Simulations]:
        for number, part in enumerate(parts):
            yield simulate(
                problem.simulator,
                thetas[part],
                quadrature,
                check=number == 0,
                keep_failed=True,
            )

    runs = collected(steps(), len(parts), "Simulating", show=progress)
    y = jnp.concatenate([run.y for run in runs])
    return Simulations(thetas[: len(y)], quadrature, y, sum(run.calls for run in runs))


def _adjusted(
    problem: Problem, runs: Simulations, found: Float[np.ndarray, " t"]
) -> tuple[Array, Array]:
    """Draws moved to where the regression puts them at the embedding of the observations."""
    weights = 1 - found / (found.max() * (1 + 1e-9) + np.finfo(float).tiny)  # Epanechnikov
    weights = np.maximum(weights, 0) + np.finfo(float).eps
    weights = weights / weights.sum()
    n = problem.observed.shape[0]
    places = problem.observed[np.linspace(0, n - 1, min(n, _LANDMARKS)).astype(int)]
    reached = row_sums(problem.kernel, places, problem.observed, jnp.full(n, 1 / n))
    w = jnp.broadcast_to(runs.quadrature.weights, runs.y.shape[:2])
    embedded = jax.vmap(lambda y, w: row_sums(problem.kernel, places, y, w))(runs.y, w)
    features = np.asarray(embedded - reached)
    ends = problem.prior.bounds
    v = np.asarray(to_real(runs.thetas, ends))
    root = np.sqrt(weights)[:, None]
    design = root * np.column_stack([np.ones(len(v)), features])
    slopes = np.linalg.lstsq(design, root * v, rcond=_SINGULAR)[0][1:]
    return from_real(jnp.asarray(v - features @ slopes), ends), jnp.asarray(weights)


def _some(simulations: Simulations, kept: np.ndarray) -> Simulations:
    quadrature = simulations.quadrature
    if quadrature.points.ndim == 3:
        quadrature = jax.tree.map(lambda leaf: leaf[kept], quadrature)
    return Simulations(simulations.thetas[kept], quadrature, simulations.y[kept], simulations.calls)


def _check_cut(share: float | None, threshold: float | None) -> None:
    if share is not None and threshold is not None:
        raise ValueError(f"give a share or a threshold, not both ({share}, {threshold})")
    if share is not None and not 0 < float(as_array("share", share)) <= 1:
        raise ValueError(f"share must lie above 0 and be at most 1, got {share!r}")
    if threshold is not None:
        positive("threshold", threshold, number=True)
