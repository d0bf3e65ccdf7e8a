"""Are the draws of the other methods true? One experiment for each of them, on the same problems.

Bootstrap, calibrated generalised posteriors and adjusted ABC promise intervals that cover as often
as they say; plain ABC, whose draws are wider than the data leave open, at least as often.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from jaxtyping import Array, Key

from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.estimates import (
    arrange,
    fit_one,
    list_steps,
    picture,
    read_result,
    table,
)
from owlfi.inference.abc import rejection_abc
from owlfi.inference.mmd_bayes import mmd_bayes
from owlfi.inference.posterior_bootstrap import posterior_bootstrap
from owlfi.inference.pseudo_marginal import pseudo_marginal
from owlfi.inference.sequential_abc import sequential_abc
from owlfi.problem.problem import Problem
from owlfi.results import Posterior
from owlfi.results.health import keep_quiet

Method = Callable[..., Posterior]
_REPEATS = 40
CHOSEN = (
    "g-and-k",
    "two scales",
    "log-normal copula",
    "exponential, 1e-6",
    "small scale",
    "Poisson",
    "negative binomial",
    "zero-inflated Poisson",
    "two modes",
    "Ornstein-Uhlenbeck",
    "toggle switch",
    "Ricker",
)
"""Counts, chaos and smooth models; those whose estimates warn for good reasons are left out."""
ON_HOST = "Poisson", "negative binomial", "zero-inflated Poisson", "Ricker"
DIFFERENTIABLE = (
    *(name for name in CHOSEN if name not in ON_HOST),
    "shifted log-normal",
    "MA(2)",
    "SIR",
)
FAST = tuple(name for name in CHOSEN if name not in ("zero-inflated Poisson", "Ricker"))
"""Without the two that take longest to simulate at thousands of thetas."""
_QUICK = ("exponential, 1e-6", "small scale")


def fit_by(method: Method, **options: Any) -> Callable[[Any, Problem, Case], Record]:
    """The mean, the standard deviation and the central interval of its draws."""

    def fit(key: Key[Array, ""], problem: Problem, case: Case) -> Record:
        with keep_quiet():
            return read_result(method(key, problem, case.rule, **options))

    return fit


def _experiment(
    name: str, title: str, problems: tuple[str, ...], method: Method, **options: Any
) -> Experiment:
    """The experiment of one method."""
    fit = fit_by(method, **options)

    def steps(plan: Plan) -> list[tuple[str, int]]:
        return list_steps(plan, plan.choose(problems, _QUICK))

    def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
        for problem, number in steps(plan)[skip:]:
            yield fit_one(key, problem, number, fit)

    def show(records: list[Record]) -> Table:
        return replace(table(records), title=f"{title}: draws and their 90% intervals")

    return Experiment(
        name=name,
        shows=f"whether draws of {title} can be trusted, on {len(problems)} problems",
        takes="1 h",
        repeats=(_REPEATS, 2),
        steps=lambda plan: len(steps(plan)),
        run=run,
        table=show,
        picture=picture,
        arrange=arrange,
        resumable=True,
    )


BOOTSTRAP = _experiment(
    "trust-bootstrap", "posterior_bootstrap", CHOSEN, posterior_bootstrap, draws=300
)
MMD_BAYES = _experiment(
    "trust-mmd-bayes", "mmd_bayes", DIFFERENTIABLE, mmd_bayes, draws=250, warmup=200
)
PSEUDO_MARGINAL = _experiment(
    "trust-pseudo-marginal", "pseudo_marginal", CHOSEN, pseudo_marginal, chains=2
)
ABC = _experiment("trust-abc", "rejection_abc", CHOSEN, rejection_abc)
ADJUSTED = _experiment(
    "trust-abc-adjusted", "adjusted rejection_abc", CHOSEN, rejection_abc, adjust=True
)
SEQUENTIAL = _experiment("trust-sequential-abc", "sequential_abc", FAST, sequential_abc)
