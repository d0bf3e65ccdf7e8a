"""A design that grows: more thetas, or more points, and nothing of it lost."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from owlfi.campaign.archive import Archive
from owlfi.campaign.design import Design
from owlfi.campaign.encoding import encode
from owlfi.campaign.rounds import read_rounds
from owlfi.inference.proposals.proposal import Proposal, the_prior
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

    thetas: new ones (t, p), or None.
    quadrature: as in `Campaign.extend`.
    proposal: what the thetas were drawn from, the prior where left out.

    Raises ValueError for a design that does not fit, loses runs, or has grown meanwhile.
    """
    before = archive.design
    design = _enlarge_design(archive.original, before, thetas, quadrature)
    added = len(design.thetas) - len(before.thetas)
    with archive.writing() as store:
        if store.fact("design") != before.facts()["design"]:
            raise ValueError(f"{archive.path} has been extended meanwhile; open it again")
        rounds = read_rounds(store.fact("rounds"), before.thetas)
        if added:
            p = before.thetas.shape[1]
            rounds.append((added, the_prior(p) if proposal is None else proposal))
        with store.transaction():
            store.put(**design.facts(), rounds=encode(rounds))
            store.adopt(design.distinct())
    archive.forget_design()


def _enlarge_design(
    simulator: Simulator, before: Design, thetas: Any, quadrature: Quadrature | None
) -> Design:
    if thetas is None and quadrature is None:
        raise ValueError("thetas and quadrature are both left out; give what the design is to gain")
    new = np.zeros((0, before.thetas.shape[1]))
    if thetas is not None:
        new = _check_thetas(simulator, before, thetas, quadrature)
    whole = before.quadrature
    if quadrature is not None:
        shared = before.quadrature.points.ndim == 2
        whole = quadrature if shared else _join_quadratures(before.quadrature, quadrature)
    design = Design(np.concatenate([before.thetas, new]), whole)
    as_design(simulator, design.thetas, design.quadrature)
    _check_nothing_lost(before, design)
    return design


def _check_thetas(
    simulator: Simulator, before: Design, thetas: Any, quadrature: Quadrature | None
) -> np.ndarray:
    """The new thetas (t, p); ValueError where they do not fit, or lack points."""
    if quadrature is None and before.quadrature.points.ndim == 3:
        raise ValueError(
            "each theta of the design has points of its own; give quadrature= with points "
            f"(t, {before.shape[1]}, s) for the new thetas"
        )
    fitting = before.quadrature if quadrature is None else quadrature
    return np.asarray(as_design(simulator, thetas, fitting)[0])


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
