"""A pool of processes that never run the user's script, and end when their driver does."""

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess

from pebble import ProcessPool

from owlfi.campaign.external import kill_programs
from owlfi.campaign.outcome import Outcome
from owlfi.campaign.worker import row_function, run_row

_QUEUED_AHEAD = 64
_MAIN_LOCK = threading.Lock()


class Processes:
    """Spawned processes with a time limit for each run; those that die are replaced."""

    blocking = False

    def __init__(self, recipe: str, workers: int, time_limit: float | None):
        self.ahead = workers + _QUEUED_AHEAD
        self._workers = workers
        self._limit = time_limit
        self._new_pool = partial(
            ProcessPool, workers, initializer=_prepare, initargs=(recipe,), context=_Context()
        )
        self._pool = self._new_pool()

    def workers(self) -> int:
        """How many rows can begin at once."""
        return self._workers

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        """Start a row."""
        if not self._pool.active:  # it broke: all its workers died at once
            self.stop()
            self._pool = self._new_pool()
        return self._pool.schedule(run_row, args=(recipe, theta, u), timeout=self._limit)

    def stop(self) -> None:
        """End what is running."""
        self._pool.stop()
        self._pool.join()


class _Process(SpawnProcess):
    def start(self) -> None:
        with _without_main():
            super().start()


class _Context(SpawnContext):
    Process = _Process  # the pool starts every worker with it, those that replace others, too


@contextmanager
def _without_main() -> Iterator[None]:
    """Workers need nothing of the user's script, and would run it if they saw it."""
    with _MAIN_LOCK:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _prepare(recipe: str) -> None:
    """Before the first run: import the simulator outside the time limit, and end with the driver.

    Orphans would go on with what is queued, which the next driver starts again.
    """
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    row_function(recipe)


def _end_with_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        _end()


def _end(*_: object) -> None:
    kill_programs()
    os._exit(1)
