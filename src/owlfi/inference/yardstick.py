"""By what ABC measures how far simulations are from the data."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi.inference.acceptance import EXPLAINED, Explained, explain_distances
from owlfi.inference.adjustment.adjust import Sight
from owlfi.inference.adjustment.features import choose_features
from owlfi.inference.efficient.distance import distance_from
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import find_minimum
from owlfi.inference.prior_runs import measure_distances
from owlfi.inference.refined_fit import refine_fit
from owlfi.inference.search.nearness import SEEN, measure_nearness
from owlfi.inference.search.starts import MOST_RUNGS
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import Simulations
from owlfi.problem.spending import Expected
from owlfi.weights.quadrature import Quadrature

_STRETCHES = (1.0, 2.0, 4.0, 8.0)  # wide kernels see farther and straighter, narrow ones more
_WIDEST = 2.0**MOST_RUNGS
_MOSTLY, _HARDLY = 0.9, 0.1  # of what is accepted, that is seen


class Yardstick(NamedTuple):
    """How far runs are, which distances a true model explains, and the ways to look closer."""

    measure: Callable[[Simulations], Float[np.ndarray, " t"]]
    explain: Callable[[Quadrature], Explained]
    sees: Callable[[Simulations], Bool[np.ndarray, " t"]]
    """Whether runs are told apart by more than chance: far away, all look alike."""
    stretch: Callable[[float], "Yardstick | None"]
    """The same with another lengthscale; None where there is none."""
    sights: Callable[[], list[Sight]]
    method: str = ""
    stretched: float = 1.0
    calls: int = 0
    warnings: tuple[str, ...] = ()
    """Of the fit that it was made by."""

    def tell(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """What is known, and the warnings beyond that."""
        return (*known, *(text for text in self.warnings if text not in known))


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
        lambda _: Explained(0.0, distance.explained(EXPLAINED)),
        distance.sees,
        lambda _: None,
        lambda: [Sight(distance.measure, distance.choose)],
        ", efficient discrepancy",
        calls=calls + looked,
        warnings=told,
    )


def check_yardstick(problem: Problem, discrepancy: str) -> None:
    """Raises ValueError for another discrepancy, and for discrete parameters to fit."""
    if as_discrepancy(discrepancy) == "efficient":
        problem.prior.check_continuous("discrepancy='efficient'")


def measure_by_mmd(problem: Problem, stretched: float = 1.0) -> Yardstick:
    """The squared MMD with k stretched; wider kernels, too, where one looks closer."""
    own = problem if stretched == 1 else problem.stretch(stretched)

    def look(factor: float) -> Sight:
        wider = own.stretch(factor)
        return Sight(partial(measure_distances, wider), partial(choose_features, wider))

    def stretch(factor: float) -> Yardstick | None:
        possible = 1 <= stretched * factor <= _WIDEST
        return measure_by_mmd(problem, stretched * factor) if possible else None

    def sees(runs: Simulations) -> Bool[np.ndarray, " t"]:
        near = measure_nearness(own.data_kernel, 1.0, np.asarray(own.observed), runs.y)
        return near >= SEEN * float(own.data_term())

    return Yardstick(
        partial(measure_distances, own),
        partial(explain_distances, own),
        sees,
        stretch,
        lambda: [look(factor) for factor in _STRETCHES],
        stretched=stretched,
    )


Found = TypeVar("Found")


def look_sharply(
    yardstick: Yardstick,
    look: Callable[[Yardstick], Found],
    share_seen: Callable[[Found], float],
) -> tuple[Yardstick, Found]:
    """The narrowest kernel that sees most of what it finds, by factors of 2, and that."""
    best, found = yardstick, look(yardstick)
    seen = share_seen(found) >= _MOSTLY
    while (other := best.stretch(0.5 if seen else 2.0)) is not None:
        there = look(other)
        also = share_seen(there) >= _MOSTLY
        if seen and not also:
            break
        best, found = other, there
        if also and not seen:
            break
    return best, found


def tell_unseen(share: float) -> tuple[str, ...]:
    """Of accepted parameters whose simulations are all far from the data."""
    if share >= _HARDLY:
        return ()
    return (
        f"the simulations at {1 - share:.0%} of the accepted parameters are so far from the data "
        "that which of them is nearest is chance; narrow the prior, give a data_kernel of a larger "
        "lengthscale, or leave share and threshold out, which stretches it",
    )


def expect_yardstick(problem: Problem, rule: Rule, discrepancy: str) -> Expected:
    """The calls of making one."""
    if discrepancy != "efficient":
        return Expected(0, 0)
    refined = expect_refinement(rule.m, problem) + rule.m
    return Expected(need_fit(rule, problem) + refined, expect_fit(rule, problem) + refined)
