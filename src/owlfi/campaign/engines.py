"""Where runs happen: a pool of processes, any executor, a Dask cluster, or this process."""

import multiprocessing
import os
import re
import signal
import sys
import threading
import types
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, runtime_checkable

from pebble import ProcessExpired, ProcessPool

from owlfi.campaign.encoding import decode
from owlfi.campaign.external import check_time_limit, kill_programs
from owlfi.campaign.outcome import CRASH, TIMEOUT, Outcome, row_function, run_row
from owlfi.campaign.recipe import as_simulator, check_program

HERE = "here"
_QUEUED_AHEAD = 64


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
        return self._workers

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        if not self._pool.active:  # it broke: all its workers died at once
            self.stop()
            self._pool = self._new_pool()
        return self._pool.schedule(run_row, args=(recipe, theta, u), timeout=self._limit)

    def stop(self) -> None:
        self._pool.stop()
        self._pool.join()


class Executing:
    """Any executor of concurrent.futures, Dask's among them; it is left open.

    close: what to do at the end.
    """

    blocking = False

    def __init__(self, executor: Executor, close: Callable[[], object] = lambda: None):
        self.ahead = 4 * _QUEUED_AHEAD
        self._executor = executor
        self._close = close

    def workers(self) -> int:
        """As the executor tells, or else as many as here are cores."""
        client: Any = getattr(self._executor, "_client", None)  # Dask's, whose workers come and go
        if hasattr(client, "nthreads"):
            return max(1, sum(client.nthreads().values()))
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        try:
            return self._executor.submit(run_row, recipe, theta, u)
        except RuntimeError as error:  # broken, or shut down
            raise RuntimeError(
                f"the executor takes no more runs ({error}); what had ended is kept: call run() "
                "again with a new one"
            ) from error

    def stop(self) -> None:
        self._close()  # the driver has cancelled what had not started


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


def as_engine(executor: Any, recipe: str, workers: int | None, time_limit: float | None) -> Engine:
    """The engine that the options of a campaign ask for.

    executor: None for processes; an Executor; a Dask client, or its scheduler's address as text;
        "here" for this process.

    Raises ValueError for anything else, a time limit that the engine cannot keep, and a command
    that cannot be started here, where it is to run here.
    """
    check_time_limit(time_limit)
    if executor is None or executor == HERE:
        check_program(as_simulator(decode(recipe)))
    if executor is None:
        return Processes(recipe, workers or os.cpu_count() or 1, time_limit)
    if time_limit is not None:
        raise ValueError(
            "time_limit needs an engine that can kill a run: leave executor out (processes), or "
            "give it to the simulator where that is a Command(..., time_limit=...)"
        )
    if isinstance(executor, str):
        return InProcess() if executor == HERE else _on_dask(executor)
    if hasattr(executor, "get_executor"):
        executor = executor.get_executor(pure=False)  # equal calls are two runs
    if not isinstance(executor, Executor):
        raise ValueError(
            "executor must be a concurrent.futures.Executor, a Dask client or the address of a "
            f"Dask scheduler, got {executor!r}"
        )
    return Executing(executor)


def _on_dask(address: str) -> Engine:
    if not re.search(r"://|:\d+$", address):
        raise ValueError(
            f'executor must be "{HERE}", or the address of a Dask scheduler such as '
            f'"tcp://host:8786", got {address!r}; leave it out for processes'
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("a Dask scheduler needs the package distributed: owlfi[dask]") from error
    client = Client(address)
    return Executing(client.get_executor(pure=False), client.close)


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


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _MAIN_LOCK:
            return _launched_without_main(process_obj)


class _Context(SpawnContext):
    Process = _Process


_MAIN_LOCK = threading.Lock()


def _launched_without_main(process_obj: Any) -> Any:
    """Workers need nothing of the user's script, and would run it if they saw it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        return multiprocessing.get_context("spawn").Process._Popen(process_obj)
    finally:
        sys.modules["__main__"] = main
