"""Simulations at many thetas, and how far each is from the data."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import take_rows
from owlfi._tools.checks import check_memory
from owlfi._tools.progress import collect, split_chunks
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import CHECK_CALLS, Simulations, simulate
from owlfi.problem.spending import afford
from owlfi.problem.without_failures import find_failed, find_usable
from owlfi.results.health import tell_interruption
from owlfi.weights.quadrature import Quadrature

_CHUNK = 100  # thetas between two moves of the progress bar


def simulate_prior(
    key: Key[Array, ""],
    problem: Problem,
    quadrature: Quadrature,
    draws: int,
    *,
    on_failure: str | None = None,
    progress: bool = False,
) -> Simulations:
    """Simulations at draws from the prior; those that the rule was tuned to are the first.

    on_failure: what will become of runs that fail (see `without_failures`).

    Raises ValueError where that leaves nothing of the first of them.
    """
    known = problem.pilot(quadrature).at(slice(draws))
    missing = draws - len(known.thetas)
    if not missing:
        return known
    thetas, check = problem.prior.sample(key, missing), quadrature.pilot is None

    def look(first: Simulations) -> None:
        if on_failure is not None:
            find_usable(find_failed(known.join(first)), on_failure)

    more = simulate_in_chunks(
        problem, thetas, quadrature, check=check, look=look, progress=progress
    )
    return known.join(more)


def simulate_in_chunks(
    problem: Problem,
    thetas: Float[Array, "t p"],
    quadrature: Quadrature,
    *,
    check: bool = True,
    look: Callable[[Simulations], None] | None = None,
    progress: bool = False,
) -> Simulations:
    """Simulations at all thetas on one design, or at the first when interrupted or out of calls.

    check: see first that y is determined by theta and u.
    look: at the first of several chunks, to raise ValueError before the others are made.

    Raises ValueError for simulations beyond memory.
    """
    checked = CHECK_CALLS if check else 0
    paid = afford(len(thetas), len(quadrature.points), beside=checked)
    m, d = len(quadrature.points), problem.observed.shape[1]
    check_memory(f"{paid:,} draws at {m:,} points of {d:,} columns", paid * m * d)
    parts = split_chunks(paid, _CHUNK)

    def steps() -> Iterator[Simulations]:
        for number, part in enumerate(parts):
            made = simulate(
                problem.simulator,
                take_rows(thetas, part),
                quadrature,
                check=check and number == 0,
                columns=d,
                keep_failed=True,
            )
            if look is not None and number == 0 and len(parts) > 1:
                look(made)
            yield made

    done = collect(steps(), len(parts), "Simulating", show=progress)
    runs = done[0].join(*done[1:])
    return replace(runs, warnings=tell_interruption(len(runs.thetas), len(thetas), "parameters"))


def measure_distances(problem: Problem, simulations: Simulations) -> Float[np.ndarray, " t"]:
    """The squared MMD at each theta, +∞ where a simulation is NaN or infinite.

    Where each theta has points of its own and weights that know their error, the error is added.
    This is what to expect of the squared MMD given the simulations; without it, the less the
    points of a theta tell, the nearer it would look.
    """
    fine = np.isfinite(np.asarray(simulations.y)).all((1, 2))
    found = np.full(len(fine), np.inf)
    if fine.any():
        runs = simulations if fine.all() else simulations.at(fine)
        found[fine] = problem.squared_mmd(runs.y, runs.quadrature) + _own_errors(runs.quadrature)
    return found


def _own_errors(quadrature: Quadrature) -> Array:
    """Those of each theta's design; one design for all would only move the scale."""
    if quadrature.points.ndim == 2 or quadrature.certificate is None:
        return jnp.zeros(())
    return jnp.nan_to_num(quadrature.certificate.excess)
