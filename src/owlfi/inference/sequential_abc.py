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
from owlfi._tools.covariances import root_of
from owlfi._tools.keys import fold_key, numpy_generator, split_key
from owlfi._tools.progress import collect
from owlfi._tools.real_line import from_real, to_real
from owlfi.inference.acceptance import Explained
from owlfi.inference.health import tell_few_draws
from owlfi.inference.prior_runs import simulate_in_chunks, simulate_prior
from owlfi.inference.yardstick import (
    Yardstick,
    check_yardstick,
    choose_yardstick,
    expect_yardstick,
    look_sharply,
    tell_unseen,
)
from owlfi.problem.prior import log_prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.simulations import CHECK_CALLS, Simulations
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
    """How many runs are kept at least, and the distances up to which all are."""

    keep: int
    explained: Explained

    def threshold(self, distances: Float[np.ndarray, " t"]) -> float:
        finite = np.sort(distances[np.isfinite(distances)])
        return max(self.explained.floor(distances), float(finite[: self.keep][-1]))


class Runs(NamedTuple):
    """All runs so far: places on the real line, how far they are, what chose and what measured."""

    v: Float[np.ndarray, "t p"]
    log_prior: Float[np.ndarray, " t"]
    proposals: tuple[Cloud, ...]
    calls: int
    yardstick: Yardstick
    distances: Float[np.ndarray, " t"]
    least: Least
    seen: float = 1.0
    """The share of those that are kept."""

    @property
    def threshold(self) -> float:
        return self.least.threshold(self.distances)

    @property
    def nearest(self) -> np.ndarray:
        """The places of those that are kept."""
        order = np.argsort(self.distances, kind="stable")
        return order[: (self.distances <= self.threshold).sum()]


def _expect_rounds(
    problem: Problem, rule: Rule, draws: int, rounds: int, discrepancy: str
) -> Expected:
    first = max(rule.tuning_calls(problem), draws * rule.m + CHECK_CALLS)
    fitted = expect_yardstick(problem, rule, discrepancy)
    more = first + (rounds - 1) * draws * rule.m
    return Expected(fitted.needed + first, fitted.in_all + more)


@limit_calls(_expect_rounds)
def sequential_abc(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    draws: int = 500,
    rounds: int = 6,
    keep: int = 200,
    discrepancy: str = "mmd",
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """ABC with a threshold that falls from round to round.

    draws: how many parameters are simulated in each round; the first round draws from the prior.
    keep: of all runs, how many with the smallest squared MMD make up the posterior; more where the
        squared MMD of more is no larger than that of 95 of 100 samples of a true model. While k
        does not see most of these from the data, it is stretched by factors of 2 until it does;
        `about["stretched"]` says how far it is at the end.
    discrepancy: "mmd", or "efficient", as in `rejection_abc`.
    max_calls: the most rows that the simulator may compute; only whole rounds are made.
    progress: show a bar; Ctrl-C returns the posterior of the rounds that are finished.

    Raises ValueError for discrete parameters, another discrepancy, where hardly any run of the
    first round succeeds, and for too few calls to make it.

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
    check_yardstick(problem, discrepancy)
    rounds, draws = as_count("rounds", rounds), as_count("draws", draws)
    keep = as_count("keep", keep)
    if not 2 <= keep <= draws:
        raise ValueError(
            f"keep must be from 2 to draws = {draws}, got {keep}; give keep=, or more draws"
        )
    rule_key, key = split_key(key)
    quadrature = rule.quadrature(rule_key, problem)
    fit_key = fold_key(rule_key, 3)
    yardstick = choose_yardstick(fit_key, problem, rule, quadrature, discrepancy, progress)
    steps = _run_rounds(key, problem, yardstick, quadrature, draws, keep, rounds)
    history = collect(steps, rounds, "Sequential ABC", show=progress)
    best, weights = _choose_best(last := history[-1])
    about: dict[str, Any] = {
        "method": f"sequential ABC{yardstick.method}",
        "thresholds": [runs.threshold for runs in history],
        "stretched": last.yardstick.stretched,
        "simulated": len(last.distances),
        "failed": int(np.isinf(last.distances).sum()),
        "effective_draws": float(1 / np.sum(weights**2)),
    }
    thetas = from_real(as_jax(last.v[best]), problem.prior.bounds)
    told = (
        *yardstick.tell(problem.warnings),
        *quadrature.warnings,
        *tell_interruption(len(history), rounds, "rounds"),
        *tell_lost(about["failed"], about["simulated"]),
        *tell_unseen(last.seen),
        *tell_few_draws(len(best), about["effective_draws"], "give more draws, and more to keep"),
    )
    calls = yardstick.calls + last.calls
    return announce(Posterior(problem.prior.names, thetas, as_jax(weights), calls, 1, about, told))


def _run_rounds(
    key: Key[Array, ""],
    problem: Problem,
    yardstick: Yardstick,
    quadrature: Quadrature,
    draws: int,
    keep: int,
    rounds: int,
) -> Iterator[Runs]:
    """All runs so far, after each round."""
    ends, random = problem.prior.bounds, numpy_generator(fold_key(key, rounds))
    made = _check_whole(simulate_prior(key, problem, quadrature, draws), draws)
    _check_usable(made)
    runs = _measure(problem, yardstick, made, (), keep)
    yield runs
    for _ in range(1, rounds):
        afford(1, draws * len(quadrature.points))
        proposals = (*runs.proposals, _propose(runs))
        thetas = from_real(as_jax(_draw(random, proposals[-1], draws)), ends)
        more = simulate_in_chunks(problem, thetas, quadrature, check=False)
        made = made.join(_check_whole(more, draws))
        runs = _measure(problem, runs.yardstick, made, proposals, keep)
        yield runs


def _check_whole(made: Simulations, draws: int) -> Simulations:
    """Raises KeyboardInterrupt for less than a round: weights are those of whole rounds."""
    if len(made.thetas) < draws:
        raise KeyboardInterrupt
    return made


def _check_usable(first: Simulations) -> None:
    """Raises ValueError where too few parameters of the prior are left to go on from."""
    usable = int(np.isfinite(np.asarray(first.y)).all((1, 2)).sum())
    needed = 2 * first.thetas.shape[1]
    if usable < needed:
        raise ValueError(
            f"only {usable} of the first {len(first.thetas)} runs gave finite numbers; the next "
            f"round needs {needed}; give more draws, mend the generator, or narrow the prior"
        )


def _measure(
    problem: Problem,
    yardstick: Yardstick,
    made: Simulations,
    proposals: tuple[Cloud, ...],
    keep: int,
) -> Runs:
    """How far all runs are, by the narrowest kernel that sees those to keep."""
    v = to_real(made.thetas, problem.prior.bounds)
    known = np.asarray(v), np.asarray(log_prior(problem.prior, v)), proposals, made.calls

    def look(yardstick: Yardstick) -> Runs:
        least = Least(keep, yardstick.explain(made.quadrature))
        runs = Runs(*known, yardstick, yardstick.measure(made), least)
        return runs._replace(seen=float(yardstick.sees(made.at(runs.nearest)).mean()))

    return look_sharply(yardstick, look, lambda runs: runs.seen)[1]


def _choose_best(runs: Runs) -> tuple[np.ndarray, Float[np.ndarray, " keep"]]:
    """The nearest runs and their weights, prior over mixture of proposals."""
    best = runs.nearest
    v, prior = runs.v[best], runs.log_prior[best]
    mixture = [prior, *(_log_density(proposal, v) for proposal in runs.proposals)]
    return best, softmax(prior - logsumexp(mixture, axis=0))


def _propose(runs: Runs) -> Cloud:
    best, weights = _choose_best(runs)
    v = runs.v[best]
    centred = v - weights @ v
    covariance = _WIDER * (centred * weights[:, None]).T @ centred
    return Cloud(v, weights, root_of(covariance))


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
