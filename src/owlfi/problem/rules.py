"""Rules: how the points u and their weights are chosen. Changing the estimator is changing one.

`rule.quadrature(key, problem)` gives a `Quadrature` that serves every theta.
"""

import abc
from dataclasses import fields, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_kind, brief, tell_failure
from owlfi._tools.display import write_arguments
from owlfi._tools.keys import split_key
from owlfi.kernels import Kernel
from owlfi.measures import Measure, as_points
from owlfi.points.sequences import SEQUENCES, iid, sobol
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.simulations import MOST_CHECK_CALLS
from owlfi.problem.tuned_design import (
    Points,
    learning_calls,
    learns,
    noise_of,
    retune_design,
    retune_points,
    tune_design,
    tune_learned_design,
)
from owlfi.weights.certificate import Verdict
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.paper import median_weights
from owlfi.weights.quadrature import Quadrature, unweighted, unweighted_because
from owlfi.weights.tuned import weigh_alike

_WORDS = ("tuned", "median")
_SYSTEMS = ("learned", "given")


def _is_unusual(value: Any, usual: Any) -> bool:
    return value is not usual and not (isinstance(value, str | int) and value == usual)


class Rule(eqx.Module):
    """A way to choose points and weights before anything is known of theta."""

    m: eqx.AbstractVar[int]
    """The number of points."""

    def __repr__(self) -> str:
        usual = {field.name: field.default for field in fields(self)}
        own = {name: getattr(self, name) for name in usual}
        told = {name: value for name, value in own.items() if _is_unusual(value, usual[name])}
        return write_arguments(self, (), **{"m": self.m} | told)

    @property
    def independent(self) -> bool:
        """Whether its points are independent draws, equally weighted."""
        return False

    @property
    def tuned(self) -> bool:
        """Whether its weights are fitted to simulations."""
        return False

    def tuning_calls(self, problem: Problem) -> int:
        """Rows that the simulator computes for a quadrature, at most."""
        return 0

    def fewer(self, m: int) -> "Rule":
        """The same with m points."""
        return replace(self, m=m)

    @abc.abstractmethod
    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        """Points and weights for the simulator of the problem."""

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        """Other designs of the same kind, to see how much depends on the choice of the points.

        None where the rule knows no other, or knows its error without.
        """
        return None

    def check_weighted(self, purpose: str) -> None:
        """Raises ValueError where the squared MMD takes no weights."""

    def retune(
        self,
        key: Key[Array, ""],
        quadrature: Quadrature,
        problem: Problem,
        theta: Float[Array, " p"],
        y: Float[Array, "m d"],
    ) -> Quadrature:
        """Weights tuned to simulations y at theta on the points, within the same bound.

        Rules that learn coordinates learn them again at theta; other points may follow. What that
        takes are the `tuning_calls` of the quadrature.
        """
        self.check_weighted("retune")
        return retune_points(quadrature, problem, noise_of(problem, quadrature), y)


def as_rule(rule: Any) -> Rule:
    """Raises ValueError for anything else."""
    return as_kind("rule", rule, Rule, "a rule such as owlfi.OptimallyWeighted(m=100)")


def _as_point_set(points: Any) -> Points:
    if not callable(points) or isinstance(points, type):
        raise ValueError(
            f"points must be a function such as owlfi.sobol or owlfi.iid, got {brief(points)}"
        )
    return points


def _draw_points(points: Points, key: Key[Array, ""], m: int, measure: Measure) -> Array:
    """Those of a point set, which may be a user's own function."""
    try:
        drawn = points(key, m, measure)
    except ValueError:  # in words
        raise
    except Exception as error:
        raise ValueError(
            f"points must be a function of a key, m and a measure, {tell_failure(points, error)}"
        ) from error
    u = as_points("points", drawn, measure)
    if len(u) != m:
        raise ValueError(f"points must give m = {m} rows, got shape {u.shape}")
    return u


class VStatistic(Rule):
    """Equal weights 1/m: what everyone else does.

    >>> VStatistic(m=100).points.__name__
    'iid'
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m"))
    points: Points = eqx.field(static=True, default=iid, converter=_as_point_set)

    @property
    def independent(self) -> bool:
        return self.points is iid

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        u = _draw_points(self.points, key, self.m, as_problem(problem).simulator.measure)
        return unweighted(u, independent=self.independent)

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        designs = _draw_designs(self.points, key, problem.simulator.measure, self.m, count)
        if quadrature.certificate is not None:  # tuned at the estimate
            return weigh_alike(problem.simulator.measure, quadrature, designs)
        return unweighted(designs)


class UStatistic(Rule):
    """Equal weights without the pairs i = j: unbiased on independent points.

    >>> UStatistic(m=100).independent
    True
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m", least=2))

    @property
    def independent(self) -> bool:
        return True

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        u = iid(key, self.m, as_problem(problem).simulator.measure)
        return unweighted(u, independent=True, unbiased=True)

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        return unweighted(_draw_designs(iid, key, problem.simulator.measure, self.m, count))

    def check_weighted(self, purpose: str) -> None:
        raise ValueError(f"a U-statistic has no weights, which {purpose} needs; use VStatistic")


def _as_choice(base_kernel: Any) -> Kernel | str:
    named = isinstance(base_kernel, str) and base_kernel in _WORDS
    if not named and not isinstance(base_kernel, Kernel):
        raise ValueError(
            "base_kernel must be 'tuned', 'median' or a kernel on u such as "
            f"SquaredExponential(1.0), got {brief(base_kernel)}"
        )
    return base_kernel


def as_system(coordinates: Any) -> str:
    """Raises ValueError for another word."""
    if not (isinstance(coordinates, str) and coordinates in _SYSTEMS):
        raise ValueError(f"coordinates must be 'learned' or 'given', got {brief(coordinates)}")
    return coordinates


class OptimallyWeighted(Rule):
    """Bayesian-quadrature weights w = C⁻¹ z, eq. (6) of the paper.

    m: the number of points.
    points: how they are chosen: sobol, iid, halton, ...
    base_kernel: c. "tuned" fits it to simulations on the points at some thetas of the
        prior, scaled to the spread of the observations (see `tuned_weights`); they are counted
        and kept as the quadrature's `pilot`;
        "median" is the paper's rule, a squared exponential at the median lengthscale of the points;
        or any kernel on the space of u, whose weights are used as they come.
    thetas: how many thetas the simulations of "tuned" are made at.
    coordinates: of noise with 4 coordinates or more, for "tuned". "learned" finds the directions
        along which simulations vary most (see `learn_coordinates`), draws the points so that they
        fill these most evenly, and lets c look along them, where the certificate is the smaller
        for it; it takes about twice as many simulations. "given" leaves them as they are.

    Where weights would do harm, "tuned" and "median" give equal ones; `explain()` says so. The
    weights serve every theta: at those where y is too rough in u for any weights, tuned ones raise
    the error of equal ones by at most a factor of 4 (m Σ w_i² ≤ 16).

    Raises ValueError for another word; when applied, where most simulations fail at every theta.

    >>> OptimallyWeighted(m=64, base_kernel="median").m
    64
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m"))
    points: Points = eqx.field(static=True, default=sobol, converter=_as_point_set)
    base_kernel: Kernel | str = eqx.field(default="tuned", converter=_as_choice)
    thetas: int = eqx.field(static=True, default=12, converter=partial(as_count, "thetas"))
    coordinates: str = eqx.field(static=True, default="learned", converter=as_system)

    @property
    def tuned(self) -> bool:
        return isinstance(self.base_kernel, str) and self.base_kernel == "tuned"

    def tuning_calls(self, problem: Problem) -> int:
        if not self.tuned:
            return 0
        once = self.thetas * self.m + MOST_CHECK_CALLS
        more = learning_calls(problem, self.thetas, self.m) + once
        return once + (more if self._learns(problem.simulator.measure) else 0)

    def _learns(self, measure: Measure) -> bool:
        return self.coordinates == "learned" and learns(measure)

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        point_key, theta_key = split_key(key)
        measure = as_problem(problem).simulator.measure
        if not (measure.smooth and self.tuned):
            return self._weigh_untuned(
                measure, _draw_points(self.points, point_key, self.m, measure)
            )
        thetas = problem.prior.sample(theta_key, self.thetas)
        tune = tune_learned_design if self._learns(measure) else tune_design
        return tune(point_key, problem, self.points, self.m, thetas)

    def retune(
        self,
        key: Key[Array, ""],
        quadrature: Quadrature,
        problem: Problem,
        theta: Float[Array, " p"],
        y: Float[Array, "m d"],
    ) -> Quadrature:
        if self.tuned and quadrature.coordinates is not None:
            return retune_design(key, problem, self.points, quadrature, theta, y)
        return super().retune(key, quadrature, problem, theta, y)

    def _weigh_untuned(self, measure: Measure, u: Float[Array, "m s"]) -> Quadrature:
        if not measure.smooth:
            return unweighted_because(u, Verdict.SEED, independent=True)
        if isinstance(self.base_kernel, Kernel):
            return optimal_weights(self.base_kernel, measure, u)
        return median_weights(measure, u)

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        measure = noise_of(problem, quadrature)
        if not measure.smooth:
            return None
        designs = _draw_designs(self.points, key, measure, self.m, count)
        if quadrature.certificate is not None and quadrature.certificate.fit is not None:
            return weigh_alike(measure, quadrature, designs)
        if isinstance(self.base_kernel, Kernel):
            return optimal_weights(self.base_kernel, measure, designs)
        if self.base_kernel == "median":
            weights = jnp.stack([median_weights(measure, u).weights for u in designs])
            return replace(unweighted(designs), weights=weights)
        return None


def _draw_designs(
    points: Points, key: Key[Array, ""], measure: Measure, m: int, count: int
) -> Float[Array, "r m s"]:
    """One after the other from a sequence, where points are one: together they fill gaps."""
    if points in SEQUENCES:
        drawn = np.asarray(points(key, count * m, measure))
        return as_jax(drawn.reshape(count, m, measure.dim))
    return as_jax(np.stack([points(own, m, measure) for own in split_key(key, count)]))
