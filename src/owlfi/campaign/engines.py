"""Where runs happen: a pool of processes, any executor, a Dask cluster, or this process."""

import os
import re
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pebble import ProcessExpired

from owlfi._tools.checks import as_count
from owlfi.campaign.encoding import decode
from owlfi.campaign.external import check_time_limit
from owlfi.campaign.outcome import CRASH, TIMEOUT, Outcome
from owlfi.campaign.processes import Processes
from owlfi.campaign.recipe import check_program, load_simulator
from owlfi.campaign.worker import run_row

HERE = "here"
_QUEUED_AHEAD = 256


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


class EngineOptions(NamedTuple):
    """What runs the rows.

    executor: None for processes; an Executor; a Dask client, or its scheduler's address as text;
        "here" for this process.
    workers: how many rows can begin at once; one for each core where left out, or as many as a
        Dask client tells.
    time_limit: seconds after which a run is killed; for processes only.
    """

    executor: Any = None
    workers: int | None = None
    time_limit: float | None = None


class Executing:
    """Any executor of concurrent.futures, Dask's among them; it is left open.

    workers: tells how many rows can begin at once.
    close: what to do at the end.
    """

    ahead = _QUEUED_AHEAD
    blocking = False

    def __init__(
        self,
        executor: Executor,
        workers: Callable[[], int],
        close: Callable[[], object] = lambda: None,
    ):
        self.workers = workers
        self._executor = executor
        self._close = close

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


def make_engine(recipe: str, options: EngineOptions) -> Engine:
    """The engine that the options of a campaign ask for.

    Raises ValueError for other options, a time limit that the engine cannot keep, and a command
    that cannot be started here, where it is to run here.
    """
    executor, _, time_limit = options
    workers = None if options.workers is None else as_count("workers", options.workers)
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


def _use_dask(
    client: Any, workers: int | None, close: Callable[[], object] = lambda: None
) -> Engine:
    def count_workers() -> int:  # they come and go
        return workers or max(1, sum(client.nthreads().values()))

    executor = client.get_executor(pure=False)  # equal calls are two runs
    return Executing(executor, count_workers, close)


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
