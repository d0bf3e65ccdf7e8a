"""A design that grows: more thetas, or more points, nothing of it lost, and who proposed them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from owlfi.campaign.archive import Archive
from owlfi.campaign.assemble import decode_rounds
from owlfi.campaign.design import Design
from owlfi.campaign.encoding import encode
from owlfi.campaign.outcome import DONE
from owlfi.campaign.store import Ending
from owlfi.inference.proposals.proposal import Proposal, the_prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.simulations import as_design
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature


def extend_design(
    archive: Archive,
    thetas: Any,
    quadrature: Quadrature | None,
    *,
    proposal: Proposal | None = None,
) -> None:
    """Write the larger design, its places and who proposed it, all or nothing.

    thetas, quadrature: as in `Campaign.extend`.
    proposal: what the thetas were drawn from, the prior where left out.

    Raises ValueError for a design that does not fit, loses runs, or has grown meanwhile.
    """
    before = archive.design
    design = _enlarge_design(archive.outline, before, thetas, quadrature)
    added = len(design.thetas) - len(before.thetas)
    with archive.writing() as store:
        if store.fact("design") != before.facts()["design"]:
            raise ValueError(f"{archive.path} has been extended meanwhile; open it again")
        rounds = read_rounds(store.fact("rounds"), before)
        if added:
            rounds.append((added, proposal or the_prior(before.thetas.shape[1])))
        with store.transaction():
            store.put(**design.facts(), rounds=encode(rounds))
            store.adopt(design.distinct())
    archive.design = design


def read_rounds(text: str | None, design: Design) -> list[tuple[int, Proposal]]:
    """How many thetas came from which proposal, from the fact of a store.

    Those of the design are from the prior where nothing is told.
    """
    count, p = design.thetas.shape
    return [(count, the_prior(p))] if text is None else decode_rounds(text)


def check_prior(archive: Archive, problem: Problem) -> None:
    """ValueError where the prior of a problem is not that of the campaign's simulator."""
    own = archive.outline.prior
    as_problem(problem)
    if own is None or encode(own) != encode(problem.prior):
        raise ValueError(
            f"prior of the problem ({', '.join(problem.prior.names)}) must be that of the "
            "campaign's simulator, which importance weights refer to; create the campaign with "
            "Simulator(..., prior=...)"
        )


def typical_seconds(
    design: Design, thetas: int, endings: Mapping[bytes, Ending]
) -> Float[np.ndarray, " t"] | None:
    """Of the leading thetas, the median over points, which a worker's first run does not move."""
    names = [run.digest for run in design.runs()][: thetas * design.shape[1]]
    done = {name: end.seconds or 0.0 for name, end in endings.items() if end.state == DONE}
    times = np.array([done.get(name, 0.0) for name in names]).reshape(thetas, -1)
    times[times <= 0] = np.nan  # imported runs need not tell
    told = np.isfinite(times).any(1)
    if not told.any():
        return None
    medians = np.full(thetas, np.nan)
    medians[told] = np.nanmedian(times[told], axis=1)
    return np.where(told, medians, np.median(medians[told]))


def _enlarge_design(
    simulator: Simulator, before: Design, thetas: Any, quadrature: Quadrature | None
) -> Design:
    if thetas is None and quadrature is None:
        raise ValueError("thetas and quadrature are both left out; give what the design is to gain")
    shared = before.quadrature.points.ndim == 2
    if quadrature is None and not shared:
        raise ValueError(
            "each theta of the design has points of its own; give quadrature= with points "
            f"(t, {before.shape[1]}, s) for the new thetas"
        )
    whole = before.quadrature if quadrature is None else quadrature
    new = before.thetas[:0] if thetas is None else as_design(simulator, thetas, whole)[0]
    if not shared:
        whole = _join_quadratures(before.quadrature, whole)
    design = Design.fit(simulator, np.concatenate([before.thetas, new]), whole)
    _check_nothing_lost(before, design)
    return design


def _check_nothing_lost(before: Design, design: Design) -> None:
    lost = {run.digest for run in before.runs()} - {run.digest for run in design.runs()}
    if lost:
        raise ValueError(
            f"quadrature leaves out points of the design, so that {len(lost)} of its runs would be "
            "lost; give weights for the old points and the new ones together"
        )


def _join_quadratures(old: Quadrature, new: Quadrature) -> Quadrature:
    """Designs of more thetas after those that there are."""
    kinds = {jax.tree.structure(quadrature) for quadrature in (old, new)}
    if len(kinds) > 1 or new.points.ndim != 3:
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
