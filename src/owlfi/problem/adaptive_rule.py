"""Points that are chosen one after the other for the simulator of a problem."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count
from owlfi._tools.keys import split_key
from owlfi.measures import Measure
from owlfi.problem.pilot_spread import spread_factors
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_system
from owlfi.problem.simulations import MOST_CHECK_CALLS, Simulations, as_simulations, simulate
from owlfi.problem.tuned_design import (
    MOST_NOISE,
    in_coordinates,
    learn_for,
    learning_calls,
    learns,
    noise_of,
    usable_thetas,
)
from owlfi.weights.adaptive import AdaptiveDesign, adaptive_design
from owlfi.weights.quadrature import Pilot, Quadrature, unweighted

_NEAREST = 12


class Adaptive(Rule):
    """Tuned weights on points that are chosen one after the other for the simulator.

    A Sobol pilot of max(32, 3 s, m / 4) points, then greedy points under the kernel fitted to it,
    which is fitted anew whenever they have doubled. m counts all of them; each is run at as many
    thetas of the prior as `thetas` says, and the runs are kept as the quadrature's `pilot`.
    coordinates: as of `OptimallyWeighted`; learned ones come from simulations of their own, and s
        is then the number of directions that c sees.

    Raises ValueError where most simulations fail at every theta.

    >>> Adaptive(m=100).m
    100
    """

    m: int = eqx.field(static=True, default=256, converter=partial(as_count, "m"))
    thetas: int = eqx.field(static=True, default=12, converter=partial(as_count, "thetas"))
    coordinates: str = eqx.field(static=True, default="learned", converter=as_system)

    @property
    def tuned(self) -> bool:
        return True

    def tuning_calls(self, problem: Problem) -> int:
        once = self.thetas * self.m + MOST_CHECK_CALLS
        if not self._learns(problem.simulator.measure):
            return once
        return once + learning_calls(problem, self.thetas, self.m)

    def _learns(self, measure: Measure) -> bool:
        return self.coordinates == "learned" and learns(measure)

    def quadrature(self, key: Key[Array, ""], problem: Problem) -> Quadrature:
        design_key, theta_key = split_key(key)
        simulator = as_problem(problem).simulator
        thetas = problem.prior.sample(theta_key, self.thetas)
        k, noise, calls, factors = problem.data_kernel, simulator.measure, 0, None
        if self._learns(noise):
            noise, calls = learn_for(design_key, problem, thetas, self.m)
        design = adaptive_design(design_key, k, noise, self.m, most_noise=MOST_NOISE)
        y: list[np.ndarray] = []
        while design.left:
            u = design.ask()
            runs = simulate(
                simulator,
                thetas,
                unweighted(u),
                check=not y,
                columns=problem.observed.shape[1],
                keep_failed=True,
            )
            calls += runs.calls
            new = np.asarray(runs.y)
            kept = usable_thetas(np.concatenate([*y, new], 1), thetas)
            factors = (
                spread_factors(problem.data_kernel, problem.observed, new)
                if factors is None
                else factors
            )
            thetas, factors = thetas[kept], factors[kept]
            y = [part[kept] for part in (*y, new)]
            design = _of_thetas(design, kept).join(u, as_jax(factors * y[-1]))
        pilot = Pilot(thetas, as_jax(np.concatenate(y, 1)), calls)
        return in_coordinates(replace(design.quadrature(), pilot=pilot), noise)


def continue_design(
    key: Key[Array, ""], problem: Problem, runs: Simulations, more: int
) -> AdaptiveDesign:
    """The next u's: an adaptive design that knows these runs, with `more` points to ask for.

    runs: at thetas on one design of points; the kernel is fitted at the 12 that are nearest to the
        observations.

    `ask()` gives the points. Until there are 32, or 3 a coordinate, they are Sobol points; from
    then on those that lower the error by the most.

    Raises ValueError for points of each theta's own, and where most runs failed at every theta.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 50, model.measure))
    >>> problem = owlfi.Problem(model, x)
    >>> u = owlfi.VStatistic(m=8).quadrature(jax.random.key(1), problem)
    >>> runs = simulate(model, problem.prior.starts(jax.random.key(2), 8), u)
    >>> continue_design(jax.random.key(3), problem, runs, more=5).ask().shape
    (5, 1)
    """
    points = as_simulations("runs", runs).quadrature.points
    measure = noise_of(as_problem(problem), runs.quadrature)
    if points.ndim != 2:
        raise ValueError(
            f"runs have points of each theta's own, shape {points.shape}; the next points serve "
            "all thetas, so give runs on one design (m, s)"
        )
    kept = usable_thetas(runs.y, runs.thetas)
    found = np.asarray(problem.squared_mmd(runs.y[kept], runs.quadrature))
    y = np.asarray(runs.y)[kept[np.argsort(found, kind="stable")[:_NEAREST]]]
    k, x = problem.data_kernel, problem.observed
    design = adaptive_design(key, k, measure, as_count("more", more))
    sequence = jnp.concatenate([points, design.sequence])
    return replace(design, sequence=sequence).join(points, as_jax(spread_factors(k, x, y) * y))


def _of_thetas(design: AdaptiveDesign, kept: np.ndarray) -> AdaptiveDesign:
    return design if design.y is None else replace(design, y=design.y[kept])
