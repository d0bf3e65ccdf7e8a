"""A problem on one quadrature: searches go on when either is replaced."""

from copy import copy

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.inference.search.misfit import Expected, expect_squared_mmd
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.problem.problem import Problem
from owlfi.weights.quadrature import Quadrature


class Stage:
    """What is minimised, and what its values mean."""

    problem: Problem
    quadrature: Quadrature
    objective: Objective
    data_term: Float[Array, ""]
    expected: Expected
    widths: Float[Array, " p"]
    """Of the prior's parameters."""

    def __init__(self, problem: Problem, quadrature: Quadrature):
        self.problem, self.quadrature = problem, quadrature
        self.objective = objective_of(problem, quadrature).fill()
        self.data_term = problem.data_term(quadrature.unbiased)
        self.expected = expect_squared_mmd(problem)
        self.widths = problem.prior.widths()

    def on(self, objective: Objective) -> "Stage":
        """With the values of another objective of the same problem."""
        other = copy(self)
        other.objective = objective
        return other

    @property
    def independent_excess(self) -> float:
        """What as many independent points would add to the squared MMD."""
        return self.expected.mean * len(self.problem.observed) / self.objective.m

    def squared_mmd(self, value: Array | float) -> Float[Array, "..."]:
        """From a value of the objective."""
        return as_jax(np.asarray(value) + np.asarray(self.data_term))

    def chance(self, value: Array | float, excess: float) -> float:
        """Of so large a squared MMD where the model is right.

        excess: what the points of the simulations add on average.
        """
        found = float(self.squared_mmd(value))
        if self.quadrature.unbiased:  # as it is with the pairs i = j, at which k is largest
            found += self.expected.mean + excess
        return self.expected.tail(found, excess)

    def trace(self, minimum: Minimum) -> tuple[np.ndarray, np.ndarray]:
        """The thetas of a search and their squared MMD, as far as it went."""
        thetas, values = np.asarray(minimum.thetas), np.asarray(minimum.values)
        seen = np.isfinite(values)
        return thetas[seen], values[seen] + np.asarray(self.data_term)
