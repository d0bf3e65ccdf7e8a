"""Rows that are simulated by several processes."""

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import Any

import numpy as np

from owlfi._tools.spawning import SpawnWithoutMain

_PARTS = 4  # for each worker, as rows take different times


def spread_rows(
    run: Callable[[Any, Any], np.ndarray], theta: np.ndarray, u: np.ndarray, workers: int
) -> np.ndarray:
    """run(theta, u), rows (m, d) that are computed one by one, by processes that stay for more."""
    parts = np.array_split(u, min(len(u), _PARTS * workers))
    try:
        found = _open_pool(workers).map(run, [theta] * len(parts), parts)
        return np.concatenate(list(found))
    except BrokenProcessPool:
        _open_pool.cache_clear()
        raise


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
