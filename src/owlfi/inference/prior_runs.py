"""Simulations at parameters of the prior, or at any others, in steps."""

from collections.abc import Iterator
from dataclasses import replace

from jaxtyping import Array, Float, Key

from owlfi._tools.progress import collect, split_chunks
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import CHECK_CALLS, Simulations, simulate
from owlfi.problem.spending import afford
from owlfi.results.health import tell_interruption
from owlfi.weights.quadrature import Quadrature

_CHUNK = 100  # thetas between two moves of the progress bar


def simulate_prior(
    key: Key[Array, ""],
    problem: Problem,
    quadrature: Quadrature,
    draws: int,
    *,
    progress: bool = False,
) -> Simulations:
    """Simulations at draws from the prior; those that the rule was tuned to are the first."""
    known = problem.pilot(quadrature).at(slice(draws))
    missing = draws - len(known.thetas)
    if not missing:
        return known
    thetas, check = problem.prior.sample(key, missing), quadrature.pilot is None
    more = simulate_in_chunks(problem, thetas, quadrature, check=check, progress=progress)
    return known.join(more)


def simulate_in_chunks(
    problem: Problem,
    thetas: Float[Array, "t p"],
    quadrature: Quadrature,
    *,
    check: bool = True,
    progress: bool = False,
) -> Simulations:
    """Simulations at all thetas on one design, or at the first when interrupted or out of calls.

    check: see first that y is determined by theta and u.
    """
    checked = CHECK_CALLS if check else 0
    paid = afford(len(thetas), len(quadrature.points), beside=checked)
    parts = split_chunks(paid, _CHUNK)

    def steps() -> Iterator[Simulations]:
        for number, part in enumerate(parts):
            yield simulate(
                problem.simulator,
                thetas[part],
                quadrature,
                check=check and number == 0,
                columns=problem.observed.shape[1],
                keep_failed=True,
            )

    done = collect(steps(), len(parts), "Simulating", show=progress)
    runs = done[0].join(*done[1:])
    return replace(runs, warnings=tell_interruption(len(runs.thetas), len(thetas), "parameters"))
