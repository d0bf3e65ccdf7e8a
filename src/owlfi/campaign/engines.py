"""Where runs happen: a pool of processes, any executor, a Dask cluster, or this process."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, Protocol, runtime_checkable

from pebble import ProcessExpired, ProcessPool

from owlfi._tools.checks import MOST_COUNT, as_count, as_kind, brief
from owlfi._tools.forks import check_start_method
from owlfi._tools.spawning import SpawnWithoutMain
from owlfi.campaign.cluster import Cluster, connect
from owlfi.campaign.external import check_time_limit
from owlfi.campaign.outcome import CRASH, TIMEOUT, Outcome
from owlfi.campaign.programs import kill_programs
from owlfi.campaign.recipe import check_program, load_recipe
from owlfi.campaign.rows import row_function, run_row

HERE = "here"
_MOST_A_CORE = 16  # processes, some of which may wait


@runtime_checkable
class Engine(Protocol):
    """Runs rows, later or at once."""

    blocking: bool
    """Whether handing over a row waits for its end, so that others must be committed before."""

    @property
    def ahead(self) -> int:
        """How many rows to hand over before the first has ended."""

    def workers(self) -> int:
        """How many rows can begin at once."""

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        """Start a row."""

    def flush(self) -> None:
        """Start what waits for company."""

    def stop(self) -> None:
        """End what is running."""


class Executing:
    """Any executor of concurrent.futures; it is left open.

    workers: how many rows can begin at once.
    """

    ahead = 256
    blocking = False

    def __init__(self, executor: Executor, workers: int):
        self._executor = executor
        self._workers = workers

    def workers(self) -> int:
        return self._workers

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        try:
            future = self._executor.submit(run_row, recipe, theta, u)
            return as_kind("what executor gives", future, Future, "a concurrent.futures.Future")
        except RuntimeError as error:  # broken, or shut down
            raise RuntimeError(
                f"the executor takes no more runs ({error}); what had ended is kept: call run() "
                "again with a new one"
            ) from error

    def flush(self) -> None:
        """Nothing waits."""

    def stop(self) -> None:
        """What had not started was cancelled."""


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

    def flush(self) -> None:
        """Nothing waits."""

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
            ProcessPool,
            workers,
            initializer=_prepare,
            initargs=(recipe,),
            context=SpawnWithoutMain(),
        )
        self._pool = self._new_pool()

    def workers(self) -> int:
        return self._workers

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        if not self._pool.active:  # it broke: all its workers died at once
            self.stop()
            self._pool = self._new_pool()
        return self._pool.schedule(run_row, args=(recipe, theta, u), timeout=self._limit)

    def flush(self) -> None:
        """Nothing waits."""

    def stop(self) -> None:
        self._pool.stop()
        self._pool.join()


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


def make_engine(
    recipe: str, executor: Any, workers: int | None, time_limit: float | None
) -> Engine:
    """The engine that the options of a campaign ask for.

    Raises ValueError for other options, a time limit that the engine cannot keep, and a command
    that cannot be started here, where it is to run here.
    """
    if workers is not None:
        most = _MOST_A_CORE * _count_cores() if executor is None else MOST_COUNT
        workers = as_count("workers", workers, most=most)
    check_time_limit(time_limit)
    here = isinstance(executor, str) and executor == HERE
    if executor is None or here:
        check_program(load_recipe(recipe))
    if executor is None:
        return Processes(recipe, workers or _count_cores(), time_limit)
    if time_limit is not None:
        raise ValueError(
            "time_limit needs an engine that can kill a run; leave executor out (processes), or "
            "give it to the simulator where that is a Command(..., time_limit=...)"
        )
    return InProcess() if here else _use_executor(executor, workers)


def _use_executor(executor: Any, workers: int | None) -> Engine:
    if isinstance(executor, str):
        return Cluster(connect(executor), workers, owned=True)
    if hasattr(executor, "get_executor"):
        return Cluster(executor, workers)
    if not isinstance(executor, Executor):
        raise ValueError(
            "executor must be a concurrent.futures.Executor, a Dask client or the address of a "
            f"Dask scheduler, got {brief(executor)}"
        )
    check_start_method("executor", executor)
    return Executing(executor, workers or _count_cores())


def _count_cores() -> int:
    return os.cpu_count() or 1


def outcome_of(future: "Future[Outcome]") -> Outcome | None:
    """How a run ended; None where it never ran.

    Raises what the engine itself raised, such as ValueError where a worker cannot import the
    simulator.
    """
    try:
        return as_kind("what executor gives", future.result(), Outcome, "that of its function")
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
