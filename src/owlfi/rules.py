"""Rules: how the points u and their weights are chosen. Changing the estimator is changing one.

`rule.quadrature(key, problem)` gives a `Quadrature` that serves every theta.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Key

from owlfi.kernels import Kernel, SquaredExponential
from owlfi.median import median_heuristic
from owlfi.points import iid, sobol
from owlfi.problem import Problem
from owlfi.quadrature import Quadrature, optimal_weights, unweighted

Points = Callable[[Key[Array, ""], int, Any], Float[Array, "m s"]]


class Rule(eqx.Module):
    """A way to choose points and weights before anything is known of theta."""

    @abc.abstractmethod
    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        """Points and weights for the simulator of the problem."""


class VStatistic(Rule):
    """Equal weights 1/m: what everyone else does.

    >>> VStatistic(m=100).points.__name__
    'iid'
    """

    m: int = eqx.field(static=True, default=256)
    points: Points = eqx.field(static=True, default=iid)

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        return unweighted(self.points(key, self.m, problem.simulator.measure))


class UStatistic(Rule):
    """Equal weights without the pairs i = j: unbiased on independent points."""

    m: int = eqx.field(static=True, default=256)

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        return unweighted(iid(key, self.m, problem.simulator.measure), unbiased=True)


class OptimallyWeighted(Rule):
    """Bayesian-quadrature weights w = C⁻¹ z, eq. (6) of the paper.

    m: the number of points.
    points: how they are chosen: sobol, iid, halton, ...
    kernel: the base kernel c. "median" is the paper's rule, a squared exponential at the median
        lengthscale of the points; or any kernel on the space of u.

    >>> OptimallyWeighted(m=64, kernel="median").m
    64
    """

    m: int = eqx.field(static=True, default=256)
    points: Points = eqx.field(static=True, default=sobol)
    kernel: Kernel | str = "median"

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        measure = problem.simulator.measure
        u = self.points(key, self.m, measure)
        return optimal_weights(self._kernel(u), measure, u)

    def _kernel(self, u: Array) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        return SquaredExponential(median_heuristic(u))
