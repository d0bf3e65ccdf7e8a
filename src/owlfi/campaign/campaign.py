"""A campaign: a simulator, a design and a store; every run is made once and never lost."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.campaign.archive import Archive
from owlfi.campaign.assembly import assemble_runs
from owlfi.campaign.design import Design
from owlfi.campaign.driver import Limits, Policy, Progress
from owlfi.campaign.engines import EngineOptions
from owlfi.campaign.exploring import Exploration, explore_design
from owlfi.campaign.extending import extend_design
from owlfi.campaign.identity import check_same
from owlfi.campaign.proposing import ProposalOptions, check_prior, propose_thetas
from owlfi.campaign.recipe import as_recipe, load_simulator, read_sources
from owlfi.campaign.remembering import Remembering
from owlfi.campaign.rounds import weigh_runs
from owlfi.campaign.running import Runner
from owlfi.campaign.status import Status, read_status
from owlfi.campaign.store import Store
from owlfi.inference.proposals.proposal import SAFETY, SHARE
from owlfi.kernels import Kernel
from owlfi.problem.failed_runs import without_failures
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations, as_design
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature


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

    def __init__(self, archive: Archive):
        self.archive = archive
        self._runner = Runner(archive)

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
        design = None if thetas is None else _check_design(simulator, thetas, quadrature)
        if exist_ok and Path(path).exists():
            archive = Archive.open(path)
            check_same(archive, recipe, design)
            return cls(archive)
        facts = {} if design is None else design.facts()
        Store.create(Path(path), recipe=recipe, sources=read_sources(recipe), **facts)
        return cls(Archive(Path(path), recipe))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Campaign":
        """A campaign that exists.

        Raises ValueError where there is none.
        """
        return cls(Archive.open(path))

    @property
    def path(self) -> Path:
        """The file of the campaign."""
        return self.archive.path

    @property
    def recipe(self) -> str:
        """The simulator, as text that every worker understands."""
        return self.archive.recipe

    @property
    def original(self) -> Simulator:
        """The simulator itself, which remembers nothing."""
        return self.archive.original

    @property
    def design(self) -> Design:
        """The thetas and the quadrature; ValueError where there is none yet."""
        return self.archive.design

    def plan(self, thetas: Any, quadrature: Quadrature) -> None:
        """Give a campaign made without a design its design; runs made before belong to it, too.

        Raises ValueError where it has one, or this does not fit the simulator.
        """
        design = _check_design(self.original, thetas, quadrature)
        with self.archive.writing() as store:
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
        extend_design(self.archive, thetas, quadrature)

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
        options = ProposalOptions(share, safety, costs)
        return propose_thetas(
            self.archive, key, problem, count, options=options, quadrature=quadrature
        )

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
        check: bool = True,
        retry_failed: bool = False,
        **options: Any,
    ) -> Status:
        """Run the design, then propose and run more thetas until the budget is spent.

        budget: the most calls of the simulator in all, those of earlier calls, retries and the
            check included; the design it begins with should take a part of it.
        batch: how many thetas are proposed at a time.
        seconds: begin no run after so many.
        share, safety, costs: see `propose`.
        check, retry_failed, options: as in `run`; failed runs are made again once.

        Stop it or kill it at any moment: the same call goes on, to the same design.

        Raises ValueError as `run` and `propose` do, TooManyFailuresError and NotRepeatableError.
        """
        proposals = ProposalOptions(share, safety, costs)
        plan = Exploration(budget, batch, seconds, check, retry_failed, proposals)
        check_prior(self.archive, problem)
        engine = EngineOptions(*(options.pop(name, None) for name in EngineOptions._fields))
        run = partial(self.run, check=check, **options)
        with self._runner.keep_workers(engine):
            return explore_design(self.archive, run, key, problem, plan)

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
        retry_failed: also make those again that failed before, of whatever kind.
        report: called with the progress after each commit.

        Raises ValueError before anything runs for wrong options, a changed source or a second
        driver; TooManyFailuresError with a summary. What has ended is kept whatever happens.
        """
        limits = Limits.from_now(budget=budget, seconds=seconds)
        self._runner.run_design(
            EngineOptions(executor, workers, time_limit),
            Policy(retries, max_failures, check, limits, report),
            accept_changes=accept_changes,
            retry_failed=retry_failed,
        )
        return self.status()

    @contextmanager
    def keep_workers(
        self,
        *,
        executor: Any = None,
        workers: int | None = None,
        time_limit: float | None = None,
    ) -> Iterator["Campaign"]:
        """Keep the workers for several calls of `run` and `simulator`; options as in `run`.

        Raises ValueError for wrong options, and while another process runs the campaign.
        """
        with self._runner.keep_workers(EngineOptions(executor, workers, time_limit)):
            yield self

    def status(self) -> Status:
        """How far the campaign is, also while another process runs it."""
        with self.archive.reading() as store:
            return read_status(store)

    def results(
        self,
        *,
        partial: bool = False,
        on_failure: str = "reject",
        base_kernel: Kernel | None = None,
    ) -> Simulations:
        """What was simulated, in the order of the design.

        partial: before the end, take the leading thetas whose runs have all ended; others that
            happen to be ready stay out, as they would favour fast runs.
        on_failure, base_kernel: what to do about failed runs, see `without_failures`.

        Raises ValueError where runs are missing, or nothing is left.
        """
        with self.archive.reading() as store:
            endings, outputs = store.endings(), store.outputs()
            rounds = store.fact("rounds")
        runs, failed = assemble_runs(self.design, endings, outputs, partial=partial)
        rejected = np.logical_and(failed.any(1), on_failure == "reject")
        return without_failures(
            weigh_runs(self.original.prior, runs, rounds, rejected=rejected),
            failed,
            on_failure=on_failure,
            base_kernel=base_kernel,
            measure=self.original.measure,
        )

    @property
    def simulator(self) -> Simulator:
        """The same simulator, but each (theta, u) is run once and remembered.

        Runs happen in this process, or on the workers of `keep_workers`. It works on the host, so
        methods that need gradients cannot use it.
        """
        of = self.original
        return Simulator(
            Remembering(self.archive, self._runner),
            of.measure,
            of.parameters,
            prior=of.prior,
            theta=of.theta,
            on_host=True,
        )

    def failures(self, most: int | None = None) -> str:
        """The failed runs with their theta, u and error, one after the other.

        most: how many to describe, all where left out.
        """
        return self.archive.describe_failures(most)


def _check_design(simulator: Simulator | str, thetas: Any, quadrature: Any) -> Design:
    """The design, with thetas (t, p); ValueError where it does not fit the simulator."""
    checked, _ = as_design(load_simulator(simulator), thetas, quadrature)
    return Design(np.asarray(checked), quadrature)
