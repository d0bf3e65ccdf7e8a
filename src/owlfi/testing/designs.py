"""The designs that all fits and statistics of a test share, and weights that suit the estimate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.testing.procedure import Designs
from owlfi.testing.settings import Settings
from owlfi.weights.data_grams import are_enough
from owlfi.weights.quadrature import Quadrature

_CHECKED = 3  # thetas, where y may show that theta and u determine it


class Drawn(NamedTuple):
    """Designs for each lengthscale of k, the usual one among them, and the calls until here."""

    usual: list[Quadrature]
    by_factor: list[list[Quadrature]]
    calls: int

    @property
    def first(self) -> Quadrature:
        return self.usual[0]

    @property
    def bank(self) -> Designs:
        """All of them stacked."""
        stacks = [_stack(part) for part in self.by_factor]
        points, weights = (jnp.stack(parts, 1) for parts in zip(*stacks, strict=True))
        if bool((points == points[:, :1]).all()):
            points = points[:, :1]
        return Designs(*_stack(self.usual), points, weights)


def draw_designs(key: Key[Array, ""], problem: Problem, rule: Rule, settings: Settings) -> Drawn:
    """As many of the rule as a test has, each for every lengthscale."""
    keys = jax.random.split(key, settings.designs)
    usual = [rule.quadrature(k, problem) for k in keys]
    checked = problem.check_determined(problem.prior.starts(key, _CHECKED), usual[0])
    by_factor = [
        usual if factor == 1 else [rule.quadrature(k, problem.stretch(factor)) for k in keys]
        for factor in settings.factors
    ]
    return Drawn(
        usual, by_factor, checked + sum(q.tuning_calls for part in by_factor for q in part)
    )


def retune_designs(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    settings: Settings,
    drawn: Drawn,
    theta: Float[Array, " p"],
) -> Drawn:
    """The same with weights tuned to simulations at one theta, for the data and all replicates.

    These are drawn near that theta, too, so that the weights suit them as they suit the data.
    """
    calls, by_factor, usual = drawn.calls, [], drawn.usual
    for factor, part in zip(settings.factors, drawn.by_factor, strict=True):
        stretched, tuned = problem.stretch(factor) if factor != 1 else problem, []
        for number, quadrature in enumerate(part):
            y = problem.simulator.attempt(theta, quadrature.points, problem.observed.shape[1])
            own = jax.random.fold_in(key, number)  # the same points for every lengthscale
            usable = bool(are_enough(y))
            new = rule.retune(own, quadrature, stretched, theta, y) if usable else quadrature
            calls += len(y) + (new.tuning_calls if usable else 0)
            tuned.append(new)
        by_factor.append(tuned)
        usual = tuned if factor == 1 else usual
    return Drawn(usual, by_factor, calls)


def _stack(designs: list[Quadrature]) -> tuple[Float[Array, "k m s"], Float[Array, "k m"]]:
    return jnp.stack([q.points for q in designs]), jnp.stack([q.weights for q in designs])
