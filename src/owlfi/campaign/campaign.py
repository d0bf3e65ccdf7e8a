"""A campaign: a simulator, a design and a store; every run is made once and never lost."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, plain_number
from owlfi.campaign.assembly import assembled
from owlfi.campaign.design import Design, described
from owlfi.campaign.driver import Driver, Limits, Progress, TooManyFailuresError
from owlfi.campaign.encoding import decode
from owlfi.campaign.engines import HERE, Engine, as_engine
from owlfi.campaign.exploring import explored, extended, proposed, with_importance
from owlfi.campaign.identity import check_same, check_source
from owlfi.campaign.outcome import RETRIED
from owlfi.campaign.recipe import as_recipe, as_simulator, sources
from owlfi.campaign.remembering import Remembering
from owlfi.campaign.status import Status, read_status, this_process
from owlfi.campaign.store import Run, Store
from owlfi.inference.proposals.proposal import SAFETY, SHARE
from owlfi.kernels import Kernel
from owlfi.problem.failures import without_failures
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations, as_design
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature

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
        *,
        exist_ok: bool = False,
    ) -> "Campaign":
        """A new campaign in a file that does not exist yet; nothing is run.

        simulator: its function must be importable by other processes; or an import path
            "module:name" of a Simulator or of a function that returns one.
        thetas, quadrature: the design, as in `simulate`; where left out, `plan` gives it later.
        exist_ok: come back to a campaign that was made with the same simulator and design, which
            may have been extended since.

        Raises ValueError for a file that exists, or holds another campaign, a function of a script
        or notebook, and a design that does not fit the simulator.
        """
        recipe = as_recipe(simulator)
        design = None if thetas is None else _as_design(simulator, thetas, quadrature)
        if exist_ok and Path(path).exists():
            campaign = cls.open(path)
            check_same(campaign, recipe, design)
            return campaign
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

    def extend(self, thetas: Any = None, quadrature: Quadrature | None = None) -> None:
        """Add thetas (t, p) to the design, or points u; what was run before still counts.

        thetas: drawn from the prior where an inference is to follow; `propose` chooses others.
        quadrature: for all thetas, with weights for the points there are and for new ones; where
            each theta has points of its own, only those of the new thetas, (t, m, s).

        Raises ValueError where there is no design, or points of it are left out.
        """
        extended(self, thetas, quadrature)

    def propose(
        self,
        key: Key[Array, ""],
        problem: Problem,
        count: int,
        *,
        share: float = SHARE,
        safety: float = SAFETY,
        costs: bool = True,
        quadrature: Quadrature | None = None,
    ) -> Float[Array, "count p"]:
        """Add the next thetas to the design: where the posterior is uncertain, and runs are quick.

        key: the same key gives the same thetas, as far as results and run times are the same.
        problem: whose posterior it is; `results` then has importance weights, which ABC uses.
        count: how many; run them with `run`.
        share, safety: see `next_proposal`.
        costs: whether to prefer thetas that run quickly, where times differ twofold or more.
        quadrature: of the new thetas, as in `extend`.

        Raises ValueError for a problem with another prior than the campaign's simulator, discrete
        parameters, and fewer than 4 thetas that are complete.
        """
        return proposed(self, key, problem, count, share, safety, costs, quadrature)

    def explore(
        self,
        key: Key[Array, ""],
        problem: Problem,
        *,
        budget: int,
        batch: int = 20,
        share: float = SHARE,
        safety: float = SAFETY,
        costs: bool = True,
        seconds: float | None = None,
        **options: Any,
    ) -> Status:
        """Run the design, then propose and run more thetas until the budget is spent.

        budget: the most calls of the simulator in all, those of earlier calls, retries and the
            check included; the design it begins with should take a part of it.
        batch: how many thetas are proposed at a time.
        seconds: begin no run after so many.
        share, safety, costs: see `propose`; options: as in `run`.

        Stop it or kill it at any moment: the same call goes on, to the same design.
        """
        return explored(self, key, problem, budget, batch, share, safety, costs, seconds, options)

    @cached_property
    def original(self) -> Simulator:
        """The simulator itself, which remembers nothing."""
        return as_simulator(decode(self.recipe))

    @cached_property
    def design(self) -> Design:
        """The thetas and the quadrature; ValueError where there is none yet."""
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
        seconds: float | None = None,
        check: bool = True,
        accept_changes: bool = False,
        retry_failed: bool = False,
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
        budget: the most runs to make now, retries included; the check is one more.
        seconds: begin no run after so many.
        check: make the first run twice, to see that y is determined by theta and u.
        accept_changes: go on although the simulator's source has changed.
        retry_failed: also make those again that failed before, of whatever kind.
        report: called with the progress after each commit.

        Raises ValueError before anything runs for wrong options, a changed source or a second
        driver; TooManyFailuresError with a summary. What has ended is kept whatever happens.
        """
        retries = as_count("retries", retries, 0)
        if not 0 <= plain_number("max_failures", max_failures) <= 1:
            raise ValueError(f"max_failures must be a share from 0 to 1, got {max_failures!r}")
        limits = Limits.of(budget, seconds)
        with self.driving() as store:
            check_source(store, self.recipe, accept_changes)
            if retry_failed:
                store.forget_failures()
            runs = self._pending(store, retries)
            if runs and limits.runs:
                with self.started(executor=executor, workers=workers, time_limit=time_limit):
                    check = check and not store.fact("checked")
                    self._drive(store, runs, retries, max_failures, check, report, limits)
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
            self._engine = as_engine(executor, self.recipe, workers, time_limit)
            try:
                yield self
            finally:
                self._engine.stop()
                self._engine = None

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
            rounds = store.fact("rounds")
        runs, failed = assembled(self.design, ended, outputs, partial)
        weighted = with_importance(self, runs, failed, rounds, on_failure)
        noise = self.original.measure
        return without_failures(
            weighted, failed, on_failure=on_failure, base_kernel=kernel, measure=noise
        )

    def forget_design(self) -> None:
        """Read the design from the store when it is next needed."""
        self.__dict__.pop("design", None)

    @property
    def simulator(self) -> Simulator:
        """The same simulator, but each (theta, u) is run once and remembered.

        Runs happen in this process, or on the workers of `started`. It works on the host, so
        methods that need gradients cannot use it.
        """
        of = self.original
        return Simulator(
            Remembering(self),
            of.measure,
            of.parameters,
            prior=of.prior,
            theta=of.theta,
            on_host=True,
        )

    def drive(self, runs: list[Run]) -> None:
        """Make these runs, here or on the workers of `started`."""
        with self.driving() as store:
            check_source(store, self.recipe, False)
            with nullcontext() if self._engine else self.started(executor=HERE):
                self._drive(store, [(run, 0) for run in runs], 2, 1.0, False, None, Limits())

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
        limits: Limits,
    ) -> None:
        assert self._engine is not None
        options = retries, share, check, report, limits, store.fact("columns")
        driver = Driver(store, self._engine, self.recipe, *options)
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
            planned = store.fact("design") is not None
        design = self.design if planned else None
        return "\n".join(described(design, *failure) for failure in failed)

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


def _as_design(simulator: Simulator | str, thetas: Any, quadrature: Any) -> Design:
    simulator = as_simulator(simulator)
    checked, _ = as_design(simulator, thetas, quadrature)
    return Design(np.asarray(checked), quadrature)
