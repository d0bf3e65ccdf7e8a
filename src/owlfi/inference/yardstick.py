"""By what ABC measures how far simulations are from the data."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi.inference.acceptance import EXPLAINED, explained_distance
from owlfi.inference.adjustment.adjust import Sight
from owlfi.inference.adjustment.features import choose_features
from owlfi.inference.efficient.distance import distance_from
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import find_minimum
from owlfi.inference.prior_runs import measure_distances
from owlfi.inference.refined_fit import refine_fit
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import Simulations
from owlfi.problem.spending import Expected
from owlfi.weights.quadrature import Quadrature

_STRETCHES = (1.0, 2.0, 4.0, 8.0)  # wide kernels see farther and straighter, narrow ones more


class Yardstick(NamedTuple):
    """How far runs are, which distances a true model explains, and the ways to look closer."""

    measure: Callable[[Simulations], Float[np.ndarray, " t"]]
    explained: Callable[[Quadrature], float]
    """The distance that 95 of 100 samples of a true model do not exceed."""
    sights: Callable[[], list[Sight]]
    method: str
    calls: int = 0
    warnings: tuple[str, ...] = ()


def choose_yardstick(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    quadrature: Quadrature,
    discrepancy: str,
    progress: bool,
) -> Yardstick:
    """The squared MMD, or the efficient discrepancy around an estimate that is made for it."""
    if discrepancy == "mmd":
        return measure_by_mmd(problem)
    fit = find_minimum("ABC", key, problem, rule, whole=False, progress=progress)
    refined, calls, _, told = refine_fit(key, rule, fit, progress)
    if refined is None:
        return measure_by_mmd(problem)._replace(calls=calls, warnings=told)
    distance, looked = distance_from(problem, refined.balance, quadrature)
    return Yardstick(
        distance.measure,
        lambda _: distance.explained(EXPLAINED),
        lambda: [Sight(distance.measure, distance.choose)],
        ", efficient discrepancy",
        calls + looked,
        told,
    )


def check_yardstick(problem: Problem, discrepancy: str) -> None:
    """Raises ValueError for another discrepancy, and for discrete parameters to fit."""
    if as_discrepancy(discrepancy) == "efficient":
        problem.prior.check_continuous("discrepancy='efficient'")


def measure_by_mmd(problem: Problem) -> Yardstick:
    """The squared MMD; wider kernels, too, where one looks closer."""

    def look(stretch: float) -> Sight:
        stretched = problem.stretch(stretch)
        return Sight(partial(measure_distances, stretched), partial(choose_features, stretched))

    return Yardstick(
        partial(measure_distances, problem),
        partial(explained_distance, problem),
        lambda: [look(stretch) for stretch in _STRETCHES],
        "",
    )


def expect_yardstick(problem: Problem, rule: Rule, discrepancy: str) -> Expected:
    """The calls of making one."""
    if discrepancy != "efficient":
        return Expected(0, 0)
    refined = expect_refinement(rule.m, problem) + rule.m
    return Expected(need_fit(rule, problem) + refined, expect_fit(rule, problem) + refined)
