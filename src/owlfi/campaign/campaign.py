"""A campaign: a simulator, a design and a store; every run is made once and never lost."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from owlfi.campaign.assembly import assembled
from owlfi.campaign.design import Design
from owlfi.campaign.driver import Driver, Progress, TooManyFailuresError
from owlfi.campaign.encoding import decode
from owlfi.campaign.engines import HERE, Engine, as_engine
from owlfi.campaign.outcome import RETRIED
from owlfi.campaign.recipe import as_recipe, as_simulator, changes, sources
from owlfi.campaign.status import Status, read_status, this_process
from owlfi.campaign.store import Run, Store, as_bytes, digest
from owlfi.checks import as_count
from owlfi.failures import without_failures
from owlfi.kernels import Kernel
from owlfi.quadrature import Quadrature
from owlfi.simulator import Simulations, Simulator, as_design

_SHOWN_FAILURES = 3


class Campaign:
    """Runs of one simulator, kept in one file: made once, resumed after any interruption.

    Make one with `Campaign.create`, come back to it with `Campaign.open`.

    >>> import tempfile, owlfi
    >>> model = owlfi.models.g_and_k()
    >>> u = owlfi.equal_weights(owlfi.SquaredExponential(1.0), model.measure, [-1.0, 0.0, 1.0])
    >>> store = f"{tempfile.mkdtemp()}/runs.sqlite"
    >>> campaign = Campaign.create(store, model, [[3.0, 1.0, 0.1, 0.1]], u)
    >>> campaign.status().waiting
    3
    >>> campaign.run(executor="here").done
    3
    >>> campaign.results().y.shape
    (1, 3, 1)
    """

    def __init__(self, path: Path, recipe: str):
        self.path = path
        self.recipe = recipe
        self._lock = FileLock(f"{path}.lock")
        self._engine: Engine | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        simulator: Simulator | str,
        thetas: Any = None,
        quadrature: Quadrature | None = None,
    ) -> "Campaign":
        """A new campaign in a file that does not exist yet; nothing is run.

        simulator: its function must be importable by other processes; or an import path
            "module:name" of a Simulator or of a function that returns one.
        thetas, quadrature: the design, as in `simulate`; where left out, `plan` gives it later.

        Raises ValueError for a file that exists, a function of a script or notebook, and a design
        that does not fit the simulator.
        """
        recipe = as_recipe(simulator)
        design = None if thetas is None else _as_design(simulator, thetas, quadrature)
        planned = {} if design is None else design.facts()
        Store.create(Path(path), recipe=recipe, sources=sources(recipe), **planned)
        return cls(Path(path), recipe)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Campaign":
        """A campaign that exists.

        Raises ValueError where there is none.
        """
        store = Store.open(Path(path), read_only=True)
        try:
            return cls(Path(path), store.fact("recipe"))
        finally:
            store.close()

    def plan(self, thetas: Any, quadrature: Quadrature) -> None:
        """Give a campaign made without a design its design; runs made before belong to it, too.

        Raises ValueError where it has one, or this does not fit the simulator.
        """
        design = _as_design(self.original, thetas, quadrature)
        with self.driving() as store:
            if store.fact("design") is not None:
                raise ValueError(f"{self.path} has a design; make another campaign for another")
            with store.transaction():
                store.put(**design.facts())
                store.adopt(design.distinct())

    @cached_property
    def original(self) -> Simulator:
        """The simulator itself, which remembers nothing."""
        return as_simulator(decode(self.recipe))

    @cached_property
    def design(self) -> Design:
        """The thetas and the quadrature.

        Raises ValueError for a campaign that has none yet.
        """
        with self.reading() as store:
            text = store.fact("design")
        if text is None:
            raise ValueError(f"{self.path} has no design yet; give it with plan(thetas, ...)")
        return Design.read(text)

    def run(
        self,
        *,
        executor: Any = None,
        workers: int | None = None,
        time_limit: float | None = None,
        retries: int = 2,
        max_failures: float = 0.2,
        budget: int | None = None,
        check: bool = True,
        accept_changes: bool = False,
        report: Callable[[Progress], None] | None = None,
    ) -> Status:
        """Make all runs of the design that have not ended yet.

        executor: a pool of processes where left out; any concurrent.futures.Executor; a Dask
            client, or the address of its scheduler; "here" for this process.
        workers: the number of processes, one for each core where left out.
        time_limit: seconds after which a run is killed; for processes only. A Command has its own,
            which holds everywhere.
        retries: how often a run that took too long or died is made again.
        max_failures: the share of failed runs (and at least 10) above which the campaign stops.
        budget: the most runs to make now.
        check: make the first run twice, to see that y is determined by theta and u.
        accept_changes: go on although the simulator's source has changed.
        report: called with the progress after each commit.

        Raises ValueError before anything runs for wrong options, a changed source or a second
        driver; TooManyFailuresError with a summary. What has ended is kept whatever happens.
        """
        retries = as_count("retries", retries, 0)
        if not 0 <= max_failures <= 1:
            raise ValueError(f"max_failures must be a share from 0 to 1, got {max_failures!r}")
        with self.driving() as store:
            self._check_source(store, accept_changes)
            runs = self._pending(store, retries)
            runs = runs if budget is None else runs[: as_count("budget", budget, 0)]
            if runs:
                with self.started(executor=executor, workers=workers, time_limit=time_limit):
                    check = check and not store.fact("checked")
                    self._drive(store, runs, retries, max_failures, check, report)
        return self.status()

    @contextmanager
    def started(
        self,
        *,
        executor: Any = None,
        workers: int | None = None,
        time_limit: float | None = None,
    ) -> Iterator["Campaign"]:
        """Keep the workers for several calls of `run` and `simulator`; options as in `run`."""
        if self._engine is not None:
            yield self
            return
        workers = None if workers is None else as_count("workers", workers)
        with self.driving():
            self._engine = self._new_engine(executor, workers, time_limit)
            try:
                yield self
            finally:
                self._engine.stop()
                self._engine = None

    def _new_engine(self, executor: Any, workers: int | None, limit: float | None) -> Engine:
        if limit is not None and not limit > 0:
            raise ValueError(f"time_limit must be positive seconds, got {limit!r}")
        return as_engine(executor, self.recipe, workers, limit)

    def status(self) -> Status:
        """How far the campaign is, also while another process runs it."""
        with self.reading() as store:
            return read_status(store)

    def results(
        self, *, partial: bool = False, on_failure: str = "reject", kernel: Kernel | None = None
    ) -> Simulations:
        """What was simulated, in the order of the design.

        partial: before the end, take the leading thetas whose runs have all ended; others that
            happen to be ready stay out, as they would favour fast runs.
        on_failure, kernel: what to do about failed runs, see `without_failures`.

        Raises ValueError where runs are missing, or nothing is left.
        """
        with self.reading() as store:
            ended, outputs = store.ended(), store.outputs()
        runs, failed = assembled(self.design, ended, outputs, partial)
        measure = self.original.measure
        return without_failures(runs, failed, on_failure=on_failure, kernel=kernel, measure=measure)

    @property
    def simulator(self) -> Simulator:
        """The same simulator, but each (theta, u) is run once and remembered.

        Runs happen in this process, or on the workers of `started`. It works on the host, so
        methods that need gradients cannot use it.
        """
        of = self.original
        return Simulator(
            _Remembering(self),
            of.measure,
            of.parameters,
            prior=of.prior,
            theta=of.theta,
            on_host=True,
        )

    def rows(self, theta: Any, u: Any) -> np.ndarray:
        """y (m, d) at one theta and u (m, s), from the store where it is known.

        A run that failed, now or before, is a row of NaN; `failures` tells why.

        Raises ValueError where every run failed, so that d is not known.
        """
        inputs = [(as_bytes(theta), as_bytes(row)) for row in np.asarray(u)]
        runs = [Run(digest(*pair), None, *pair) for pair in inputs]
        with self.reading() as store:
            found = {run.digest: store.output(run.digest) for run in runs}
        missing = {run.digest: (run, 0) for run in runs if found[run.digest] is None}
        if missing:
            with self.driving() as store:
                self._check_source(store, False)
                here = nullcontext() if self._engine else self.started(executor=HERE)
                with here:
                    self._drive(store, list(missing.values()), 2, 1.0, False, None)
                found |= {name: store.output(name) for name in missing}
        with self.reading() as store:
            columns = store.fact("columns")
        return np.stack([_output(run, found[run.digest], columns) for run in runs])

    def pending(self) -> list[Run]:
        """The runs of the design that have not ended, in its order."""
        with self.reading() as store:
            return [run for run, attempts in self._pending(store, 0) if not attempts]

    def _pending(self, store: Store, retries: int) -> list[tuple[Run, int]]:
        """Runs that have not ended, or may be tried again, in the order of the design."""
        ended = store.ended()
        pending: dict[bytes, tuple[Run, int]] = {}
        for run in self.design.runs():
            end = ended.get(run.digest)
            if end is None:
                pending.setdefault(run.digest, (run, 0))
            elif end.state in RETRIED and end.attempts <= retries:
                pending.setdefault(run.digest, (run, end.attempts))
        return list(pending.values())

    def _drive(
        self,
        store: Store,
        runs: list[tuple[Run, int]],
        retries: int,
        share: float,
        check: bool,
        report: Callable[[Progress], None] | None,
    ) -> None:
        assert self._engine is not None
        driver = Driver(
            store, self._engine, self.recipe, retries, share, check, report, store.fact("columns")
        )
        store.put(driver=this_process(), running=0)
        try:
            driver.drive(runs)
        except TooManyFailuresError as error:
            raise TooManyFailuresError(f"{error}:\n{self.failures(_SHOWN_FAILURES)}") from None
        finally:
            store.put(driver=None, running=0)

    def failures(self, most: int | None = None) -> str:
        """The failed runs with their theta, u and error, one after the other."""
        with self.reading() as store:
            failed = store.failures(most)
        return "\n".join(self._described(*failure) for failure in failed)

    def _described(
        self, place: int | None, state: str, attempts: int, error: str, theta: Any, u: Any
    ) -> str:
        if place is not None:
            i, j = divmod(place, self.design.shape[1])
            points = np.asarray(self.design.quadrature.points)
            theta, u = self.design.thetas[i], (points[i] if points.ndim == 3 else points)[j]
        else:
            theta, u = np.frombuffer(theta), np.frombuffer(u)
        tries = "" if attempts == 1 else f" ({attempts} attempts)"
        return f"{state}{tries} at theta = {theta}, u = {u}: {error.strip()}"

    def _check_source(self, store: Store, accept: bool) -> None:
        now = sources(self.recipe)
        changed = changes(store.fact("sources"), now)
        if changed and not accept:
            raise ValueError(
                f"the simulator is not the one that {self.path} was made with; runs of both would "
                f"be mixed. accept_changes=True goes on all the same.\n{changed}"
            )
        if changed:
            store.put(sources=now, checked=False)

    @contextmanager
    def driving(self) -> Iterator[Store]:
        """The store to write to; refused while another process does."""
        try:
            with self._lock.acquire(blocking=False):
                store = Store.open(self.path)
                try:
                    yield store
                finally:
                    store.close()
        except Timeout:
            who = self.status().driver or "another process"
            raise ValueError(
                f"{self.path} is being run by {who}; wait for it or stop it. status() and "
                "results(partial=True) work meanwhile"
            ) from None

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """The store to read from."""
        store = Store.open(self.path, read_only=True)
        try:
            yield store
        finally:
            store.close()


@dataclass(frozen=True)
class _Remembering:
    """A generator that asks the campaign."""

    campaign: Campaign = field(repr=False)

    def __call__(self, theta: Any, u: Any) -> np.ndarray:
        return self.campaign.rows(np.asarray(theta), np.asarray(u))


def _as_design(simulator: Simulator | str, thetas: Any, quadrature: Any) -> Design:
    simulator = as_simulator(simulator)
    checked, _ = as_design(simulator, thetas, quadrature)
    return Design(np.asarray(checked), quadrature)


def _output(
    run: Run, found: tuple[str, bytes | None, str] | None, columns: int | None
) -> np.ndarray:
    assert found is not None
    state, y, error = found
    if y is None and columns is not None:
        return np.full(columns, np.nan)
    if y is None:
        raise ValueError(
            f"the simulator failed ({state}) at theta = {np.frombuffer(run.theta)}, "
            f"u = {np.frombuffer(run.u)}: {error}"
        )
    return np.frombuffer(y)
