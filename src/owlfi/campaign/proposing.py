"""The next thetas of a design: where the posterior is uncertain, and runs are quick."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count
from owlfi._tools.keys import as_key
from owlfi.campaign.archive import Archive
from owlfi.campaign.assembly import assemble_runs
from owlfi.campaign.design import Design
from owlfi.campaign.encoding import encode
from owlfi.campaign.extending import extend_design
from owlfi.campaign.rounds import read_rounds
from owlfi.inference.proposals.proposal import SAFETY, SHARE, next_proposal
from owlfi.problem.problem import Problem
from owlfi.weights.quadrature import Quadrature


class ProposalOptions(NamedTuple):
    """How thetas are chosen.

    share, safety: see `next_proposal`.
    costs: whether to prefer thetas that run quickly.
    """

    share: float = SHARE
    safety: float = SAFETY
    costs: bool = True


def propose_thetas(
    archive: Archive,
    key: Key[Array, ""],
    problem: Problem,
    count: int,
    *,
    options: ProposalOptions,
    quadrature: Quadrature | None = None,
) -> Float[Array, "count p"]:
    """Thetas from the next proposal, added to the design; arguments as in `Campaign.propose`.

    Raises ValueError for another prior, no runs to learn from, and what `next_proposal` and
    `extend_design` refuse.
    """
    count = as_count("count", count)
    proposal_key, draw_key = jax.random.split(as_key(key))
    check_prior(archive, problem)
    design = archive.design
    with archive.reading() as store:
        endings, outputs, seconds = store.endings(), store.outputs(), store.seconds()
        rounds = read_rounds(store.fact("rounds"), design.thetas)
    if not any(run.digest in endings for run in design.distinct()):
        raise ValueError(f"{archive.path} has no runs to learn from yet; make some with run()")
    runs, _ = assemble_runs(design, endings, outputs, partial=True)
    proposal = next_proposal(
        proposal_key,
        problem,
        runs,
        seconds=_typical_seconds(design, len(runs.thetas), seconds) if options.costs else None,
        share=options.share,
        safety=options.safety,
        before=rounds[-1][1],
    )
    thetas = problem.prior.from_uniform(proposal.draw(draw_key, count))
    extend_design(archive, thetas, quadrature, proposal=proposal)
    return thetas


def check_prior(archive: Archive, problem: Problem) -> None:
    """ValueError where the prior of a problem is not that of the campaign's simulator."""
    own = archive.original.prior
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
