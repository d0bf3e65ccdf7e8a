"""The posterior bootstrap: nonparametric learning (Lyddon et al. 2018, Dellaporta et al. 2022).

Uncertainty is about the distribution of the data: Dirichlet weights on the observations, and the
minimum-distance estimate of each weighting. It needs no likelihood and no learning rate. Points
vary with the weights: each draw is moved as another choice of the designs would move the estimate.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, brief, plain_number
from owlfi._tools.keys import fold_key, split_key
from owlfi._tools.progress import collect, split_chunks
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement
from owlfi.inference.efficient.reweighted import Reweighted
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import Fit, find_minimum
from owlfi.inference.health import tell_excluded, tell_failed_searches, tell_few_draws, tell_open
from owlfi.inference.refined_fit import refine_fit
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.sandwich import draw_by_designs
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import simulate
from owlfi.problem.spending import Expected, is_limited, limit_calls
from owlfi.results import Posterior, announce
from owlfi.results.health import tell_interruption
from owlfi.weights.data_grams import are_enough
from owlfi.weights.quadrature import unweighted

_CHUNK = 50  # fits between two moves of the progress bar
_PILOT = 200  # draws, to see how far they go
_STEPS = 3  # of a search from the estimate, mostly


def _expect(rule: Rule, problem: Problem, draws: int, discrepancy: str) -> Expected:
    needed, fit = need_fit(rule, problem), expect_fit(rule, problem)
    if discrepancy == "efficient":
        return Expected(needed, fit + expect_refinement(rule.m, problem) + draws * rule.m)
    rough = expect_fit(rule, problem, rough=True)  # its regression serves all draws
    return Expected(needed, fit + draws * problem.simulator.search_calls(rule.m, _STEPS), rough)


@limit_calls(_expect)
def posterior_bootstrap(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    draws: int = 500,
    discrepancy: str = "mmd",
    prior_strength: float = 0.0,
    pseudo_samples: int = 100,
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """Draws of the parameters, each the minimum-distance estimate of randomly weighted data.

    draws: how many; each is one search from the estimate, moved as far as the choice of the points
        may move it, by what other designs of the rule gave at the estimate.
    discrepancy: "mmd", or "efficient", as in `minimum_distance`: draws are about as wide as the
        likelihood would leave them, of the observations that fit.
    prior_strength: how many observations the prior is worth. Each draw then has data from the
        prior predictive beside the observations.
    pseudo_samples: how many rows stand for it, at one simulator call each.
    max_calls: the most rows that the simulator may compute; fewer draws are made where they do
        not do.
    progress: show a bar; Ctrl-C returns the draws that are finished.

    Draws whose search failed are left out, and counted in `about`.

    Raises ValueError for discrete parameters, a negative prior_strength or one beside the efficient
    discrepancy, another discrepancy, where no search converges, and for too few calls to fit the
    data.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem = owlfi.Problem(model, x)
    >>> owlfi.posterior_bootstrap(jax.random.key(1), problem, rule, draws=50).draws.shape
    (50, 2)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    draws, pseudo_samples = as_count("draws", draws), as_count("pseudo_samples", pseudo_samples)
    _check_strength(prior_strength, as_discrepancy(discrepancy))
    fit_key, key = split_key(key)
    plain = discrepancy == "mmd"
    fit = find_minimum(
        "posterior_bootstrap", fit_key, problem, rule, whole=plain, progress=progress
    )
    fit = fit.make_room(_draw_shares(fold_key(fit_key, 1), problem, _PILOT, 0.0, 0))
    begin = _begin_plainly(fit) if plain else _refine(fit_key, rule, fit, progress)
    parts = split_chunks(draws, 1 if is_limited() else _CHUNK)
    extra = pseudo_samples if prior_strength > 0 else 0

    def steps() -> Iterator[Minimum]:
        for number, part in enumerate(parts):
            x_key, share_key = split_key(fold_key(key, number))
            x, made = _add_pseudo_samples(x_key, problem, len(part), extra)
            shares = _draw_shares(share_key, problem, len(part), prior_strength, extra)
            found = begin.estimate.refit_each(x, shares)
            yield jax.block_until_ready(found._replace(calls=found.calls.sum() + made))

    minima = collect(steps(), len(parts), "Posterior bootstrap", show=progress)
    found = np.concatenate([minimum.theta for minimum in minima])
    vary_key = fold_key(key, len(parts))
    theta = _vary_designs(vary_key, problem, begin.estimate, found, prior_strength)
    good = np.concatenate([np.asarray(minimum.converged) for minimum in minima])
    about = {"method": begin.method, "failed": int((~good).sum())}
    about |= {"prior_strength": float(prior_strength)}
    calls = begin.calls + sum(int(minimum.calls) for minimum in minima)
    kept, left_out = _keep_allowed(problem, theta[good])
    opened = begin.estimate.flat & ~begin.estimate.idle
    names = [name for name, is_open in zip(problem.prior.names, opened, strict=True) if is_open]
    told = (*begin.warnings, *tell_open(names), *_tell_draws(good, draws), *left_out)
    return announce(Posterior(problem.prior.names, *kept, calls, 1, about, told))


def _keep_allowed(
    problem: Problem, theta: Float[np.ndarray, "b p"]
) -> tuple[tuple[Float[Array, "k p"], Float[Array, " k"]], tuple[str, ...]]:
    """The draws that the prior allows, equally weighted, and a word on those left out."""
    excluded = problem.prior.excludes(as_jax(theta)) if len(theta) else np.zeros(0, bool)
    left_out, theta = tell_excluded(int(excluded.sum()), len(theta)), theta[~excluded]
    if not len(theta):
        raise ValueError(
            "none of the searches converged where the prior is not 0; narrow the prior, or see "
            "with minimum_distance how the fit goes"
        )
    return (as_jax(theta), as_jax(np.full(len(theta), 1 / len(theta)))), left_out


class _Begin(NamedTuple):
    """The estimate of all data, and what is known when the draws begin."""

    estimate: Fit | Reweighted
    method: str
    calls: int
    warnings: tuple[str, ...]


def _check_strength(prior_strength: float, discrepancy: str) -> None:
    if not plain_number("prior_strength", prior_strength) >= 0:
        raise ValueError(f"prior_strength must be at least 0, got {brief(prior_strength)}")
    if prior_strength > 0 and discrepancy == "efficient":
        raise ValueError(
            f"prior_strength must be 0 with discrepancy='efficient', got {prior_strength}: rows of "
            "the prior predictive would be left out as outliers; use discrepancy='mmd'"
        )


def _begin_plainly(fit: Fit) -> _Begin:
    return _Begin(fit, "posterior bootstrap", fit.calls, fit.warnings)


def _refine(key: Key[Array, ""], rule: Rule, fit: Fit, progress: bool) -> _Begin:
    """By the efficient discrepancy, or plainly with a word where it gives no estimate."""
    refined, calls, _, told = refine_fit(key, rule, fit, progress)
    if refined is None:
        return _begin_plainly(fit)._replace(calls=calls, warnings=told)
    estimate = Reweighted(fit.stage.problem, refined.balance)
    return _Begin(estimate, "posterior bootstrap, efficient discrepancy", calls, told)


def _vary_designs(
    key: Key[Array, ""],
    problem: Problem,
    fit: Fit | Reweighted,
    theta: Float[np.ndarray, "b p"],
    strength: float,
) -> Float[np.ndarray, "b p"]:
    """Draws as wide as the errors of an estimate, with its degrees of freedom and its points.

    Parameters that change nothing are drawn from the prior: no search moves them.
    """
    low, high = map(np.asarray, problem.prior.bounds)
    wider = widen(theta, np.asarray(fit.theta), len(problem.observed), strength, fit.fitted)
    varied = np.clip(wider + draw_by_designs(key, fit.by_designs, len(theta)), low, high)
    if not fit.idle.any():
        return varied
    return np.where(fit.idle, problem.prior.sample(fold_key(key, 1), len(theta)), varied)


def widen(
    theta: Float[np.ndarray, "b p"],
    estimate: Float[np.ndarray, " p"],
    n: int,
    strength: float,
    fitted: int,
) -> Float[np.ndarray, "b p"]:
    """Draws with the degrees of freedom of an estimate, or around where a prior moves them.

    >>> widen(np.array([[1.0], [3.0]]), np.array([2.0]), 8, 0.0, 7)
    array([[-1.],
           [ 5.]])
    """
    rows = n + strength
    centre = np.nanmean(theta, 0) if strength else estimate
    wider = ((rows + 1) / max(rows - fitted, 1)) ** 0.5  # Dirichlet weights vary by 1 / (rows + 1)
    return centre[None] + wider * (theta - centre[None])


def _tell_draws(good: Bool[np.ndarray, " b"], asked: int) -> tuple[str, ...]:
    """What is wrong with draws of which some failed, and perhaps not all were made."""
    count = int(good.sum())
    return (
        *tell_interruption(len(good), asked, "draws"),
        *tell_failed_searches(len(good) - count, len(good)),
        *tell_few_draws(count, count, "take more draws"),
    )


def _draw_shares(
    key: Key[Array, ""], problem: Problem, count: int, strength: float, extra: int
) -> Float[Array, "b n"]:
    """Dirichlet weights, a unit for each observation and the prior's strength for the rest."""
    n = problem.observed.shape[0]
    if not extra:
        waits = jax.random.exponential(key, (count, n))
        return waits / waits.sum(1, keepdims=True)
    units = jnp.concatenate([jnp.ones(n), jnp.full(extra, strength / max(extra, 1))])
    return jax.random.dirichlet(key, units, (count,))


def _add_pseudo_samples(
    key: Key[Array, ""], problem: Problem, count: int, extra: int
) -> tuple[Float[Array, "b n d"] | None, int]:
    """The observations with rows of the prior predictive below them, and their calls."""
    if not extra:
        return None, 0
    simulator = problem.simulator
    theta_key, noise_key = split_key(key)
    thetas = problem.prior.sample(theta_key, count * extra)
    u = simulator.measure.sample(noise_key, count * extra)
    columns, points = problem.observed.shape[1], unweighted(u[:, None])
    runs = simulate(simulator, thetas, points, check=False, columns=columns, keep_failed=True)
    repeated = jnp.broadcast_to(problem.observed, (count, *problem.observed.shape))
    rows = _replace_failed(np.asarray(runs.y)[:, 0]).reshape(count, extra, columns)
    return jnp.concatenate([repeated, rows], 1), runs.calls


def _replace_failed(rows: Float[np.ndarray, "e d"]) -> Float[np.ndarray, "e d"]:
    """Rows of the prior predictive that failed, by others that did not."""
    if not are_enough(rows):
        raise ValueError(
            "y is NaN or infinite, or the generator raises, at most thetas of the prior, of which "
            "prior_strength asks for data; mend the generator, narrow the prior, or leave it out"
        )
    fine, kept = np.isfinite(rows).all(1, keepdims=True), rows[np.isfinite(rows).all(1)]
    return np.where(fine, rows, np.resize(kept, rows.shape))
