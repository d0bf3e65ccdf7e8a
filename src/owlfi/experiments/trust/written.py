"""Simulators as people write them: plain NumPy, one row, with random numbers of their own."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi.experiments.trust.case import Case, Reference, by_formula
from owlfi.measures import Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.rules import OptimallyWeighted
from owlfi.problem.simulator import Simulator

ROWS, POINTS = 60, 64
_PEOPLE = 50
_SPREAD = 0.5  # of the logarithms of claims


def follow_rate(theta: Any, rng: np.random.Generator) -> list[float]:
    """A rate that is pulled back to 0 from 1, after each of 6 steps: smooth in its draws."""
    pull, scale = theta
    level, seen = 1.0, []
    for _step in range(6):
        level += scale * rng.normal() - pull * level
        seen.append(level)
    return seen


def spread_measles(theta: Any, rng: np.random.Generator) -> list[int]:
    """New cases among 50 people in each of 4 weeks: counts."""
    contact, recovery = theta
    well, ill, cases = _PEOPLE - 3, 3, []
    for _week in range(4):
        new = rng.binomial(well, 1 - np.exp(-contact * ill / _PEOPLE))
        ill += new - rng.binomial(ill, recovery)
        well -= new
        cases.append(new)
    return cases


def insure(theta: Any, rng: np.random.Generator) -> dict[str, float]:
    """Number and sum of the claims of a year: a loop of changing length."""
    rate, size = theta
    time, claims = rng.exponential(1 / rate), []
    while time < 1:
        claims.append(rng.lognormal(size, _SPREAD))
        time += rng.exponential(1 / rate)
    return {"count": len(claims), "paid": sum(claims)}


def fit_rate(x: Float[np.ndarray, "n 6"]) -> list[float]:
    """Least squares of the steps on where they begin, with their deviation."""
    before = np.column_stack([np.ones(len(x)), x[:, :-1]])
    steps = x - before
    pull = -(steps * before).sum() / (before**2).sum()
    return [pull, float(np.sqrt(((steps + pull * before) ** 2).mean()))]


class Written(NamedTuple):
    """A function with its prior and the truth."""

    simulate: Callable[..., Any]
    prior: Prior
    theta: tuple[float, ...]
    reference: Reference | None = None

    def observe(self, seed: int) -> Float[np.ndarray, "n d"]:
        """Rows at the truth by a generator that knows nothing of u."""
        rng = np.random.default_rng(seed)
        rows = [self.simulate(self.theta, rng) for _ in range(ROWS)]
        return np.array([[*row.values()] if isinstance(row, dict) else row for row in rows], float)

    def case(self) -> Case:
        """How it is fitted."""

        @cache
        def make() -> Simulator:
            return Simulator.from_random(self.simulate, self.prior.names, prior=self.prior)

        rule = OptimallyWeighted(m=POINTS)
        return Case(make, self.theta, ROWS, rule, reference=self.reference)


WRITTEN = {
    "rate": Written(
        follow_rate,
        Prior(pull=Uniform(0, 1), scale=Uniform(0.1, 2)),
        (0.4, 0.7),
        by_formula(fit_rate),
    ),
    "measles": Written(
        spread_measles, Prior(contact=Uniform(0.2, 3), recovery=Uniform(0, 1)), (1.2, 0.4)
    ),
    "claims": Written(insure, Prior(rate=Uniform(0.5, 10), size=Uniform(-1, 2)), (4.0, 0.5)),
}
CASES = {name: written.case() for name, written in WRITTEN.items()}
