"""Which draws have a place in u, and of which kind, from those of dry runs."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

import numpy as np

from owlfi.problem.recorded_noise.kinds import UNIFORM, Block, as_blocks
from owlfi.problem.recorded_noise.sites import Draw

MOST = 2000  # places, where nobody asks for more
_NEARLY_ALL = 0.95  # runs have a place for all their draws

Run = tuple[Draw, ...]


def choose_places(runs: Iterable[Run], wanted: int | None) -> tuple[Block, ...]:
    """The leading draws: as many as nearly all runs make, or as are wanted.

    Where runs differ in the kind of a draw, it is uniform.
    """
    runs = list(runs)
    count = min(count_nearly_all(runs), MOST) if wanted is None else wanted
    columns = [list(islice(_list_kinds(run), count)) for run in runs]
    kinds = [{kinds[i] for kinds in columns if i < len(kinds)} for i in range(count)]
    return as_blocks(next(iter(found)) if len(found) == 1 else UNIFORM for found in kinds)


def _list_kinds(run: Run) -> Iterator[str]:
    return chain.from_iterable(repeat(draw.kind, draw.number) for draw in run)


def count_draws(runs: Iterable[Run]) -> np.ndarray:
    """Of each run."""
    return np.array([sum(draw.number for draw in run) for run in runs])


def count_nearly_all(runs: Iterable[Run]) -> int:
    """So many that few runs make more."""
    return int(np.quantile(count_draws(runs), _NEARLY_ALL, method="higher"))


def share_beyond(runs: Iterable[Run], places: int) -> float:
    """Of all draws, those without a place."""
    counts = count_draws(runs)
    return float(np.maximum(counts - places, 0).sum() / max(counts.sum(), 1))
