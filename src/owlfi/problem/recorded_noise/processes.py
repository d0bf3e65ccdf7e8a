"""Rows that are simulated by several processes."""

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from typing import Any

import numpy as np

from owlfi._tools.spawning import SpawnWithoutMain
from owlfi.problem.recorded_noise.rows import Row

_PARTS = 4  # for each worker, as rows take different times


def share_rows(
    run: Callable[[Any, Any], list[Row]], theta: np.ndarray, u: np.ndarray, workers: int
) -> list[Row]:
    """run(theta, u), rows that are computed one by one, by processes that stay for more.

    Raises RuntimeError where a process ended.
    """
    parts = np.array_split(u, min(len(u), _PARTS * workers))
    try:
        found = _open_pool(workers).map(partial(_run_part, run), [theta] * len(parts), parts)
        return [row for part in found for row in part]
    except BrokenProcessPool as error:
        _open_pool.cache_clear()
        raise RuntimeError(
            f"a process of workers={workers} ended while it ran the simulator at theta = {theta}: "
            "it crashed, or memory was short; try workers=1, or a campaign, which survives this"
        ) from error


def _run_part(run: Callable[[Any, Any], list[Row]], theta: np.ndarray, u: np.ndarray) -> list[Row]:
    """With exceptions that every process can read."""
    return [
        RuntimeError(f"{type(row).__name__}: {row}") if isinstance(row, Exception) else row
        for row in run(theta, u)
    ]


def check_importable(function: Any) -> None:
    """ValueError where other processes could not import a function."""
    try:
        pickle.dumps(function)
        hidden = function.__module__ == "__main__"
    except (pickle.PicklingError, AttributeError, TypeError):
        hidden = True
    if hidden:
        raise ValueError(
            "workers need a function that other processes can import; define it with def at the "
            "top of a file such as model.py and import it from there, or leave workers out"
        )


@lru_cache(maxsize=1)
def _open_pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=SpawnWithoutMain())
