"""The steps of a study: its campaign, its design, its inference; each goes on where it stopped."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from owlfi.campaign.assemble import runs_with_equal_weights
from owlfi.campaign.campaign import Campaign
from owlfi.cli.progress import show_progress
from owlfi.cli.study import Study, find_method, read_study
from owlfi.problem.problem import Problem


def open_study(path: Path) -> tuple[Study, Campaign]:
    """The study in a file, and its campaign."""
    study = read_study(path)
    return study, make_campaign(study)


def make_campaign(study: Study) -> Campaign:
    """The campaign of a study: opened where it exists, created where not.

    Raises ValueError where the store holds runs of another simulator.
    """
    try:
        study.output.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"output: {study.output} is a file; choose another folder") from None
    return Campaign.create(study.store, study.simulator, exist_ok=True)


def plan_study(study: Study, campaign: Campaign) -> None:
    """Draw thetas from the prior and choose points and weights, once; pilot runs are kept.

    Where there is a design, more thetas are added to it.

    Raises ValueError where the study has changed in another way since.
    """
    with campaign.reading() as store:
        before = store.fact("study") or study.plan
        planned = store.fact("design") is not None
    if planned:
        _replan_design(study, campaign, before)
        return
    key_thetas, key_points = jax.random.split(jax.random.key(study.seed))
    problem = make_problem(study, campaign)
    quadrature = study.rule.quadrature(key_points, problem)
    draw = problem.prior.sample if study.explore is None else problem.prior.starts
    with campaign.writing() as store:
        store.put(study=study.plan)
    campaign.plan(draw(key_thetas, study.thetas), quadrature)


def _replan_design(study: Study, campaign: Campaign, before: dict[str, Any]) -> None:
    _check_plan(study, before)
    more = study.plan.get("thetas", 0) - before.get("thetas", study.plan.get("thetas", 0))
    if more:
        key_thetas, _ = jax.random.split(jax.random.key(study.seed))
        key_more = jax.random.fold_in(key_thetas, study.thetas)
        thetas = np.asarray(make_problem(study, campaign).prior.sample(key_more, more))
        if not np.array_equal(campaign.design.thetas[-more:], thetas):  # a kill before the note
            campaign.extend(thetas)
    if before != study.plan:
        with campaign.writing() as store:
            store.put(study=before | study.plan)


def _check_plan(study: Study, before: dict[str, Any]) -> None:
    for key, now in study.plan.items():
        was = before.get(key, now)
        if now != was and not (key == "thetas" and now > was):
            raise ValueError(
                f"{key} is {now!r} now, but {study.store} was planned with {was!r}; choose another "
                f"output for another design, or set {key} back"
            )


def run_study_design(study: Study, campaign: Campaign, *, retry_failed: bool) -> None:
    """Make the runs of the design of a study, and of thetas that it proposes.

    Raises ValueError for a study that has changed, data that do not fit y, and what
    `Campaign.run` refuses.
    """
    plan_study(study, campaign)
    check_data_columns(study, campaign)
    options = {"budget": study.budget, "retry_failed": retry_failed, **study.run}
    if study.explore is None:
        show_progress(campaign, campaign.run, **options)
    else:
        explore = partial(campaign.explore, _explore_key(study), make_problem(study, campaign))
        show_progress(campaign, explore, **study.explore, **options)


def propose_for_study(study: Study, campaign: Campaign, count: int) -> None:
    """Add thetas to the campaign of a study, the same however often it is interrupted."""
    options = {name: value for name, value in (study.explore or {}).items() if name != "batch"}
    key = jax.random.fold_in(_explore_key(study), len(campaign.design.thetas))
    campaign.propose(key, make_problem(study, campaign), count, **options)


def _explore_key(study: Study) -> Any:
    return jax.random.fold_in(jax.random.key(study.seed), 2)


def make_problem(study: Study, campaign: Campaign) -> Problem:
    """The problem of a study, with a simulator that remembers its runs."""
    return Problem(campaign.simulator, study.observed)


def check_data_columns(study: Study, campaign: Campaign) -> None:
    """Make the first run of the design, and compare what it gives with the data.

    Raises ValueError where y has another number of columns.
    """
    if study.method == "none":
        return
    if _count_columns(campaign) is None:
        campaign.run(budget=1)
    known = _count_columns(campaign)
    d = study.observed.shape[1]
    if known not in (None, d):
        raise ValueError(
            f"data has {d} columns where y has {known}; give the columns of the data that y has, "
            "or let the simulator return as many"
        )


def _count_columns(campaign: Campaign) -> int | None:
    with campaign.reading() as store:
        return store.fact("columns")


def infer(study: Study, campaign: Campaign) -> Any:
    """The result of the method; None for method "none"."""
    if study.method == "none":
        return None
    method = find_method(study.method)
    problem = make_problem(study, campaign)
    if study.method == "abc":
        runs = campaign.results(partial=study.explore is not None)  # the budget may end inside
        return method(problem, runs, **study.options)
    key = jax.random.fold_in(jax.random.key(study.seed), 1)
    return method(key, problem, study.rule, **study.options)


def describe_saving(study: Study, campaign: Campaign) -> str:
    """The simulation time that weights saved; empty where they have no certificate."""
    certificate = study.thetas and getattr(campaign.design.quadrature, "certificate", None)
    if not certificate:
        return ""
    runs = campaign.results(partial=study.explore is not None)
    kernel, excess = make_problem(study, campaign).data_kernel, float(certificate.excess.mean())
    needed = runs_with_equal_weights(kernel, runs, excess)
    hours = max(0.0, needed - runs.calls) * campaign.status().mean_seconds / 3600
    return f"Equal weights would need about {needed:,.0f} runs: {hours:,.3g} hours saved."
