"""Making the runs of a campaign, on workers that may be kept for several calls."""

from collections.abc import Iterator
from contextlib import contextmanager

from owlfi.campaign.archive import Archive
from owlfi.campaign.driver import Driver, Policy, TooManyFailuresError
from owlfi.campaign.engines import HERE, Engine, EngineOptions, make_engine
from owlfi.campaign.identity import check_source
from owlfi.campaign.status import describe_process
from owlfi.campaign.store import Run, Store

_SHOWN_FAILURES = 3


class Runner:
    """Makes runs of an archive and keeps their results in it."""

    def __init__(self, archive: Archive):
        self.archive = archive
        self._engine: Engine | None = None

    @contextmanager
    def keep_workers(self, options: EngineOptions) -> Iterator[None]:
        """Keep the workers for all that is run inside; those that are kept already stay.

        Raises ValueError for wrong options and while another process runs the campaign.
        """
        if self._engine is not None:
            yield
            return
        with self.archive.writing():
            self._engine = make_engine(self.archive.recipe, options)
            try:
                yield
            finally:
                self._engine.stop()
                self._engine = None

    def run_design(
        self,
        options: EngineOptions,
        policy: Policy,
        *,
        accept_changes: bool = False,
        retry_failed: bool = False,
    ) -> None:
        """Make the runs of the design that have not ended.

        accept_changes: go on although the simulator's source has changed.
        retry_failed: also make those again that failed, of whatever kind.

        Raises ValueError before anything runs, TooManyFailuresError and NotRepeatableError.
        """
        with self.archive.writing() as store:
            check_source(store, self.archive.recipe, accept=accept_changes)
            if retry_failed:
                store.forget_failures()
            runs = self.archive.design.pending(store.endings(), retries=policy.retries)
            if runs and policy.limits.runs:
                with self.keep_workers(options):
                    self._drive(store, runs, policy)

    def run_these(self, runs: list[Run]) -> None:
        """Make some runs, here or on the workers that are kept; failures do not stop them.

        Raises ValueError where the simulator's source has changed.
        """
        policy = Policy(max_failures=1.0, check=False)
        with self.archive.writing() as store:
            check_source(store, self.archive.recipe, accept=False)
            with self.keep_workers(EngineOptions(HERE)):
                self._drive(store, [(run, 0) for run in runs], policy)

    def _drive(self, store: Store, runs: list[tuple[Run, int]], policy: Policy) -> None:
        assert self._engine is not None
        driver = Driver(store, self._engine, self.archive.recipe, policy)
        store.put(driver=describe_process(), running=0)
        try:
            driver.drive(runs)
        except TooManyFailuresError as error:
            shown = self.archive.describe_failures(_SHOWN_FAILURES)
            raise TooManyFailuresError(f"{error}:\n{shown}") from None
        finally:
            store.put(driver=None, running=0)
