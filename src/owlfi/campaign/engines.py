"""Where runs happen: a pool of processes, any executor, a Dask cluster, or this process."""

import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, runtime_checkable

import numpy as np
from pebble import ProcessExpired, ProcessPool

from owlfi._tools.checks import as_count
from owlfi.campaign.encoding import decode
from owlfi.campaign.external import CrashError, TimeLimitError, check_time_limit, kill_programs
from owlfi.campaign.outcome import CRASH, DONE, EXCEPTION, NOT_FINITE, SHAPE, TIMEOUT, Outcome
from owlfi.campaign.recipe import check_program, load_simulator

HERE = "here"
_MAIN_LOCK = threading.Lock()
_LONGEST_ERROR = 4000


@runtime_checkable
class Engine(Protocol):
    """Runs rows, later or at once."""

    ahead: int
    """How many rows to hand over before the first has ended."""
    blocking: bool
    """Whether handing over a row waits for its end, so that others must be committed before."""

    def workers(self) -> int:
        """How many rows can begin at once."""

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        """Start a row."""

    def stop(self) -> None:
        """End what is running."""


class Executing:
    """Any executor of concurrent.futures, Dask's among them; it is left open.

    workers: tells how many rows can begin at once.
    stop: what to do at the end, when the driver has cancelled what had not started.
    """

    ahead = 256
    blocking = False

    def __init__(
        self,
        executor: Executor,
        workers: Callable[[], int],
        stop: Callable[[], None] = lambda: None,
    ):
        self.workers = workers
        self.stop = stop
        self._executor = executor

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        try:
            return self._executor.submit(run_row, recipe, theta, u)
        except RuntimeError as error:  # broken, or shut down
            raise RuntimeError(
                f"the executor takes no more runs ({error}); what had ended is kept: call run() "
                "again with a new one"
            ) from error


class InProcess:
    """This process, one row after another."""

    ahead = 1
    blocking = True

    def workers(self) -> int:
        return 1

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        future.set_result(run_row(recipe, theta, u))
        return future

    def stop(self) -> None:
        """Nothing runs by now."""


class Processes:
    """Spawned processes with a time limit for each run; those that die are replaced.

    They never run the user's script, and end when their driver does.
    """

    blocking = False

    def __init__(self, recipe: str, workers: int, time_limit: float | None):
        self.ahead = workers + 64
        self._workers = workers
        self._limit = time_limit
        self._new_pool = partial(
            ProcessPool, workers, initializer=_prepare, initargs=(recipe,), context=_Context()
        )
        self._pool = self._new_pool()

    def workers(self) -> int:
        return self._workers

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        if not self._pool.active:  # it broke: all its workers died at once
            self.stop()
            self._pool = self._new_pool()
        return self._pool.schedule(run_row, args=(recipe, theta, u), timeout=self._limit)

    def stop(self) -> None:
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
    _row_function(recipe)


def _end_with_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        _end()


def _end(*_: object) -> None:
    kill_programs()
    os._exit(1)


def make_engine(
    recipe: str, executor: Any, workers: int | None, time_limit: float | None
) -> Engine:
    """The engine that the options of a campaign ask for.

    Raises ValueError for other options, a time limit that the engine cannot keep, and a command
    that cannot be started here, where it is to run here.
    """
    workers = None if workers is None else as_count("workers", workers)
    check_time_limit(time_limit)
    if executor is None or executor == HERE:
        check_program(load_simulator(decode(recipe)))
    if executor is None:
        return Processes(recipe, workers or _count_cores(), time_limit)
    if time_limit is not None:
        raise ValueError(
            "time_limit needs an engine that can kill a run: leave executor out (processes), or "
            "give it to the simulator where that is a Command(..., time_limit=...)"
        )
    return InProcess() if executor == HERE else _use_executor(executor, workers)


def _use_executor(executor: Any, workers: int | None) -> Engine:
    if isinstance(executor, str):
        client = _connect_dask(executor)
        return _use_dask(client, workers, client.close)
    if hasattr(executor, "get_executor"):
        return _use_dask(executor, workers)
    if not isinstance(executor, Executor):
        raise ValueError(
            "executor must be a concurrent.futures.Executor, a Dask client or the address of a "
            f"Dask scheduler, got {executor!r}"
        )
    return Executing(executor, lambda: workers or _count_cores())


def _use_dask(client: Any, workers: int | None, stop: Callable[[], None] = lambda: None) -> Engine:
    def count_workers() -> int:  # they come and go
        return workers or max(1, sum(client.nthreads().values()))

    return Executing(client.get_executor(pure=False), count_workers, stop)  # equal calls: two runs


def _connect_dask(address: str) -> Any:
    if not re.search(r"://|:\d+$", address):
        raise ValueError(
            f'executor must be "{HERE}", or the address of a Dask scheduler such as '
            f'"tcp://host:8786", got {address!r}; leave it out for processes'
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("a Dask scheduler needs the package distributed: owlfi[dask]") from error
    return Client(address)


def _count_cores() -> int:
    return os.cpu_count() or 1


def outcome_of(future: "Future[Outcome]") -> Outcome | None:
    """How a run ended; None where it never ran.

    Raises what the engine itself raised, such as ValueError where a worker cannot import the
    simulator.
    """
    try:
        return future.result()
    except (CancelledError, BrokenProcessPool):
        return None
    except TimeoutError:
        return Outcome(TIMEOUT, error="longer than the time limit; its process was killed")
    except ProcessExpired as error:
        return Outcome(CRASH, error=f"its process died with exit code {error.exitcode}")
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # Dask's, which need not be installed
            return Outcome(CRASH, error=f"its Dask workers died: {error}")
        raise


def run_row(recipe: str, theta: bytes, u: bytes) -> Outcome:
    """Run the simulator of a recipe at one theta (p,) and one u (s,), as a batch of one row.

    Raises ValueError only where the recipe itself cannot be loaded here.
    """
    function = _row_function(recipe)
    start = time.perf_counter()
    state, y, error = _attempt(function, np.frombuffer(theta).copy(), np.frombuffer(u)[None].copy())
    return Outcome(state, y, time.perf_counter() - start, socket.gethostname(), error)


@lru_cache(maxsize=8)
def _row_function(recipe: str) -> Callable[[Any, Any], Any]:
    """The generator, compiled where it is JAX, so that each row is computed at one fixed shape."""
    return load_simulator(decode(recipe)).row_function()


def _attempt(
    function: Callable[[Any, Any], Any], theta: np.ndarray, u: np.ndarray
) -> tuple[str, bytes | None, str]:
    try:
        y = np.asarray(function(theta, u), float)
    except TimeLimitError as error:
        return TIMEOUT, None, _shorten(str(error))
    except CrashError as error:
        return CRASH, None, _shorten(str(error))
    except Exception:
        return EXCEPTION, None, _shorten(traceback.format_exc())
    if y.shape not in ((1,), (1, y.size)) or y.size == 0:
        return SHAPE, None, f"y must have shape (1, d) for one row of u, got {y.shape}"
    if not np.isfinite(y).all():
        return NOT_FINITE, None, f"y = {y.ravel()}"
    return DONE, y.tobytes(), ""


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"… {text[-_LONGEST_ERROR:]}"
