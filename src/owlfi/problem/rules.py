"""Rules: how the points u and their weights are chosen. Changing the estimator is changing one.

`rule.quadrature(key, problem)` gives a `Quadrature` that serves every theta.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_kind, brief
from owlfi._tools.keys import split_key
from owlfi.kernels import Kernel
from owlfi.points.sequences import iid, sobol
from owlfi.problem.pilot_spread import spread_factors
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.simulations import MOST_CHECK_CALLS, Simulations, as_simulations, simulate
from owlfi.weights.adaptive import AdaptiveDesign, adaptive_design
from owlfi.weights.certificate import Verdict
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.paper import median_weights
from owlfi.weights.quadrature import Pilot, Quadrature, unweighted, unweighted_because
from owlfi.weights.tuned import tuned_weights, weigh_alike

Points = Callable[[Key[Array, ""], int, Any], Float[Array, "m s"]]
_NEAREST = 12
_MOST_NOISE = 16.0  # where y is too rough for weights, they cost at most 4 times the error
_WORDS = ("tuned", "median")


class Rule(eqx.Module):
    """A way to choose points and weights before anything is known of theta."""

    m: eqx.AbstractVar[int]
    """The number of points."""

    @property
    def independent(self) -> bool:
        """Whether its points are independent draws, equally weighted."""
        return False

    @property
    def tuned(self) -> bool:
        """Whether its weights are fitted to simulations."""
        return False

    @property
    def tuning_calls(self) -> int:
        """Rows that the simulator computes for a quadrature, at most."""
        return 0

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
        self, quadrature: Quadrature, problem: Problem, y: Float[Array, "m d"]
    ) -> Quadrature:
        """The same points with weights tuned to simulations y on them, within the same bound."""
        self.check_weighted("retune")
        known = quadrature.pilot
        # As many copies as the pilot has thetas: what was compiled for it serves again.
        samples = y if known is None else np.broadcast_to(y, (len(known.thetas), *y.shape))
        measure, u = problem.simulator.measure, quadrature.points
        return tuned_weights(problem.data_kernel, measure, u, samples, most_noise=_MOST_NOISE)


def as_rule(rule: Any) -> Rule:
    """Raises ValueError for anything else."""
    return as_kind("rule", rule, Rule, "a rule such as owlfi.OptimallyWeighted(m=100)")


def _as_point_set(points: Any) -> Points:
    if not callable(points):
        raise ValueError(
            f"points must be a function such as owlfi.sobol or owlfi.iid, got {brief(points)}"
        )
    return points


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
        u = self.points(key, self.m, as_problem(problem).simulator.measure)
        return unweighted(u, independent=self.independent)

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        designs = _draw_designs(self.points, key, problem, self.m, count)
        if quadrature.certificate is not None:  # tuned at the estimate
            return weigh_alike(problem.simulator.measure, quadrature, designs)
        return unweighted(designs)


class UStatistic(Rule):
    """Equal weights without the pairs i = j: unbiased on independent points."""

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
        return unweighted(_draw_designs(iid, key, problem, self.m, count))

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

    Where weights would do harm, "tuned" and "median" give equal ones; `explain()` says so. The
    weights serve every theta: at those where y is too rough in u for any weights, tuned ones raise
    the error of equal ones by at most a factor of 4 (m Σ w_i² ≤ 16).

    Raises ValueError for another word; when applied, where the simulations fail at every theta.

    >>> OptimallyWeighted(m=64, base_kernel="median").m
    64
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m"))
    points: Points = eqx.field(static=True, default=sobol, converter=_as_point_set)
    base_kernel: Kernel | str = eqx.field(default="tuned", converter=_as_choice)
    thetas: int = eqx.field(static=True, default=12, converter=partial(as_count, "thetas"))

    @property
    def tuned(self) -> bool:
        return isinstance(self.base_kernel, str) and self.base_kernel == "tuned"

    @property
    def tuning_calls(self) -> int:
        return self.thetas * self.m + MOST_CHECK_CALLS if self.tuned else 0

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        point_key, theta_key = split_key(key)
        measure = as_problem(problem).simulator.measure
        u = self.points(point_key, self.m, measure)
        if not measure.smooth:
            return unweighted_because(u, Verdict.SEED, independent=True)
        if isinstance(self.base_kernel, Kernel):
            return optimal_weights(self.base_kernel, measure, u)
        if self.base_kernel == "median":
            return median_weights(measure, u)
        thetas = problem.prior.sample(theta_key, self.thetas)
        runs = simulate(
            problem.simulator,
            thetas,
            unweighted(u),
            columns=problem.observed.shape[1],
            keep_failed=True,
        )
        kept = _finite(runs.y, thetas)
        y = np.asarray(runs.y)[kept]
        rows = spread_factors(problem, y) * y
        quadrature = tuned_weights(problem.data_kernel, measure, u, rows, most_noise=_MOST_NOISE)
        pilot = Pilot(as_jax(np.asarray(thetas)[kept]), as_jax(y), runs.calls)
        return _with_pilot(quadrature, pilot)

    def redraw(
        self, key: Key[Array, ""], problem: Problem, quadrature: Quadrature, count: int
    ) -> Quadrature | None:
        measure = problem.simulator.measure
        if not measure.smooth:
            return None
        designs = _draw_designs(self.points, key, problem, self.m, count)
        if quadrature.certificate is not None and quadrature.certificate.fit is not None:
            return weigh_alike(measure, quadrature, designs)
        if isinstance(self.base_kernel, Kernel):
            return optimal_weights(self.base_kernel, measure, designs)
        if self.base_kernel == "median":
            weights = jnp.stack([median_weights(measure, u).weights for u in designs])
            return eqx.tree_at(lambda q: q.weights, unweighted(designs), weights)
        return None


def _draw_designs(
    points: Points, key: Key[Array, ""], problem: Problem, m: int, count: int
) -> Float[Array, "r m s"]:
    measure = problem.simulator.measure
    return as_jax(np.stack([points(own, m, measure) for own in split_key(key, count)]))


class Adaptive(Rule):
    """Tuned weights on points that are chosen one after the other for the simulator.

    A Sobol pilot of max(32, 3 s, m / 4) points, then greedy points under the kernel fitted to it,
    which is fitted anew whenever they have doubled. m counts all of them; each is run at as many
    thetas of the prior as `thetas` says, and the runs are kept as the quadrature's `pilot`.

    Raises ValueError where the simulations fail at every theta.

    >>> Adaptive(m=100).m
    100
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m"))
    thetas: int = eqx.field(static=True, default=12, converter=partial(as_count, "thetas"))

    @property
    def tuned(self) -> bool:
        return True

    @property
    def tuning_calls(self) -> int:
        return self.thetas * self.m + MOST_CHECK_CALLS

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        design_key, theta_key = split_key(key)
        simulator = as_problem(problem).simulator
        thetas = problem.prior.sample(theta_key, self.thetas)
        k, noise = problem.data_kernel, simulator.measure
        design = adaptive_design(design_key, k, noise, self.m, most_noise=_MOST_NOISE)
        calls, factors = 0, None
        y: list[np.ndarray] = []
        while design.left:
            u = design.ask()
            runs = simulate(
                simulator,
                thetas,
                unweighted(u),
                check=not calls,
                columns=problem.observed.shape[1],
                keep_failed=True,
            )
            calls += runs.calls
            kept = _finite(runs.y, thetas)
            new = np.asarray(runs.y)
            factors = spread_factors(problem, new) if factors is None else factors
            thetas, factors = thetas[kept], factors[kept]
            y = [part[kept] for part in (*y, new)]
            design = _of_thetas(design, kept).tell(u, factors * y[-1])
        pilot = Pilot(thetas, as_jax(np.concatenate(y, 1)), calls)
        return _with_pilot(design.quadrature(), pilot)


def continue_design(
    key: Key[Array, ""], problem: Problem, runs: Simulations, more: int
) -> AdaptiveDesign:
    """The next u's: an adaptive design that knows these runs, with `more` points to ask for.

    runs: at thetas on one design of points; the kernel is fitted at the 12 that are nearest to the
        observations.

    `ask()` gives the points. Until there are 32, or 3 a coordinate, they are Sobol points; from
    then on those that lower the error by the most.

    Raises ValueError for points of each theta's own, and where a run failed at every theta.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 50, model.measure))
    >>> problem = owlfi.Problem(model, x)
    >>> u = VStatistic(m=8).quadrature(jax.random.key(1), problem)
    >>> runs = simulate(model, problem.prior.starts(jax.random.key(2), 8), u)
    >>> continue_design(jax.random.key(3), problem, runs, more=5).ask().shape
    (5, 1)
    """
    points = as_simulations("runs", runs).quadrature.points
    measure = as_problem(problem).simulator.measure
    if points.ndim != 2:
        raise ValueError(
            f"runs have points of each theta's own, shape {points.shape}; the next points serve "
            "all thetas, so give runs on one design (m, s)"
        )
    kept = _finite(runs.y, runs.thetas)
    found = np.asarray(problem.squared_mmd(runs.y[kept], runs.quadrature))
    y = np.asarray(runs.y)[kept[np.argsort(found, kind="stable")[:_NEAREST]]]
    design = adaptive_design(key, problem.data_kernel, measure, as_count("more", more))
    sequence = jnp.concatenate([points, design.sequence])
    design = eqx.tree_at(lambda d: d.sequence, design, sequence)
    return design.tell(points, spread_factors(problem, y) * y)


def _finite(y: Float[Array, "t m d"], thetas: Float[Array, "t p"]) -> np.ndarray:
    """Which thetas gave finite numbers at all points."""
    finite = np.isfinite(y).all((1, 2))
    if not finite.any():
        raise ValueError(
            f"y is NaN or infinite for some u at all {len(thetas)} thetas of the prior that were "
            f"tried, such as {np.asarray(thetas[0])}; mend the generator, narrow the prior, or "
            "use VStatistic or base_kernel='median', which simulate nothing beforehand"
        )
    return np.flatnonzero(finite)


def _of_thetas(design: AdaptiveDesign, kept: np.ndarray) -> AdaptiveDesign:
    return design if design.y is None else eqx.tree_at(lambda d: d.y, design, design.y[kept])


def _with_pilot(quadrature: Quadrature, pilot: Pilot) -> Quadrature:
    return eqx.tree_at(lambda q: q.pilot, quadrature, pilot, is_leaf=lambda leaf: leaf is None)
