"""Making the runs of a campaign, on workers that may be kept for several calls."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from owlfi._tools.checks import as_truth
from owlfi.campaign.archive import Archive, Status, describe_process
from owlfi.campaign.driver import Driver, Policy, Progress, TooManyFailuresError, deadline
from owlfi.campaign.engines import HERE, Engine, make_engine
from owlfi.campaign.outcome import Outcome
from owlfi.campaign.recipe import check_source
from owlfi.campaign.store import Run, Store, as_bytes, digest
from owlfi.campaign.trust import describe_code, sign
from owlfi.problem.simulator import Simulator

_SHOWN_FAILURES = 3
_LOG = logging.getLogger(__name__)


class Runner(Archive):
    """An archive that makes its runs."""

    _engine: Engine | None = None

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
        trust: bool = False,
        retry_failed: bool = False,
        report: Callable[[Progress], None] | None = None,
    ) -> Status:
        """Make all runs of the design that have not ended yet.

        executor: a pool of processes where left out; any concurrent.futures.Executor; a Dask
            client, or the address of its scheduler; "here" for this process.
        workers: the number of processes, or how many runs a given executor makes at once; one for
            each core where left out, or as many as a Dask client tells.
        time_limit: seconds after which a run is killed; for processes only. A Command has its own,
            which holds everywhere.
        retries: how often a run that took too long or died is made again.
        max_failures: the share of failed runs (and at least 10) above which the campaign stops.
        budget: the most runs to make now, retries included; the check is one more.
        seconds: begin no run after so many.
        check: make the first run twice, to see that y is determined by theta and u.
        accept_changes: go on although the simulator's source has changed.
        trust: import or execute the simulator that the store names although it was not made on
            this account; remembered in the store.
        retry_failed: also make those again that failed before, of whatever kind.
        report: called with the progress after each commit.

        Raises ValueError before anything runs for wrong options, a changed source, a stranger's
        simulator or a second driver; TooManyFailuresError with a summary. What has ended is kept
        whatever happens.
        """
        policy = Policy(retries, max_failures, check, budget, deadline(seconds), report)
        with self.writing() as store:
            self._check_code(store, accept_changes=accept_changes, trust=trust)
            if as_truth("retry_failed", retry_failed):
                store.forget_failures()
            runs = self.design.pending(store.endings(), retries=retries)
            if runs and budget != 0:
                with self.keep_workers(executor=executor, workers=workers, time_limit=time_limit):
                    self._drive(store, runs, policy)
        return self.status()

    def run_these(self, runs: list[Run]) -> None:
        """Make some runs, here or on the workers that are kept; failures do not stop them.

        The first run of a campaign is made twice, to see that y is determined by theta and u.

        Raises ValueError where the simulator's source has changed; NotRepeatableError.
        """
        with self.writing() as store:
            self._check_code(store)
            with self.keep_workers(executor=HERE):
                policy = Policy(max_failures=1.0)
                self._drive(store, [(run, 0) for run in runs], policy)

    def _check_code(
        self, store: Store, *, accept_changes: bool = False, trust: bool = False
    ) -> None:
        """Before anything of the simulator is imported; says what will be."""
        self._trust |= as_truth("trust", trust)
        self.check_trust()
        stranger = store.fact("signature") != sign(self.recipe)
        _LOG.info("%s: %s", self.path, describe_code(self.recipe))
        check_source(
            store, self.recipe, accept=as_truth("accept_changes", accept_changes) or stranger
        )
        if stranger:
            store.put(signature=sign(self.recipe))

    @contextmanager
    def keep_workers(
        self, *, executor: Any = None, workers: int | None = None, time_limit: float | None = None
    ) -> Iterator["Runner"]:
        """Keep the workers for several calls of `run` and `simulator`; options as in `run`.

        Raises ValueError for wrong options, and while another process runs the campaign.
        """
        if self._engine is not None:
            yield self
            return
        self.check_trust()
        with self.writing():
            self._engine = make_engine(self.recipe, executor, workers, time_limit)
            try:
                yield self
            finally:
                self._engine.stop()
                self._engine = None

    def _drive(self, store: Store, runs: list[tuple[Run, int]], policy: Policy) -> None:
        assert self._engine is not None
        driver = Driver(store, self._engine, self.recipe, policy)
        store.put(driver=describe_process(), running=0)
        try:
            driver.drive(runs)
        except TooManyFailuresError as error:
            shown = self.failures(_SHOWN_FAILURES)
            raise TooManyFailuresError(f"{error}:\n{shown}") from None
        finally:
            store.put(driver=None, running=0)

    @property
    def simulator(self) -> Simulator:
        """The same simulator, but each (theta, u) is run once and remembered.

        Runs happen in this process, or on the workers of `keep_workers`. It works on the host, so
        methods that need gradients cannot use it. A run that failed, now or before, is a row of
        NaN, and `failures` tells why; ValueError where all failed, so that d is not known.
        """
        return self.original.replace(generator=self._remember, on_host=True)

    def _remember(self, theta: Any, u: Any) -> np.ndarray:
        """y (m, d) at one theta and u (m, s), from the store where it is known."""
        inputs = [(as_bytes(theta), as_bytes(row)) for row in np.asarray(u)]
        runs = [Run(digest(*pair), None, *pair) for pair in inputs]
        with self.reading() as store:
            found = {run.digest: store.outcome(run.digest) for run in runs}
        missing = {run.digest: run for run in runs if found[run.digest] is None}
        if missing:
            self.run_these(list(missing.values()))
        with self.reading() as store:
            found |= {name: store.outcome(name) for name in missing}
            columns = store.fact("columns")
        return np.stack([_read_y(run, found[run.digest], columns) for run in runs])


def _read_y(run: Run, outcome: Outcome | None, columns: int | None) -> np.ndarray:
    assert outcome is not None
    if outcome.y is not None:
        return np.frombuffer(outcome.y)
    if columns is None:
        raise ValueError(
            f"the simulator failed ({outcome.state}) at theta = {np.frombuffer(run.theta)}, "
            f"u = {np.frombuffer(run.u)}: {outcome.error}; mend it, or narrow the prior"
        )
    return np.full(columns, np.nan)
