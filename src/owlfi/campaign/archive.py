"""The file of a campaign: its simulator, its design, one writer at a time, and how far it is."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from filelock import Timeout

from owlfi._tools.checks import as_count, as_path, as_truth
from owlfi.campaign.database import StoreError, explain_errors, hold_file, lock_of
from owlfi.campaign.design import Design, describe_failure
from owlfi.campaign.encoding import decode, decode_tuple, encode
from owlfi.campaign.outcome import DONE
from owlfi.campaign.recipe import load_recipe
from owlfi.campaign.store import Store, find_name
from owlfi.campaign.trust import check_trust
from owlfi.measures import Measure
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


@dataclass(frozen=True)
class Status:
    """How far a campaign is; runs that are in the design twice count once."""

    total: int
    done: int
    failed: int
    running: int
    mean_seconds: float
    """Of the runs that are done, NaN where there are none."""
    failures: dict[str, int]
    """How many runs failed in which way."""
    calls: int = 0
    """How often the simulator was called, attempts, checks and runs outside the design included."""
    driver: str = ""
    """Who is running it at the moment, if anyone."""

    @property
    def waiting(self) -> int:
        """Runs of the design that have not ended."""
        return self.total - self.done - self.failed


Kind = TypeVar("Kind", bound="Archive")
_PROCESS = ("pid", "host", "since", "began")


class Archive:
    """What a campaign is, wherever it runs.

    path: the file of the store.
    recipe: the simulator, as text that every worker understands.
    """

    def __init__(self, path: Path, recipe: str, *, trust: bool = False):
        self.path = path
        self.recipe = recipe
        self._trust = as_truth("trust", trust)
        self._name = find_name(path)
        self._lock = lock_of(self._name)

    @classmethod
    def open(cls: type[Kind], path: str | os.PathLike[str], *, trust: bool = False) -> Kind:
        """A campaign that exists; opening it executes nothing.

        trust: whether its simulator may be imported or executed where it is run, although it was
            not made on this account.

        Raises ValueError where there is none.
        """
        file = as_path("path", path)
        with explain_errors(file), closing(Store.open(file, read_only=True)) as store:
            recipe = store.fact("recipe")
        if not isinstance(recipe, str):
            raise ValueError(f"{file} names no simulator; make the campaign again")
        return cls(file, recipe, trust=trust)

    @cached_property
    def original(self) -> Simulator:
        """The simulator itself, which remembers nothing; ValueError where it is a stranger's."""
        self.check_trust()
        return load_recipe(self.recipe)

    def check_trust(self) -> None:
        """ValueError where the simulator is not to be imported or executed."""
        if not self._trust:
            with self.reading() as store:
                check_trust(self.path, self.recipe, store.fact("signature"))

    @cached_property
    def outline(self) -> Simulator:
        """What is told of the simulator without its code, which it cannot run."""
        with self.reading() as store:
            text = store.fact("outline")
        if text is None:  # it has types of its own
            return self.original
        measure, parameters, prior = decode_tuple(text, Measure, tuple, Prior | None)
        return Simulator(_never_run, measure, parameters, prior=prior, on_host=True)

    @cached_property
    def design(self) -> Design:
        """The thetas and the quadrature; ValueError where there is none yet."""
        with self.reading() as store:
            text = store.fact("design")
        if text is None:
            raise ValueError(f"{self.path} has no design yet; give it with plan(thetas, ...)")
        return Design.read(text)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """The store to read from, also while another process writes."""
        with explain_errors(self.path), closing(Store.open(self._name, read_only=True)) as store:
            yield store

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """The store to write to; ValueError while another process does."""
        with self._hold(), explain_errors(self.path), closing(Store.open(self._name)) as store:
            driver = store.fact("driver")
            if _runs_beside(driver):  # somebody has removed its lock
                raise self._refuse(_name_driver(driver))
            yield store

    @contextmanager
    def _hold(self) -> Iterator[None]:
        """Its lock, and the file itself, before anything is written."""
        with ExitStack() as held:
            try:
                held.enter_context(self._lock.acquire(blocking=False))
                if self._lock.lock_counter == 1:  # else it is held already
                    held.enter_context(hold_file(self._name))
            except Timeout:
                raise self._refuse(self.status().driver or "another process") from None
            except OSError as error:
                raise StoreError(
                    f"{self.path} cannot be written to ({error}); copy it to a folder that can"
                ) from error
            yield

    def _refuse(self, driver: str) -> ValueError:
        return ValueError(
            f"{self.path} is being run by {driver}; wait for it or stop it. status() and "
            "results(partial=True) work meanwhile"
        )

    def status(self) -> Status:
        """How far the campaign is, also while another process runs it."""
        with self.reading() as store:
            counts, calls = store.counts(), store.calls()
            driver = _name_driver(store.fact("driver"))
            total, running = store.fact("total") or 0, store.fact("running") or 0
        done, seconds = counts.pop(DONE, (0, 0.0))
        failures = {state: count for state, (count, _) in counts.items()}
        return Status(
            total=total,
            done=done,
            failed=sum(failures.values()),
            running=running if driver else 0,
            mean_seconds=seconds / done if done else float("nan"),
            failures=failures,
            calls=calls,
            driver=driver,
        )

    def check(self, *, mend: bool = False) -> list[str]:
        """What is damaged in the file, in words; nothing where all is as it was written.

        mend: forget the runs that are damaged, so that `run` makes them again.
        """
        with self.writing() if as_truth("mend", mend) else self.reading() as store:
            faults, damaged = store.faults()
            if mend:
                store.forget(damaged)
        made = "; forgotten, so that run() makes them again" if mend else ""
        runs = f"{len(damaged)} runs are not what was written{made}"
        return [*faults, runs] if damaged else faults

    def failures(self, most: int | None = None) -> str:
        """The failed runs with their theta, u and error, one after the other.

        most: how many to describe, all where left out.
        """
        with self.reading() as store:
            failures = store.failures(None if most is None else as_count("most", most, 0))
            design = self.design if store.fact("design") is not None else None
            try:
                return "\n".join(describe_failure(failure, design) for failure in failures)
            except (LookupError, TypeError, ValueError) as error:
                raise store.damaged(f"what it says of failures ({error})") from error


def outline_facts(simulator: Simulator) -> dict[str, Any]:
    """What a store keeps of a simulator, so that it need not be imported to read the store."""
    try:
        outline = encode((simulator.measure, simulator.parameters, simulator.prior))
        decode(outline)
    except ValueError:
        return {}
    return {"outline": outline}


def _never_run(theta: Any, u: Any) -> Any:
    raise ValueError(
        "this simulator only tells of its noise, parameters and prior; campaign.original runs"
    )


def describe_process() -> dict[str, Any]:
    """Who is running a campaign now."""
    pid, since = os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": pid, "host": socket.gethostname(), "since": since, "began": _find_begin(pid)}


def _name_driver(driver: dict[str, Any] | None) -> str:
    """Who is running a campaign; empty where that process is known to be gone."""
    pid, host, since, began = ((driver or {}).get(name) for name in _PROCESS)
    if not isinstance(pid, int) or pid < 1:
        return ""
    if host == socket.gethostname() and not _lives(pid, began):
        return ""
    return f"process {pid} on {host} since {since}"


def _runs_beside(driver: dict[str, Any] | None) -> bool:
    """Whether a campaign is known to be run by another process of this machine."""
    pid, host, _, began = ((driver or {}).get(name) for name in _PROCESS)
    known = began is not None and host == socket.gethostname() and pid != os.getpid()
    return known and began == _find_begin(pid)


def _lives(pid: int, began: Any) -> bool:
    """Whether it is there, and has not left its number to another."""
    if began is not None:
        return began == _find_begin(pid)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's, so it lives
    return True


def _find_begin(pid: Any) -> str | None:
    """When a process began, in ticks of Linux; None where that is not known, or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
