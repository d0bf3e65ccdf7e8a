"""Races between contenders, each in a process of its own, and the memory that a call takes."""

import contextlib
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]

_LEAST_SECONDS_A_SAMPLE = 0.2  # threads take a while to wake up
_PAUSE = 0.05  # idle threads of OpenMP and OpenBLAS spin for a while after a call
_STATUS = Path("/proc/self/status")
_PROCESSES = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Contender:
    """One way to do a task. `build` runs in the contender's own process and returns the call.

    work: what one call does, in the units of its rate (e.g. millions of pairs).
    task: contenders of one task must give the answer of the first of them, but for the relative
        `tolerance`.
    """

    name: str
    build: Callable[[], Call]
    work: float = 1.0
    task: str = ""
    tolerance: float = 1e-10
    timed: bool = True


@dataclass(frozen=True)
class Failure:
    """Why a contender has no time: it is missing, crashed, or gave another answer."""

    reason: str


@dataclass(frozen=True)
class Race:
    """Seconds a call, round by round, of the contenders that finished."""

    work: dict[str, float]
    seconds: dict[str, list[float]]
    failures: dict[str, Failure]

    def best_time(self, name: str) -> float:
        """Seconds for one unit of work."""
        return min(self.seconds[name]) / self.work[name]

    def ratio(self, name: str, over: str) -> float | None:
        """The median over the rounds of the rate of `name` divided by that of `over`."""
        if name in self.failures or over in self.failures:
            return None
        rounds = zip(self.seconds[name], self.seconds[over], strict=True)
        return self.work[name] / self.work[over] * statistics.median(b / a for a, b in rounds)


@dataclass(frozen=True)
class Memory:
    """The peak above what the process held just before the call, and how long the call took."""

    megabytes: float
    seconds: float


def race(contenders: Sequence[Contender], rounds: int = 7) -> Race:
    """Time the contenders in turn, several rounds, after a warm-up (compilation) of each."""
    with contextlib.ExitStack() as stack:
        runners = [stack.enter_context(_Runner(contender)) for contender in contenders]
        failures = {r.name: r.answer for r in runners if isinstance(r.answer, Failure)}
        failures |= _disagreements([r for r in runners if r.name not in failures])
        able = [r for r in runners if r.contender.timed and r.name not in failures]
        seconds = _rounds(able, rounds)
    return Race({c.name: c.work for c in contenders}, seconds, failures)


def _rounds(runners: Sequence["_Runner"], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    for _ in range(rounds):
        for runner in runners:
            time.sleep(_PAUSE)
            seconds[runner.name].append(runner.run())
    return seconds


def _disagreements(runners: Iterable["_Runner"]) -> dict[str, Failure]:
    """Failures of those whose answer is not that of the first contender with the same task."""
    first: dict[str, _Runner] = {}
    failures = {}
    for runner in runners:
        reference = first.setdefault(runner.contender.task, runner)
        difference = _relative_difference(runner.answer, reference.answer)
        if not difference <= runner.contender.tolerance:
            failures[runner.name] = Failure(f"differs from {reference.name} by {difference:.1e}")
    return failures


def _relative_difference(value: np.ndarray, reference: np.ndarray) -> float:
    return float(np.max(np.abs(value - reference)) / np.max(np.abs(reference)))


def peak_memory(build: Callable[[], Call]) -> Memory | Failure:
    """What the first call takes in a fresh process, compilation included."""
    with _Child(_measure_memory, build) as child:
        return child.receive()


class _Child:
    """A fresh process that sends values back; a Failure where it died."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_guard, args=(target, theirs, *arguments))
        self.process.start()
        theirs.close()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.process.join()

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            return Failure(f"its process ended with exit code {self.process.exitcode}")


class _Runner(_Child):
    """A contender warmed up in its own process, ready to be timed."""

    def __init__(self, contender: Contender) -> None:
        super().__init__(_serve, contender.build)
        self.contender = contender
        self.name = contender.name
        self.answer: np.ndarray | Failure = self.receive()

    def run(self) -> float:
        self.pipe.send("run")
        return self.receive()


def _guard(target: Callable[..., None], pipe: Connection, *arguments: Any) -> None:
    with contextlib.redirect_stdout(sys.stderr):  # some peers print when they are imported
        try:
            target(pipe, *arguments)
        except (EOFError, BrokenPipeError):
            return  # the parent has seen enough
        except Exception as error:
            pipe.send(Failure(f"not available: {type(error).__name__}: {_first_line(error)}"))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _serve(pipe: Connection, build: Callable[[], Call]) -> None:
    call = build()
    answer = np.asarray(call())
    repeats = max(1, round(_LEAST_SECONDS_A_SAMPLE / time_call(call)))
    pipe.send(answer)
    while pipe.recv() == "run":
        pipe.send(time_call(call, repeats))


def time_call(call: Call, repeats: int = 1) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _measure_memory(pipe: Connection, build: Callable[[], Call]) -> None:
    call = build()
    base = _peak_megabytes()
    seconds = time_call(call)
    pipe.send(Memory(_peak_megabytes() - base, seconds))


def _peak_megabytes() -> float:
    """Of this process alone: on Linux, getrusage begins at the peak of the parent."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes
    (peak,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e6
