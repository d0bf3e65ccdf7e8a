"""Problems whose data are summaries of rows, of observations and simulations alike."""

from collections.abc import Callable
from typing import Any

import equinox as eqx

from owlfi.problem.problem import Problem
from owlfi.problem.simulator import Generator, Simulator

Summaries = Callable[[Any], Any]


class _Summarised(eqx.Module):
    generator: Generator
    summaries: Summaries

    def __call__(self, theta: Any, u: Any) -> Any:
        return self.summaries(self.generator(theta, u))


def pose_problem(simulator: Simulator, x: Any, summaries: Summaries | None = None) -> Problem:
    """The problem of the rows x, or of their summaries."""
    if summaries is None:
        return Problem(simulator, x)
    composed = Simulator(
        _Summarised(simulator.generator, summaries),
        simulator.measure,
        simulator.parameters,
        prior=simulator.prior,
        on_host=simulator.on_host,
    )
    return Problem(composed, summaries(x))
