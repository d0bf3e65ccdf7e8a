"""A Dask cluster: small runs go in batches, and a scheduler that comes back is found again."""

import math
import re
import time
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, NamedTuple

from owlfi._tools.checks import brief
from owlfi.campaign.outcome import CRASH, Outcome
from owlfi.campaign.rows import run_row

_BATCH_SECONDS = 0.1  # what a kill may lose, and much longer than the scheduler takes for a task
_MOST_ROWS = 256
_ANSWER = 10.0  # seconds for a scheduler to answer
_COUNT_EVERY = 1.0  # seconds: workers come and go
_PATIENCE = 300.0  # seconds for one that is gone to come back


class _Row(NamedTuple):
    future: "Future[Outcome]"
    inputs: tuple[str, bytes, bytes]
    suspect: bool = False  # whether it may have killed its worker, and goes alone


class Cluster:
    """Runs rows on the workers of a Dask client.

    client: stays open, unless it was made from an address.
    workers: how many rows can begin at once; as many as the client tells where None.
    """

    blocking = False

    def __init__(self, client: Any, workers: int | None, *, owned: bool = False):
        self._client = client
        self._owned = owned
        self._address = client.scheduler.address
        self._limit = workers
        self._known = 1
        self._counted = -math.inf
        self._seconds: float | None = None
        self._queue: deque[_Row] = deque()  # Dask's thread adds to it, too
        self._sent: dict[Any, list[_Row]] = {}

    @property
    def ahead(self) -> int:
        return max(256, 2 * self.workers() * self._rows_a_batch())

    def workers(self) -> int:
        due = time.monotonic() > self._counted + _COUNT_EVERY
        if self._limit is None and due and self._client.status == "running":
            self._counted = time.monotonic()
            with suppress(Exception):  # the scheduler is gone at this moment
                threads = self._client.scheduler_info(n_workers=-1)["workers"].values()
                self._known = max(1, sum(worker["nthreads"] for worker in threads))
        return self._limit or self._known

    def submit(self, recipe: str, theta: bytes, u: bytes) -> "Future[Outcome]":
        self._queue.append(_Row(Future(), (recipe, theta, u)))
        return self._queue[-1].future

    def flush(self) -> None:
        """Send what was submitted; waits for a scheduler that is gone.

        Raises ConnectionError where it does not come back.
        """
        rows = [self._queue.popleft() for _ in range(len(self._queue))]
        if self._client.status == "closed":
            self._give_back()
        self._share_out([row for row in rows if _is_wanted(row)])

    def stop(self) -> None:
        with suppress(Exception):  # a client that is closed has nothing to cancel
            for task in list(self._sent):
                task.cancel()
        if self._owned:
            self._client.close()

    def _rows_a_batch(self) -> int:
        if self._seconds is None:
            return 1
        return max(1, min(_MOST_ROWS, int(_BATCH_SECONDS / max(self._seconds, 1e-9))))

    def _share_out(self, rows: list[_Row]) -> None:
        together = [row for row in rows if not row.suspect]
        size = min(self._rows_a_batch(), -(-len(together) // self.workers()) or 1)
        for i in range(0, len(together), size):
            self._send(together[i : i + size])
        for row in rows:
            if row.suspect:
                self._send([row])

    def _send(self, rows: list[_Row]) -> None:
        try:
            task = self._client.submit(run_rows, [row.inputs for row in rows], pure=False)
        except Exception:
            if self._client.status == "running":
                raise
            self._reconnect()  # it was closed meanwhile
            self._send(rows)
        else:
            self._sent[task] = rows
            task.add_done_callback(self._land)

    def _give_back(self) -> None:
        """What a client that is closed will never tell of."""
        for task in list(self._sent):
            _end_all(self._sent.pop(task, []), CancelledError())

    def _land(self, task: Any) -> None:
        """In a thread of Dask's: tell the driver how the rows of a task ended."""
        rows = self._sent.pop(task, [])
        if not rows:  # they were given back
            return
        try:
            found = task.result(timeout=_ANSWER) if task.status == "finished" else None
            error = task.exception(timeout=_ANSWER) if task.status == "error" else None
        except Exception:  # the scheduler is gone, and the result with it
            found = error = None
        if type(error).__name__ == "KilledWorker":
            self._blame(rows, error)
        elif isinstance(found, str):
            _end_all(rows, ValueError(found))
        elif found is None:
            _end_all(rows, CancelledError() if error is None else error)
        else:
            self._seconds = sum(outcome.seconds for outcome in found) / len(found)
            self._queue.extend(rows[len(found) :])  # they took longer than those before
            for row, outcome in zip(rows, found, strict=False):
                row.future.set_result(outcome)

    def _blame(self, rows: list[_Row], error: Any) -> None:
        """One of the rows killed its workers: which one, each shows on its own."""
        if len(rows) == 1:
            rows[0].future.set_result(Outcome(CRASH, error=f"its Dask workers died: {error}"))
        else:
            self._queue.extend(row._replace(suspect=True) for row in rows)

    def _reconnect(self) -> None:
        """A client of the scheduler that is there again."""
        self._give_back()  # sent while the other was closing, which told nobody
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self._client, self._owned = connect(self._address), True
            except ValueError as error:
                if time.monotonic() > until:
                    raise ConnectionError(
                        f"{error}; what had ended is kept: start it, and the same call goes on"
                    ) from None
                time.sleep(1.0)
            else:
                return


def run_rows(inputs: list[tuple[str, bytes, bytes]]) -> list[Outcome] | str:
    """How rows ended, of the first of them where all would take too long for what a kill may lose.

    Or, once for all of them, why their simulator cannot be loaded here.
    """
    until, found = time.monotonic() + _BATCH_SECONDS, []
    try:
        for one in inputs:
            found.append(run_row(*one))
            if time.monotonic() > until:
                break
    except ValueError as error:
        return str(error)
    return found


def is_address(text: str) -> bool:
    """Whether it may be one of a Dask scheduler."""
    return re.search(r"\w://.|.:\d+$", text) is not None


def connect(address: str) -> Any:
    """The client of a Dask scheduler.

    Raises ValueError for what is no address, and where none answers.
    """
    if not is_address(address):
        raise ValueError(
            'executor must be "here", or the address of a Dask scheduler such as '
            f'"tcp://host:8786", got {brief(address)}; leave it out for processes'
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError(
            "a Dask scheduler needs the package distributed; install owlfi[dask]"
        ) from error
    client: Any = Client.__new__(Client)  # to be closed if it is never made
    try:
        client.__init__(address, timeout=_ANSWER)
    except Exception as error:  # whatever a way of transport lacks, such as certificates
        with suppress(Exception):
            client.close()  # the garbage collector may close it where that waits for ever
        raise ValueError(
            f"executor: no Dask scheduler answers at {brief(address)} ({error}); "
            "see that it runs, and give the address that it prints"
        ) from error
    return client


def _is_wanted(row: _Row) -> bool:
    return row.future.running() or row.future.set_running_or_notify_cancel()


def _end_all(rows: list[_Row], error: BaseException) -> None:
    for row in rows:
        row.future.set_exception(error)
