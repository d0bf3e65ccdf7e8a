"""A design that grows: more thetas where the posterior is uncertain, more points, a budget."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.campaign.assembly import assembled
from owlfi.campaign.design import Design
from owlfi.campaign.encoding import decode, encode
from owlfi.campaign.protocol import StoredRuns
from owlfi.campaign.status import Status
from owlfi.inference.proposals.proposal import Proposal, importance, next_proposal, the_prior
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations, as_design
from owlfi.weights.quadrature import Quadrature

Rounds = list[tuple[int, Proposal]]


def extended(
    campaign: StoredRuns,
    thetas: Any,
    quadrature: Quadrature | None,
    proposal: Proposal | None = None,
) -> None:
    """Write the larger design, its places and who proposed it, all or nothing."""
    before = campaign.design
    if thetas is None and quadrature is None:
        raise ValueError("thetas and quadrature are both left out; give what the design is to gain")
    design = _larger(campaign, before, thetas, quadrature)
    added = len(design.thetas) - len(before.thetas)
    with campaign.driving() as store:
        if store.fact("design") != before.facts()["design"]:
            raise ValueError(f"{campaign.path} has been extended meanwhile; open it again")
        p = design.thetas.shape[1]
        rounds = _rounds(store.fact("rounds"), len(before.thetas), p)
        if added:
            rounds.append((added, the_prior(p) if proposal is None else proposal))
        with store.transaction():
            store.put(**design.facts(), rounds=encode(rounds))
            store.adopt(design.distinct())
    campaign.forget_design()


def _larger(
    campaign: StoredRuns, before: Design, thetas: Any, quadrature: Quadrature | None
) -> Design:
    shared = before.quadrature.points.ndim == 2
    if thetas is None:
        new = np.zeros((0, before.thetas.shape[1]))
    else:
        fitting = before.quadrature if quadrature is None else quadrature
        if quadrature is None and not shared:
            raise ValueError(
                "each theta of the design has points of its own; give quadrature= with points "
                f"(t, {before.shape[1]}, s) for the new thetas"
            )
        new = np.asarray(as_design(campaign.original, thetas, fitting)[0])
    joined = before.quadrature
    if quadrature is not None:
        joined = quadrature if shared else _joined(before.quadrature, quadrature)
    design = Design(np.concatenate([before.thetas, new]), joined)
    as_design(campaign.original, design.thetas, design.quadrature)
    lost = {run.digest for run in before.runs()} - {run.digest for run in design.runs()}
    if lost:
        raise ValueError(
            f"quadrature leaves out points of the design, so that {len(lost)} of its runs would be "
            "lost; give weights for the old points and the new ones together"
        )
    return design


def _joined(old: Quadrature, new: Quadrature) -> Quadrature:
    """Designs of more thetas after those that there are."""
    kinds = [jax.tree.structure(quadrature) for quadrature in (old, new)]
    if kinds.count(kinds[0]) == 1 or new.points.ndim != 3:
        raise ValueError(
            f"quadrature must be of the kind of the design, points {old.points.shape} and made by "
            f"the same function, got points {new.points.shape}"
        )
    if old.points.shape[1:] != new.points.shape[1:]:
        raise ValueError(
            f"quadrature must have points (t, {old.points.shape[1]}, {old.points.shape[2]}), "
            f"got {new.points.shape}"
        )
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), old, new)


def _rounds(text: str | None, thetas: int, p: int) -> Rounds:
    """Who proposed the thetas of the design; those it began with are from the prior."""
    return [(thetas, the_prior(p))] if text is None else list(decode(text))


def with_importance(
    campaign: StoredRuns,
    runs: Simulations,
    failed: np.ndarray,
    rounds: str | None,
    on_failure: str = "",
) -> Simulations:
    """The simulations with their importance weights, where thetas were proposed."""
    prior = campaign.original.prior
    if rounds is None or prior is None:
        return runs
    left, taken = len(runs.thetas), []
    for count, proposal in decode(rounds):
        taken.append((min(count, left), proposal))
        left -= taken[-1][0]
    weights = importance(prior, runs.thetas, taken)
    fine = ~failed.any(1)
    if on_failure == "reject" and not fine.all() and fine.any():
        weights /= weights[fine].mean()  # the prior of what did not fail
    return Simulations(runs.thetas, runs.quadrature, runs.y, runs.calls, jnp.asarray(weights))


def proposed(
    campaign: StoredRuns,
    key: Key[Array, ""],
    problem: Problem,
    count: int,
    share: float,
    safety: float,
    costs: bool,
    quadrature: Quadrature | None = None,
) -> Float[Array, "count p"]:
    """Thetas from the next proposal, added to the design."""
    count = as_count("count", count)
    proposal_key, draw_key = jax.random.split(as_key(key))
    _check_prior(campaign, problem)
    design = campaign.design
    with campaign.reading() as store:
        ended, outputs, seconds = store.ended(), store.outputs(), store.seconds()
        rounds = _rounds(store.fact("rounds"), *design.thetas.shape)
    if not any(run.digest in ended for run in design.distinct()):
        raise ValueError(f"{campaign.path} has no runs to learn from yet; make some with run()")
    runs, _ = assembled(design, ended, outputs, partial=True)
    proposal = next_proposal(
        proposal_key,
        problem,
        runs,
        seconds=_typical_seconds(design, len(runs.thetas), seconds) if costs else None,
        share=share,
        safety=safety,
        before=rounds[-1][1],
    )
    thetas = problem.prior.from_uniform(proposal.draw(draw_key, count))
    extended(campaign, thetas, quadrature, proposal)
    return thetas


def _check_prior(campaign: StoredRuns, problem: Problem) -> None:
    own = campaign.original.prior
    if own is None or encode(own) != encode(problem.prior):
        raise ValueError(
            f"prior of the problem ({', '.join(problem.prior.names)}) must be that of the "
            "campaign's simulator, which importance weights refer to; create the campaign with "
            "Simulator(..., prior=...)"
        )


def _typical_seconds(
    design: Design, thetas: int, seconds: dict[bytes, float]
) -> Float[np.ndarray, " t"] | None:
    """The median over the points of each theta, which a worker's first run does not move."""
    names = [run.digest for run in design.runs()][: thetas * design.shape[1]]
    times = np.array([seconds.get(name, np.nan) for name in names]).reshape(thetas, -1)
    known = np.isfinite(times).any(1)
    if not known.any():
        return None
    medians = np.full(thetas, np.nan)
    medians[known] = np.nanmedian(times[known], axis=1)
    return np.where(known, medians, np.median(medians[known]))


def explored(
    campaign: StoredRuns,
    key: Key[Array, ""],
    problem: Problem,
    budget: int,
    batch: int,
    share: float,
    safety: float,
    costs: bool,
    seconds: float | None,
    options: dict[str, Any],
) -> Status:
    """Run, propose, run, ... within the limits."""
    key, batch, budget = as_key(key), as_count("batch", batch), as_count("budget", budget)
    _check_prior(campaign, problem)
    until = np.inf if seconds is None else time.monotonic() + seconds
    engine = {name: options.pop(name, None) for name in ("executor", "workers", "time_limit")}
    with campaign.started(**engine):
        while True:
            left = None if seconds is None else max(0.0, until - time.monotonic())
            runs = max(0, _affordable(campaign, budget, options))
            status = campaign.run(budget=runs, seconds=left, **options)
            options.pop("retry_failed", None)  # once, not in every round
            count = min(batch, (budget - status.calls) // campaign.design.shape[1])
            if status.waiting or count < 1 or time.monotonic() >= until:
                return status
            proposed(campaign, _round_key(campaign, key), problem, count, share, safety, costs)


def _affordable(campaign: StoredRuns, budget: int, options: dict[str, Any]) -> int:
    """Runs within the budget, one less where the first is yet to be checked."""
    with campaign.reading() as store:
        checking = options.get("check", True) and not store.fact("checked")
        return budget - store.calls() - int(checking)


def _round_key(campaign: StoredRuns, key: Key[Array, ""]) -> Key[Array, ""]:
    """The same for a round however often it was begun."""
    return jax.random.fold_in(key, len(campaign.design.thetas))
