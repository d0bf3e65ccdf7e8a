"""Simulations from what is in a store, in the order of the design."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from owlfi.campaign.design import Design
from owlfi.campaign.store import Ending
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
            + (part if ready else "; no theta at the beginning of the design is complete yet")
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
