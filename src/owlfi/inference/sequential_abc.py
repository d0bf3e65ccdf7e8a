"""Sequential ABC: each round simulates near the best parameters so far, and every run counts.

The threshold falls by itself: it is always the distance of the last of a fixed number of best runs
of all rounds, and no smaller than what the observations explain. Those runs are weighted by the
prior over the mixture of all rounds' proposals (adaptive multiple importance sampling, Cornuet et
al. 2012), so that no run is thrown away.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import logsumexp, softmax

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count
from owlfi._tools.keys import fold_key, numpy_generator, split_key
from owlfi._tools.progress import collect
from owlfi._tools.real_line import from_real, to_real
from owlfi.inference.acceptance import explained_distance
from owlfi.inference.health import tell_few_draws
from owlfi.inference.prior_runs import measure_distances, simulate_in_chunks, simulate_prior
from owlfi.problem.prior import log_prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import CHECK_CALLS
from owlfi.problem.spending import Expected, afford, limit_calls
from owlfi.problem.without_failures import tell_lost
from owlfi.results import Posterior, announce
from owlfi.results.health import tell_interruption
from owlfi.weights.quadrature import Quadrature

_WIDER = 2.0  # than the accepted draws is the proposal (Beaumont et al. 2009)


class Cloud(NamedTuple):
    """Normals of one covariance around weighted centres, on the real line."""

    centres: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    root: Float[np.ndarray, "p p"]


class Least(NamedTuple):
    """How many runs are kept at least, and the squared MMD up to which all are."""

    keep: int
    floor: float

    def threshold(self, distances: Float[np.ndarray, " t"]) -> float:
        return max(self.floor, float(np.sort(distances)[self.keep - 1]))


class Runs(NamedTuple):
    """All runs so far: places on the real line, squared MMD, the proposals that chose them."""

    v: Float[np.ndarray, "t p"]
    log_prior: Float[np.ndarray, " t"]
    distances: Float[np.ndarray, " t"]
    proposals: tuple[Cloud, ...]
    calls: int


def _expect_rounds(problem: Problem, rule: Rule, draws: int, rounds: int) -> Expected:
    first = max(rule.tuning_calls(problem), draws * rule.m + CHECK_CALLS)
    return Expected(first, first + (rounds - 1) * draws * rule.m)


@limit_calls(_expect_rounds)
def sequential_abc(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    draws: int = 500,
    rounds: int = 6,
    keep: int = 200,
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """ABC with a threshold that falls from round to round.

    draws: how many parameters are simulated in each round; the first round draws from the prior.
    keep: of all runs, how many with the smallest squared MMD make up the posterior; more where the
        squared MMD of more is no larger than that of 95 of 100 samples of a true model.
    max_calls: the most rows that the simulator may compute; only whole rounds are made.
    progress: show a bar; Ctrl-C returns the posterior of the rounds that are finished.

    Raises ValueError for discrete parameters, where fewer than `keep` runs succeed, and for too few
    calls to make the first round.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> posterior = owlfi.sequential_abc(jax.random.key(1), owlfi.Problem(model, x), rule, rounds=2)
    >>> first, last = posterior.about["thresholds"]
    >>> posterior.draws.shape, first > last
    ((200, 2), True)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    problem.prior.check_continuous("sequential_abc")
    rounds, draws = as_count("rounds", rounds), as_count("draws", draws)
    keep = as_count("keep", keep)
    if not 2 <= keep <= draws:
        raise ValueError(
            f"keep must be from 2 to draws = {draws}, got {keep}; give keep=, or more draws"
        )
    rule_key, key = split_key(key)
    quadrature = rule.quadrature(rule_key, problem)
    least = Least(keep, explained_distance(problem, quadrature))
    steps = _run_rounds(key, problem, quadrature, draws, least, rounds)
    history = collect(steps, rounds, "Sequential ABC", show=progress)
    best, weights = _choose_best(history[-1], least)
    about: dict[str, Any] = {
        "method": "sequential ABC",
        "thresholds": [least.threshold(runs.distances) for runs in history],
        "simulated": len(history[-1].distances),
        "failed": int(np.isinf(history[-1].distances).sum()),
        "effective_draws": float(1 / np.sum(weights**2)),
    }
    thetas = from_real(as_jax(history[-1].v[best]), problem.prior.bounds)
    told = (
        *problem.warnings,
        *quadrature.warnings,
        *tell_interruption(len(history), rounds, "rounds"),
        *tell_lost(about["failed"], about["simulated"]),
        *tell_few_draws(len(best), about["effective_draws"], "give more draws, and more to keep"),
    )
    names, calls = problem.prior.names, history[-1].calls
    return announce(Posterior(names, thetas, as_jax(weights), calls, 1, about, told))


def _run_rounds(
    key: Key[Array, ""],
    problem: Problem,
    quadrature: Quadrature,
    draws: int,
    least: Least,
    rounds: int,
) -> Iterator[Runs]:
    """All runs so far, after each round."""
    ends, p = problem.prior.bounds, len(problem.prior.names)
    random = numpy_generator(fold_key(key, rounds))
    runs = Runs(np.zeros((0, p)), np.zeros(0), np.zeros(0), (), 0)
    for number in range(rounds):
        proposals = runs.proposals
        if number == 0:
            made = simulate_prior(key, problem, quadrature, draws)
        else:
            afford(1, draws * len(quadrature.points))
            proposals = (*proposals, _propose(runs, least))
            thetas = from_real(as_jax(_draw(random, proposals[-1], draws)), ends)
            made = simulate_in_chunks(problem, thetas, quadrature, check=False)
        if len(made.thetas) < draws:  # weights are those of whole rounds
            raise KeyboardInterrupt
        v = to_real(made.thetas, ends)
        known = np.concatenate([runs.log_prior, log_prior(problem.prior, v)])
        found = np.concatenate([runs.distances, measure_distances(problem, made)])
        places = np.concatenate([runs.v, v])
        runs = Runs(places, known, found, proposals, runs.calls + made.calls)
        yield runs


def _choose_best(runs: Runs, least: Least) -> tuple[np.ndarray, Float[np.ndarray, " keep"]]:
    """The nearest runs and their weights, prior over mixture of proposals."""
    keep, usable = least.keep, int(np.isfinite(runs.distances).sum())
    if usable < keep:
        raise ValueError(
            f"keep is {keep}, but only {usable} of {len(runs.distances)} runs gave finite numbers; "
            "give fewer to keep or more draws, mend the generator, or narrow the prior"
        )
    order = np.argsort(runs.distances, kind="stable")
    best = order[: np.sum(runs.distances <= least.threshold(runs.distances))]
    v, prior = runs.v[best], runs.log_prior[best]
    mixture = [prior, *(_log_density(proposal, v) for proposal in runs.proposals)]
    return best, softmax(prior - logsumexp(mixture, axis=0))


def _propose(runs: Runs, least: Least) -> Cloud:
    best, weights = _choose_best(runs, least)
    v = runs.v[best]
    centred = v - weights @ v
    covariance = _WIDER * (centred * weights[:, None]).T @ centred
    tiny = 1e-12 * np.trace(covariance) * np.eye(v.shape[1])
    return Cloud(v, weights, np.linalg.cholesky(covariance + tiny))


def _draw(random: np.random.Generator, proposal: Cloud, n: int) -> Float[np.ndarray, "n p"]:
    chosen = random.choice(len(proposal.weights), n, p=proposal.weights)
    return proposal.centres[chosen] + random.normal(size=(n, len(proposal.root))) @ proposal.root.T


def _log_density(proposal: Cloud, v: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    differences = v[:, None] - proposal.centres
    scaled = np.linalg.solve(proposal.root, differences.reshape(-1, v.shape[1]).T)
    exponents = -0.5 * (scaled**2).sum(0).reshape(len(v), -1)
    size = np.log(np.diag(proposal.root)).sum() + 0.5 * v.shape[1] * np.log(2 * np.pi)
    with np.errstate(divide="ignore"):  # a weight may round to 0
        return logsumexp(exponents + np.log(proposal.weights), axis=1) - size
