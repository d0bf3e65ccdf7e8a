"""The steps of a study: its campaign, its design, its inference; each goes on where it stopped."""

from typing import Any

import jax
import numpy as np

from owlfi.campaign import Campaign
from owlfi.campaign.recipe import as_recipe
from owlfi.cli.study import Study, method_called
from owlfi.problem.problem import Problem


def make_campaign(study: Study) -> Campaign:
    """The campaign of a study: opened where it exists, created where not.

    Raises ValueError where the store holds runs of another simulator.
    """
    if not study.store.exists():
        study.output.mkdir(parents=True, exist_ok=True)
        return Campaign.create(study.store, study.simulator)
    campaign = Campaign.open(study.store)
    if campaign.recipe != as_recipe(study.simulator):
        raise ValueError(f"{study.store} holds runs of another simulator; choose another output")
    return campaign


def plan_study(study: Study, campaign: Campaign) -> None:
    """Draw thetas from the prior and choose points and weights, once; pilot runs are kept.

    Where there is a design, more thetas are added to it.

    Raises ValueError where the study has changed in another way since.
    """
    with campaign.reading() as store:
        before = store.fact("study") or study.plan
        planned = store.fact("design") is not None
    key_thetas, key_points = jax.random.split(jax.random.key(study.seed))
    problem = problem_of(study, campaign)
    if planned:
        _check_plan(study, before)
        more = study.plan.get("thetas", 0) - before.get("thetas", study.plan.get("thetas", 0))
        key_more = jax.random.fold_in(key_thetas, study.thetas)
        if more:
            _add_once(campaign, np.asarray(problem.prior.sample(key_more, more)))
    else:
        quadrature = study.rule.quadrature(key_points, problem)
        draw = problem.prior.sample if study.explore is None else problem.prior.starts
        with campaign.driving() as store:
            store.put(study=study.plan)
        campaign.plan(draw(key_thetas, study.thetas), quadrature)
    if planned and before != study.plan:
        with campaign.driving() as store:
            store.put(study=before | study.plan)


def _check_plan(study: Study, before: dict[str, Any]) -> None:
    for key, now in study.plan.items():
        was = before.get(key, now)
        if now != was and not (key == "thetas" and now > was):
            raise ValueError(
                f"{key} is {now!r} now, but {study.store} was planned with {was!r}; choose another "
                f"output for another design, or set {key} back"
            )


def _add_once(campaign: Campaign, thetas: np.ndarray) -> None:
    """Extend the design, unless a kill came between this and the note that it was done."""
    if not np.array_equal(campaign.design.thetas[-len(thetas) :], thetas):
        campaign.extend(thetas)


def explore_key(study: Study) -> Any:
    """The key of the proposals of a study."""
    return jax.random.fold_in(jax.random.key(study.seed), 2)


def propose(study: Study, campaign: Campaign, count: int) -> int:
    """Add thetas to the campaign of a study, the same however often it is interrupted."""
    options = {name: (study.explore or {})[name] for name in study.explore or {} if name != "batch"}
    key = jax.random.fold_in(explore_key(study), len(campaign.design.thetas))
    return len(campaign.propose(key, problem_of(study, campaign), count, **options))


def problem_of(study: Study, campaign: Campaign) -> Problem:
    """The problem of a study, with a simulator that remembers its runs."""
    return Problem(campaign.simulator, study.observed)


def check_columns(study: Study, campaign: Campaign) -> None:
    """Make the first run of the design, and compare what it gives with the data.

    Raises ValueError where y has another number of columns.
    """
    if study.method == "none":
        return
    with campaign.reading() as store:
        known = store.fact("columns")
    if known is None:
        campaign.run(budget=1)
        with campaign.reading() as store:
            known = store.fact("columns")
    d = study.observed.shape[1]
    if known not in (None, d):
        raise ValueError(
            f"data has {d} columns where y has {known}; give the columns of the data that y has, "
            "or let the simulator return as many"
        )


def infer(study: Study, campaign: Campaign) -> Any:
    """The result of the method; None for method "none"."""
    if study.method == "none":
        return None
    method = method_called(study.method)
    problem = problem_of(study, campaign)
    if study.method == "abc":
        runs = campaign.results(partial=study.explore is not None)  # the budget may end inside
        return method(problem, runs, **study.options)
    key = jax.random.fold_in(jax.random.key(study.seed), 1)
    return method(key, problem, study.rule, **study.options)
