"""The loop that hands out runs, collects what ended, and commits it after a moment."""

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from owlfi._tools.checks import as_count, as_truth, brief, plain_number
from owlfi.campaign.engines import Engine, outcome_of
from owlfi.campaign.outcome import CRASH, DONE, RETRIED, SHAPE, Outcome, is_same_y, may_retry
from owlfi.campaign.store import Run, Store

_GROUP = 0.025  # seconds to wait for company, after which it is committed
_HEARTBEAT = 1.0
_FEW_FAILURES = 10
_MOST_LOSSES = 5
MOST_CALLS = 10**12


class Progress(NamedTuple):
    """How far a campaign is: runs of this call, and the seconds they may still take."""

    done: int
    failed: int
    running: int
    waiting: int
    seconds_left: float


class TooManyFailuresError(RuntimeError):
    """So many runs failed that the campaign was stopped; everything is kept."""


class NotRepeatableError(ValueError):
    """y came out differently the second time."""


@dataclass(frozen=True)
class Policy:
    """How runs are made, whatever makes them; options as in `Campaign.run`.

    until: the moment on the monotonic clock after which no run begins.

    Raises ValueError for retries or a budget below 0, a share outside 0 to 1, a check that is
    neither True nor False and a report that is no function.
    """

    retries: int = 2
    max_failures: float = 0.2
    check: bool = True
    budget: int | None = None
    until: float = math.inf
    report: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        as_count("retries", self.retries, 0)
        as_truth("check", self.check)
        if self.report is not None and not callable(self.report):
            raise ValueError(f"report must be a function, got {brief(self.report)}")
        if self.budget is not None:
            as_count("budget", self.budget, 0, most=MOST_CALLS)
        if not 0 <= plain_number("max_failures", self.max_failures) <= 1:
            raise ValueError(
                f"max_failures must be a share from 0 to 1, got {brief(self.max_failures)}"
            )


def deadline(seconds: float | None) -> float:
    """The moment after so many seconds, on the monotonic clock; never where None.

    Raises ValueError for what is no number, or negative.
    """
    if seconds is None:
        return math.inf
    left = plain_number("seconds", seconds)
    if not left >= 0:
        raise ValueError(f"seconds must be 0 or more, got {brief(seconds)}")
    return time.monotonic() + left


@dataclass
class _Task:
    run: Run
    attempts: int
    expected: bytes | None = None  # y of the first time, where the run is made again to check
    losses: int = 0


@dataclass
class Driver:
    """Runs rows on an engine and writes them to a store."""

    store: Store
    engine: Engine
    recipe: str
    policy: Policy
    done: int = 0
    failed: int = 0
    runs_begun: int = 0
    start_time: float = field(default_factory=time.monotonic)
    _columns: int | None = None
    _first: bool = False  # whether the next run that is done is to be made again
    _unchecked: bool = False  # whether it is open that y is determined by theta and u
    _waits: bool = False  # whether handing over a row was seen to keep others from being committed
    _waiting: deque[_Task] = field(default_factory=deque)
    _flying: dict["Future[Outcome]", _Task] = field(default_factory=dict)
    _landed: "queue.SimpleQueue[Future[Outcome]]" = field(default_factory=queue.SimpleQueue)
    _group: list[tuple[Run, Outcome, int]] = field(default_factory=list)

    def drive(self, runs: Iterable[tuple[Run, int]]) -> None:
        """Make these runs, each with the number of attempts that it already had.

        Raises TooManyFailuresError, NotRepeatableError, or what the engine raised; what ended is
        kept.
        """
        self._waiting.extend(_Task(run, attempts) for run, attempts in runs)
        self._columns = self.store.fact("columns")
        self._first = self._unchecked = self.policy.check and not self.store.fact("checked")
        try:
            self._feed()
            self.engine.flush()
            while self._flying:
                self._collect()
                self._commit()
                self._stop_if_hopeless()
                self._feed()
                self.engine.flush()
        finally:
            self._cancel()
            self._commit()

    def _feed(self) -> None:
        most = self._most_flying()
        while self._waiting and len(self._flying) < most and self._may_begin():
            task, began = self._waiting.popleft(), time.monotonic()
            self.runs_begun += task.expected is None
            future = self.engine.submit(self.recipe, task.run.theta, task.run.u)
            self._flying[future] = task
            future.add_done_callback(self._landed.put)
            if time.monotonic() - began > _GROUP:  # it waits for room, or runs rows itself
                self._waits = True
                if not self._landed.empty():
                    return

    def _most_flying(self) -> int:
        """How many to hand over: none that would wait where it may yet turn out not to be made."""
        undecided = self._unchecked or self.policy.until < math.inf
        return self.engine.workers() if undecided else self.engine.ahead

    def _may_begin(self) -> bool:
        checking = self._waiting[0].expected is not None
        budget = math.inf if self.policy.budget is None else self.policy.budget
        return (self.runs_begun < budget or checking) and time.monotonic() < self.policy.until

    def _collect(self) -> None:
        """What ends within a moment of the first."""
        self._take(self._wait_for_next())
        until = time.monotonic() + _GROUP
        while self._flying and (left := until - time.monotonic()) > 0:
            try:
                self._take(self._landed.get(timeout=left))
            except queue.Empty:
                return

    def _wait_for_next(self) -> "Future[Outcome]":
        """The next future that ends; meanwhile, tell how many are running."""
        while True:
            try:
                return self._landed.get(timeout=_HEARTBEAT)
            except queue.Empty:
                running = self._count_running()
                self.store.put(running=running)
                self._tell(running)
                self.engine.flush()  # which sees whether it is still there

    def _count_running(self) -> int:
        return sum(future.running() for future in self._flying)

    def _take(self, future: "Future[Outcome]") -> None:
        task = self._flying.pop(future)
        outcome = outcome_of(future)
        if outcome is None:
            outcome = self._give_back(task)
        if outcome is not None:
            self._judge(task, outcome)
        if not self.engine.blocking and not self._waits:
            self._feed()

    def _give_back(self, task: _Task) -> Outcome | None:
        """The engine broke down before it ran this; again, but not for ever."""
        task.losses += 1
        self.runs_begun -= task.expected is None
        if task.losses > _MOST_LOSSES:
            return Outcome(CRASH, error=f"the engine broke down {task.losses} times")
        self._waiting.appendleft(task)
        return None

    def _judge(self, task: _Task, outcome: Outcome) -> None:
        if task.expected is not None:
            _compare(task.run, task.expected, outcome)
            self._unchecked = False
            self.store.put(checked=True, checks=(self.store.fact("checks") or 0) + 1)
            return
        outcome = self._check_columns(outcome)
        task.attempts += 1
        self._group.append((task.run, outcome, task.attempts))
        if outcome.state == DONE:
            self.done += 1
            if self._first:
                self._first = False
                self._waiting.appendleft(_Task(task.run, 0, expected=outcome.y))
        elif may_retry(outcome.state, task.attempts, self.policy.retries):
            self._waiting.append(task)
        else:
            self.failed += 1

    def _check_columns(self, outcome: Outcome) -> Outcome:
        """The same, or a failure where y has another number of columns than before."""
        if outcome.y is None:
            return outcome
        columns = len(outcome.y) // 8
        if self._columns is None:
            self._columns = columns
        if columns == self._columns:
            return outcome
        error = f"y has {columns} columns where other runs have {self._columns}"
        return outcome._replace(state=SHAPE, y=None, error=error)

    def _commit(self) -> None:
        if self._group:
            running = self._count_running()
            self.store.record(self._group, columns=self._columns, running=running)
            self._group.clear()
            self._tell(running)

    def _tell(self, running: int) -> None:
        if self.policy.report is not None:
            left = len(self._waiting) + len(self._flying)
            pace = (time.monotonic() - self.start_time) / max(1, self.done + self.failed)
            progress = Progress(self.done, self.failed, running, left - running, left * pace)
            self.policy.report(progress)

    def _stop_if_hopeless(self) -> None:
        allowed = max(_FEW_FAILURES, self.policy.max_failures * (self.done + self.failed))
        if self.failed > allowed:
            raise TooManyFailuresError(
                f"{self.failed} of {self.done + self.failed} runs failed; everything is kept: "
                "mend their cause, and run(retry_failed=True) makes them again"
            )

    def _cancel(self) -> None:
        for future in list(self._flying):
            if not future.done():
                future.cancel()
                continue
            task = self._flying.pop(future)
            if not future.cancelled() and future.exception() is None and task.expected is None:
                self._judge(task, future.result())


def _compare(run: Run, expected: bytes, outcome: Outcome) -> None:
    if outcome.state not in RETRIED and not is_same_y(expected, outcome.y or b""):
        again = outcome.error if outcome.y is None else np.frombuffer(outcome.y)
        raise NotRepeatableError(
            f"y is not determined by theta and u: at theta = {np.frombuffer(run.theta)}, u = "
            f"{np.frombuffer(run.u)} the simulator returned {np.frombuffer(expected)}, then "
            f"{again}; take all random numbers from u"
        )
