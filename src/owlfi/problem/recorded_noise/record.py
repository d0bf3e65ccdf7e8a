"""From an ordinary simulator to a generator and the measure of its noise."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from owlfi._tools.checks import as_count, brief, is_hashable
from owlfi.measures import Measure, Seed
from owlfi.problem.prior import Prior
from owlfi.problem.recorded_noise.dry_runs import MANY, DryRuns, run_dry
from owlfi.problem.recorded_noise.kinds import measure_of
from owlfi.problem.recorded_noise.noise import Noise, describe_noise
from owlfi.problem.recorded_noise.places import MOST, choose_places, count_nearly_all, share_beyond
from owlfi.problem.recorded_noise.processes import check_importable
from owlfi.problem.recorded_noise.recorded import Recorded, Seeded
from owlfi.problem.recorded_noise.sources import Function, Source, find_source

_FAILING = 0.01  # share of dry runs


class Recording(NamedTuple):
    """What a Simulator is made of."""

    generator: Any
    measure: Measure
    on_host: bool


def record(
    function: Any,
    prior: Prior | None,
    theta: Any,
    *,
    argument: str | None,
    draws: int | None,
    vectorised: bool,
    workers: int,
    on_host: bool | None,
) -> Recording:
    """The generator of a function of theta and random numbers, by dry runs.

    Raises ValueError as `Simulator.from_random` does.
    """
    if getattr(function, "takes_seed", False):  # a program
        return Recording(function, Seed(), True)
    _check_function(function)
    wanted = None if draws is None else as_count("draws", draws)
    if as_count("workers", workers) > 1:
        check_importable(function)
    source = find_source(function, argument, vectorised)
    thetas = _choose_thetas(prior, theta)
    run_dry.cache_clear()  # an object may have changed since
    try:
        found = _find_draws(function, source, thetas, vectorised, on_host)
    except (TypeError, ValueError) as error:
        if source.form != "seed" or vectorised:
            raise
        return _record_seed(function, source, thetas, error)
    blocks = choose_places(found.draws, wanted)
    _warn_of_failures(found)
    _warn_of_many(found, wanted)
    beyond = share_beyond(found.draws, sum(count for _, count in blocks))
    outside = not (found.traced and beyond == 0)
    generator = Recorded(function, source, blocks, outside, vectorised, workers, beyond, on_host)
    return Recording(generator, measure_of(blocks), outside)


def describe_recorded(generator: Any, prior: Prior | None, theta: Any) -> Noise | None:
    """The table of a recorded generator, None for others; dry runs are remembered."""
    if not isinstance(generator, Recorded):
        return None
    thetas, own = _choose_thetas(prior, theta), generator
    found = _find_draws(own.simulate, own.source, thetas, own.vectorised, own.asked)
    return describe_noise(found, generator.blocks)


def _find_draws(
    function: Function, source: Source, thetas: np.ndarray, vectorised: bool, on_host: bool | None
) -> DryRuns:
    return run_dry(function, source, thetas.tobytes(), thetas.shape[1], vectorised, on_host)


def _check_function(function: Any) -> None:
    if not callable(function):
        raise ValueError(f"function must be a function of theta and rng, got {brief(function)}")
    if not is_hashable(function):
        raise ValueError(
            f"function is {brief(function)}, which has no hash; give one of its methods, or "
            "declare it with @dataclass(eq=False)"
        )


def _choose_thetas(prior: Prior | None, theta: Any) -> np.ndarray:
    """Of the dry runs: spread over the prior, or the usual theta."""
    if prior is not None:
        return np.asarray(prior.starts(jax.random.key(0), MANY))
    if theta is None:
        raise ValueError(
            "from_random finds the draws of the function by dry runs, and does not know where; "
            "give prior=Prior(name=measure, ...), or theta="
        )
    return np.tile(np.asarray(theta), (MANY, 1))


def _record_seed(
    function: Function, source: Source, thetas: np.ndarray, error: Exception
) -> Recording:
    """With whole numbers for seeds, where a generator in their place does not serve."""
    generator = Seeded(function, source)
    try:
        rows = [generator(thetas[0], np.full((1, 1), seed)) for seed in (1.0, 2.0, 1.0)]
    except Exception:
        raise error from None
    if not np.array_equal(rows[0], rows[2], equal_nan=True):
        raise ValueError(
            f"y is not determined by theta and {source.argument}: the same seed gave "
            f"{brief(rows[0])} and then {brief(rows[2])}; take all random numbers from it"
        )
    if np.array_equal(rows[0], rows[1], equal_nan=True):
        raise error
    return Recording(generator, Seed(), True)


def _warn_of_failures(found: DryRuns) -> None:
    if len(found.failures) > _FAILING * found.tried:
        warnings.warn(
            f"the function raised in {len(found.failures)} of {found.tried} dry runs, first "
            f"{found.failures[0]}: such simulations count as failed; narrow the prior, or return "
            "NaN where it has no answer",
            stacklevel=4,
        )


def _warn_of_many(found: DryRuns, wanted: int | None) -> None:
    count = count_nearly_all(found.draws)
    if wanted is None and count > MOST:
        warnings.warn(
            f"a run makes about {count:,} draws: the first {MOST:,} come from u, the others from a "
            "stream that u fixes, so that weights can do little; draw sums instead of their terms, "
            f"draw the important numbers first, or give draws= (up to {count:,})",
            stacklevel=4,
        )
