"""What a store tells: simulations in the order of the design, importance weights, runs saved."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi.campaign.design import Design
from owlfi.campaign.encoding import decode
from owlfi.campaign.store import Ending
from owlfi.inference.proposals.proposal import Proposal, importance
from owlfi.kernels import Kernel
from owlfi.problem.prior import Prior
from owlfi.problem.simulations import Simulations


def assemble_runs(
    design: Design,
    endings: Mapping[bytes, Ending],
    outputs: Mapping[bytes, bytes],
    *,
    partial: bool,
) -> tuple[Simulations, np.ndarray]:
    """The simulations of a design, y (t, m, d), and which of them failed (t, m), with NaN for y.

    endings, outputs: how runs ended, and y (d,) of those that are done, by digest.

    Raises ValueError where runs have not ended; where `partial`, only the leading thetas whose
    runs have all ended are taken.
    """
    names = [run.digest for run in design.runs()]
    complete = np.array([name in endings for name in names]).reshape(design.shape).all(1)
    total = len(design.thetas)
    ready = total if np.all(complete) else int(np.argmin(complete))
    if ready < total and not (partial and ready):
        missing = len(set(names) - set(endings))
        part = f", or take partial=True for the leading {ready} thetas that are complete"
        raise ValueError(
            f"{missing} of {len(set(names))} runs have not ended; go on with run()"
            + (part if ready else " until the first theta of the design is complete")
        )
    taken = names[: ready * design.shape[1]]
    failed = np.array([name not in outputs for name in taken]).reshape(ready, -1)
    calls = sum(endings[name].attempts for name in set(taken))
    thetas = jnp.asarray(design.thetas[:ready])
    quadrature = design.quadrature.at(slice(ready))
    y = _stack_outputs(taken, outputs).reshape(*failed.shape, -1)
    return Simulations(thetas, quadrature, jnp.asarray(y), calls), failed


def _stack_outputs(names: list[bytes], outputs: Mapping[bytes, bytes]) -> np.ndarray:
    """y of every run, one after the other; NaN for those that failed."""
    size = len(next((outputs[name] for name in names if name in outputs), bytes(8)))
    none = np.full(size // 8, np.nan).tobytes()
    return np.frombuffer(b"".join(outputs.get(name, none) for name in names))


def weigh_runs(
    prior: Prior | None, runs: Simulations, rounds: str | None, *, rejected: np.ndarray
) -> Simulations:
    """The simulations with their importance weights (t,), where thetas were proposed.

    rounds: the fact of a store; None where all thetas are from the prior.
    rejected: which thetas (t,) will be left out; the prior is then that of the others.
    """
    if rounds is None or prior is None:
        return runs
    left, counted = len(runs.thetas), []
    for count, proposal in decode_rounds(rounds):
        counted.append((min(count, left), proposal))
        left -= counted[-1][0]
    weights = importance(prior, runs.thetas, counted)
    if rejected.any() and not rejected.all():
        weights /= weights[~rejected].mean()
    return Simulations(runs.thetas, runs.quadrature, runs.y, runs.calls, jnp.asarray(weights))


def decode_rounds(text: str) -> list[tuple[int, Proposal]]:
    """How many thetas came from which proposal; ValueError for other values."""
    rounds = decode(text)
    if not isinstance(rounds, list) or not all(map(_is_round, rounds)):
        raise ValueError(
            "the file has no rounds of proposals where it should; `owlfi campaign check` "
            "tells what is damaged"
        )
    return rounds


def _is_round(entry: Any) -> bool:
    match entry:
        case (int(), Proposal()):
            return True
    return False


def runs_with_equal_weights(kernel: Kernel, runs: Simulations, excess: float) -> float:
    """How many runs equal weights on independent points need for an excess squared MMD.

    At one theta m of them leave (E k(y, y) - E k(y, y')) / m, y and y' independent; both means
    come from the weighted simulations.

    kernel: the data kernel k, for which the excess was estimated.

    >>> from owlfi.kernels import SquaredExponential
    >>> from owlfi.weights.quadrature import unweighted
    >>> u = unweighted(jnp.array([[-1.0], [1.0]]))
    >>> far = Simulations(jnp.ones((5, 1)), u, jnp.array([[[-99.0], [99.0]]] * 5), 10)
    >>> runs_with_equal_weights(SquaredExponential(1.0), far, 0.01)  # (1 - 1/2) / 0.01 at each
    250.0
    """
    weights = jnp.broadcast_to(runs.quadrature.weights, runs.y.shape[:2])

    def spread(one: tuple[Array, Array]) -> Array:
        y, w = one
        gram = kernel.gram(y, y)
        return w @ jnp.diagonal(gram) - w @ gram @ w

    total = float(jax.lax.map(spread, (runs.y, weights)).sum())
    return total / max(excess, np.finfo(float).tiny)
