"""A campaign: a simulator, a design and a store; every run is made once and never lost."""

import math
import os
import time
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, as_path, as_truth
from owlfi._tools.keys import as_key, split_key
from owlfi.campaign.archive import Status, outline_facts
from owlfi.campaign.assemble import assemble_runs, weigh_runs
from owlfi.campaign.database import StoreExistsError
from owlfi.campaign.design import Design
from owlfi.campaign.driver import MOST_CALLS, deadline
from owlfi.campaign.growing import check_prior, extend_design, read_rounds, typical_seconds
from owlfi.campaign.recipe import as_recipe, load_simulator, read_sources
from owlfi.campaign.running import Runner
from owlfi.campaign.store import Store
from owlfi.campaign.trust import sign
from owlfi.inference.proposals.proposal import SAFETY, SHARE, check_settings, next_proposal
from owlfi.kernels import Kernel
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations
from owlfi.problem.simulator import Simulator
from owlfi.problem.without_failures import check_way, without_failures
from owlfi.results.health import issue
from owlfi.weights.quadrature import Quadrature


class Campaign(Runner):
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
        exist_ok = as_truth("exist_ok", exist_ok)
        recipe, loaded = as_recipe(simulator), load_simulator(simulator)
        design = (
            None
            if thetas is None and quadrature is None
            else Design.fit(loaded, thetas, quadrature)
        )
        facts = outline_facts(loaded) | ({} if design is None else design.facts())
        facts |= {"recipe": recipe, "sources": read_sources(recipe), "signature": sign(recipe)}
        try:
            Store.create(as_path("path", path), **facts)
        except StoreExistsError:
            if not exist_ok:
                raise
        campaign = cls.open(path, trust=True)  # of what the caller has named
        campaign._check_same(recipe, design)
        return campaign

    def _check_same(self, recipe: str, design: Design | None) -> None:
        """ValueError where it has another simulator, or a design that did not begin as this."""
        if recipe != self.recipe:
            raise ValueError(f"{self.path} holds runs of another simulator; choose another file")
        difference = "" if design is None else self.design.describe_difference(design)
        if difference:
            raise ValueError(
                f"{self.path} has a design with {difference}; choose another file, or open this "
                "one with Campaign.open and add to it with extend"
            )

    def plan(self, thetas: Any, quadrature: Quadrature) -> None:
        """Give a campaign made without a design its design; runs made before belong to it, too.

        Raises ValueError where it has one, or this does not fit the simulator.
        """
        design = Design.fit(self.outline, thetas, quadrature)
        with self.writing() as store:
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
        extend_design(self, thetas, quadrature)

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
        count, costs = as_count("count", count), as_truth("costs", costs)
        proposal_key, draw_key = split_key(key)
        check_prior(self, problem)
        with self.reading() as store:
            endings, outputs = store.endings(), store.outputs()
            rounds = read_rounds(store.fact("rounds"), self.design)
        if not any(run.digest in endings for run in self.design.distinct()):
            raise ValueError(f"{self.path} has no runs to learn from yet; make some with run()")
        runs, _ = assemble_runs(self.design, endings, outputs, partial=True)
        runs = runs if self.original.summaries else problem.summarise(runs)
        proposal = next_proposal(
            proposal_key,
            problem,
            runs,
            seconds=typical_seconds(self.design, len(runs.thetas), endings) if costs else None,
            share=share,
            safety=safety,
            before=rounds[-1][1],
        )
        thetas = problem.prior.from_uniform(proposal.draw(draw_key, count))
        extend_design(self, thetas, quadrature, proposal=proposal)
        return thetas

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
        batch, budget = as_count("batch", batch), as_count("budget", budget, most=MOST_CALLS)
        for name, value in (("costs", costs), ("check", check), ("retry_failed", retry_failed)):
            as_truth(name, value)
        check_prior(self, problem)
        check_settings(problem, share, safety)
        key, until = as_key(key), deadline(seconds)
        self._trust |= as_truth("trust", options.pop("trust", False))
        kept = {name: options.pop(name, None) for name in ("executor", "workers", "time_limit")}
        with self.keep_workers(**kept):
            while True:
                status = self.run(
                    budget=self._affordable_runs(budget, check=check),
                    seconds=None if until == math.inf else max(0.0, until - time.monotonic()),
                    check=check,
                    retry_failed=retry_failed,
                    **options,
                )
                retry_failed = False
                count = min(batch, (budget - status.calls) // self.design.shape[1])
                if status.waiting or count < 1 or time.monotonic() >= until:
                    return status
                round_key = jax.random.fold_in(key, len(self.design.thetas))  # also after a kill
                self.propose(round_key, problem, count, share=share, safety=safety, costs=costs)

    def _affordable_runs(self, budget: int, *, check: bool) -> int:
        """Runs within a budget of calls, one less where the first is yet to be checked."""
        with self.reading() as store:
            checking = check and not store.fact("checked")
            return max(0, budget - store.calls() - int(checking))

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
        check_way(on_failure)
        with self.reading() as store:
            endings, outputs = store.endings(), store.outputs()
            rounds = store.fact("rounds")
        runs, failed = assemble_runs(
            self.design, endings, outputs, partial=as_truth("partial", partial)
        )
        rejected = np.logical_and(failed.any(1), on_failure == "reject")
        usable = without_failures(
            weigh_runs(self.outline.prior, runs, rounds, rejected=rejected),
            failed,
            on_failure=on_failure,
            base_kernel=base_kernel,
            measure=self.outline.measure,
        )
        issue(usable.warnings if on_failure == "reweight" else ())
        return usable
