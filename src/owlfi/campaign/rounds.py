"""Who proposed the thetas of a design, round by round, and the importance weights that follow."""

import jax.numpy as jnp
import numpy as np

from owlfi.campaign.encoding import decode
from owlfi.inference.proposals.proposal import Proposal, importance, the_prior
from owlfi.problem.prior import Prior
from owlfi.problem.simulations import Simulations

Rounds = list[tuple[int, Proposal]]


def read_rounds(text: str | None, thetas: np.ndarray) -> Rounds:
    """How many thetas came from which proposal, from the fact of a store.

    thetas: those of the design (t, p), which are from the prior where nothing is told.
    """
    count, p = thetas.shape
    return [(count, the_prior(p))] if text is None else list(decode(text))


def weigh_runs(
    prior: Prior | None,
    runs: Simulations,
    rounds: str | None,
    *,
    rejected: np.ndarray,
) -> Simulations:
    """The simulations with their importance weights (t,), where thetas were proposed.

    rounds: the fact of a store; None where all thetas are from the prior.
    rejected: which thetas (t,) will be left out; the prior is then that of the others.
    """
    if rounds is None or prior is None:
        return runs
    left, counted = len(runs.thetas), []
    for count, proposal in decode(rounds):
        counted.append((min(count, left), proposal))
        left -= counted[-1][0]
    weights = importance(prior, runs.thetas, counted)
    if rejected.any() and not rejected.all():
        weights /= weights[~rejected].mean()
    return Simulations(runs.thetas, runs.quadrature, runs.y, runs.calls, jnp.asarray(weights))
