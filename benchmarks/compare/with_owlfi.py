"""owlfi: minimum distance, plain and efficient, and the posterior bootstrap."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

import owlfi
from benchmarks.compare.peer import LEVEL, Answer, Peer, from_draws
from benchmarks.compare.tasks import SpentError, Task
from owlfi.inference.expected_calls import expect_fit

_OPTIONS: dict[str, Any] = {"starts": 8, "refined": 1}  # those of `owlfi reproduce efficiency`
_MOST = 512
_SIZES = (_MOST, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8)
_PLANNED = 0.45  # of the budget: searches take up to about twice the steps that are expected
_DRAWS, _PLANNED_DRAWS = (200, 100, 50, 25), 100
_STEPS = 3  # of the search for a draw


class MinimumDistance(Peer):
    """The estimate, with plain MMD or the efficient discrepancy."""

    def __init__(self, discrepancy: str, black_box: bool = False) -> None:
        self.discrepancy, self.black_box = discrepancy, black_box
        kind = {"mmd": "plain", "efficient": "efficient"}[discrepancy]
        self.name = f"owlfi {kind}{', black box' * black_box}"
        self.about = (
            f'`minimum_distance(discrepancy="{discrepancy}", starts=8, refined=1, whiten=d > 1, '
            f"max_calls=budget)` with `VStatistic({_MOST}, sobol)`, or as many of these points as "
            "the budget does for"
        )
        if black_box:
            self.about += "; without derivatives: it differences, and all rows are calls"

    def suits(self, task: Task, spoilt: bool) -> bool:
        return not (self.black_box and task.simulator.on_host)  # it is one anyway

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        problem = (_close(task) if self.black_box else task).pose(x)
        options = {"discrepancy": self.discrepancy, "max_calls": budget, **_OPTIONS}
        options["whiten"] = problem.observed.shape[1] > 1
        rule = owlfi.VStatistic(_MOST, owlfi.sobol)
        found = _run(owlfi.minimum_distance, seed, problem, rule, **options)
        theta, low, high = map(np.asarray, (found.theta, *found.interval(LEVEL)))
        return Answer(theta, low, high, int(found.calls), int(found.gradient_calls))


class Bootstrap(Peer):
    """Draws, as many as the budget leaves."""

    name = "owlfi bootstrap"
    about = (
        "`posterior_bootstrap` with the most of 200, 100, 50 or 25 draws that the budget does for, "
        "and `VStatistic(m, sobol)`, m from 16 to 512, the largest with which the expected calls "
        f"of {_PLANNED_DRAWS} draws are at most {_PLANNED:.0%} of the budget"
    )

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        problem = task.pose(x)

        def expect(rule: Any) -> int:
            searches = _PLANNED_DRAWS * _STEPS * problem.simulator.slope_calls(rule.m)
            return expect_fit(rule, problem) + searches

        rule = _choose_rule(expect, budget, least=16)
        for draws in _DRAWS:
            found = _run(owlfi.posterior_bootstrap, seed, problem, rule, draws=draws)
            if found.calls <= budget:
                return from_draws(np.asarray(found.draws), int(found.calls))
        raise SpentError(f"{found.calls:,} calls for {draws} draws")


def _run(method: Callable[..., Any], seed: int, problem: Any, rule: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return method(jax.random.key(seed), problem, rule, **options)


def _choose_rule(expect: Callable[[Any], int], budget: int, least: int) -> owlfi.VStatistic:
    rules = [owlfi.VStatistic(m, owlfi.sobol) for m in _SIZES if m >= least]
    fitting = (rule for rule in rules if expect(rule) <= _PLANNED * budget)
    return next(fitting, rules[-1])


@cache
def _close(task: Task) -> Task:
    """The same task with a simulator that shows no derivatives."""
    model = task.simulator
    generate = jax.jit(model.generator)

    def run(theta: Any, u: Any) -> np.ndarray:
        return np.asarray(generate(theta, u))

    closed = owlfi.Simulator(
        run, model.measure, model.parameters, prior=model.prior, theta=model.theta, on_host=True
    )
    return replace(task, make=lambda: closed)
