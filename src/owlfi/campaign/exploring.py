"""Run, propose, run, and so on, until a budget is spent."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
from jaxtyping import Array, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.campaign.archive import Archive
from owlfi.campaign.driver import Limits
from owlfi.campaign.proposing import ProposalOptions, propose_thetas
from owlfi.campaign.status import Status
from owlfi.problem.problem import Problem


@dataclass(frozen=True)
class Exploration:
    """How far a design is to grow.

    budget: the most calls of the simulator in all.
    batch: how many thetas are proposed at a time.
    seconds: begin no run after so many.
    check: whether the first run is made twice, which counts.
    retry_failed: make failed runs again, once.
    proposals: how thetas are chosen.

    Raises ValueError for a budget or batch below 1.
    """

    budget: int
    batch: int
    seconds: float | None
    check: bool
    retry_failed: bool
    proposals: ProposalOptions

    def __post_init__(self) -> None:
        as_count("batch", self.batch)
        as_count("budget", self.budget)


def explore_design(
    archive: Archive,
    run: Callable[..., Status],
    key: Key[Array, ""],
    problem: Problem,
    plan: Exploration,
) -> Status:
    """Run, propose, run, ... within the limits of the plan.

    run: makes what is pending; `Campaign.run` with some of its options.

    Raises ValueError for wrong seconds and what `propose_thetas` refuses, and whatever run raises.
    """
    key, retry_failed = as_key(key), plan.retry_failed
    until = Limits.from_now(budget=None, seconds=plan.seconds).until
    while True:
        left = None if until == math.inf else max(0.0, until - time.monotonic())
        status = run(
            budget=_affordable_runs(archive, plan), seconds=left, retry_failed=retry_failed
        )
        retry_failed = False
        count = min(plan.batch, (plan.budget - status.calls) // archive.design.shape[1])
        if status.waiting or count < 1 or time.monotonic() >= until:
            return status
        propose_thetas(archive, _round_key(archive, key), problem, count, options=plan.proposals)


def _affordable_runs(archive: Archive, plan: Exploration) -> int:
    """Runs within the budget, one less where the first is yet to be checked."""
    with archive.reading() as store:
        checking = plan.check and not store.fact("checked")
        return max(0, plan.budget - store.calls() - int(checking))


def _round_key(archive: Archive, key: Key[Array, ""]) -> Key[Array, ""]:
    """The same for a round however often it was begun."""
    return jax.random.fold_in(key, len(archive.design.thetas))
