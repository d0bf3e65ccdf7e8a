"""How the parameters of a data set are found in a test: Newton's method, Algorithm 2, or given.

Each search knows what it will cost, next to where it spends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array, as_count, brief, positive
from owlfi.inference.search.descent import Bank, minimise_by_descent
from owlfi.inference.search.newton import Minimum, choose_least, minimise
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.places import to_place
from owlfi.inference.search.roughness import is_rough, look_calls
from owlfi.inference.search.scatter import (
    Scatter,
    look_through,
    refit_inside,
    scatter_around,
    scatter_size,
)
from owlfi.inference.search.starts import MOST_RUNGS, coarsen, compare_starts, comparison_points
from owlfi.inference.search.ways import ByRegression, BySlopes, Landing, walk_calls
from owlfi.problem.problem import Problem
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature

_COMPARED, _SEARCHED = 16, 8  # starts on the observed data: compared, and searched to the end
_LED = 2  # of these, led there from wide lengthscales


class Starts(NamedTuple):
    """Where searches begin, and the simulator calls of finding out."""

    observed: Float[Array, "s p"]
    """For the observed data, the best first."""
    others: Float[Array, "r p"]
    """For every data set, besides the estimate."""
    calls: int
    search: "Prepared"
    """What searches from there: another one, where the simulator turns out to be rough."""


class _Narrow:
    """A search that looks at the observed data no more widely than at any other."""

    composite = True
    """Whether parameters are estimated."""
    refines = True
    """Whether replicates are simulated at an estimate on more points, for any rule."""

    def group(self, starts: Starts) -> list[Float[Array, "b p"]]:
        """The starts of the observed data, as many at a time as a replicate has."""
        return []

    def refine(self, objective: Objective, theta: Float[Array, " p"]) -> Minimum:
        """The minimum on many more points, from that on few."""
        return minimise(objective, theta)

    @property
    def groups(self) -> int:
        """How many those are at most."""
        return 0

    def refine_calls(self, simulator: Simulator, fine: int, near: int, *, most: bool) -> int:
        """What it costs on so many points."""
        scattered = scatter_size(len(simulator.parameters)) * fine if most else 0
        return max(simulator.slope_calls(fine) * near, scattered)


@dataclass(frozen=True)
class Newton(_Narrow):
    """Newton's method from the estimate, and from some of the best of other starts.

    The observed data are searched more widely: an estimate in another minimum than the lowest would
    have replicates that fit too well.
    """

    restarts: int = 1

    def check(self, problem: Problem) -> None:
        """Raises ValueError for what can be known to fail before the first simulation."""
        problem.prior.check_continuous("goodness_of_fit")

    def start(
        self, key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature
    ) -> Starts:
        """Where to begin, at the cost of `start_calls`."""
        found = compare_starts(key, problem, objective, quadrature, self._compared)
        ladder, best = found.ladder, found.thetas[:_LED]
        rough, looked = is_rough(coarsen(objective, ladder[0]), best[0])
        if rough:
            landing = ByRegression().search(objective, best[0], ladder)
            calls = found.calls + looked + int(landing.minimum.calls)
            return Starts(landing.minimum.theta[None], best[:0], calls, Regression.at(landing))
        led = [BySlopes().search(objective, start, ladder).minimum for start in best]
        calls = found.calls + looked + sum(int(minimum.calls) for minimum in led)
        tried = jnp.concatenate([jnp.stack([each.theta for each in led]), found.thetas])
        others = found.thetas[1 : 1 + self.restarts]
        return Starts(tried[: self._searched], others, calls, self)

    def start_calls(self, simulator: Simulator, m: int, far: int, *, most: bool) -> int:
        few, p, rungs = comparison_points(m), len(simulator.parameters), MOST_RUNGS if most else 1
        led = _LED * rungs * far * simulator.slope_calls(m)
        led = max(led, walk_calls(p, m, rungs)) if most else led
        return self._compared * few + look_calls(simulator, few, most=most) + led

    def minimise(
        self, key: Key[Array, ""], objective: Objective, bank: Bank, starts: Float[Array, "b p"]
    ) -> Minimum:
        """The best minimum from the estimate, which is the first start, and from the others."""
        found = objective.runtime.map(lambda start: minimise(objective, start), starts)
        return choose_least(found)

    def minimise_calls(self, simulator: Simulator, m: int, near: int, far: int) -> int:
        """What that costs where searches take so many steps from the estimate, and elsewhere."""
        return simulator.slope_calls(m) * (near + self.restarts * far)

    def group(self, starts: Starts) -> list[Float[Array, "b p"]]:
        size, count = 1 + len(starts.others), len(starts.observed)
        firsts = range(0, count, size)
        return [starts.observed[np.arange(first, first + size) % count] for first in firsts]

    @property
    def groups(self) -> int:
        return -(-self._searched // (1 + self.restarts))

    @property
    def _compared(self) -> int:
        return max(_COMPARED, 1 + self.restarts)

    @property
    def _searched(self) -> int:
        return max(_SEARCHED, 1 + self.restarts)


@dataclass(frozen=True)
class Adam(_Narrow):
    """Algorithm 2: the paper's I, R, S and s.

    Steps are taken on the real line, so none leaves the bounds.

    >>> Adam(steps=100).restarts
    10
    """

    refines = False  # the paper's test as it is

    trials: int = 50
    restarts: int = 10
    steps: int = 200
    rate: float = 0.04

    def __post_init__(self) -> None:
        as_count("steps", self.steps)
        if as_count("restarts", self.restarts) > as_count("trials", self.trials):
            raise ValueError(
                f"Adam descends from the best restarts = {self.restarts} of trials = "
                f"{self.trials}; give at least as many trials"
            )
        positive("rate", self.rate, number=True)

    def check(self, problem: Problem) -> None:
        problem.prior.check_continuous("goodness_of_fit")
        problem.simulator.check_differentiable("Adam", "search='newton'")

    def start(
        self, key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature
    ) -> Starts:
        trials = problem.prior.starts(key, self.trials)
        rough, looked = is_rough(coarsen(objective, 1.0), trials[0])
        if rough:
            raise ValueError(
                "Adam needs the derivatives of the simulator, but near theta = "
                f"{np.asarray(trials[0])} they do not tell how y changes: it is rounded, counts, "
                "jumps or chaotic; use search='newton', which does without where it must"
            )
        return Starts(trials, trials, looked, self)

    def start_calls(self, simulator: Simulator, m: int, far: int, *, most: bool) -> int:
        return look_calls(simulator, comparison_points(m), most=most)

    def minimise(
        self, key: Key[Array, ""], objective: Objective, bank: Bank, starts: Float[Array, "b p"]
    ) -> Minimum:
        import optax

        optimizer = optax.adam(self.rate)
        counts = self.restarts, self.steps
        return minimise_by_descent(key, objective, bank, starts[1:], optimizer, *counts)

    def minimise_calls(self, simulator: Simulator, m: int, near: int, far: int) -> int:
        return m * (self.trials + self.restarts * (self.steps + 1))


@dataclass(frozen=True)
class Given(_Narrow):
    """Parameters that are known: nothing is searched."""

    theta: Float[Array, " p"] = field(compare=False)  # one program serves every theta
    composite = False

    def check(self, problem: Problem) -> None:
        names = problem.prior.names
        if self.theta.shape != (len(names),):
            raise ValueError(
                f"theta must hold {len(names)} numbers ({', '.join(names)}), got {self.theta}"
            )

    def start(
        self, key: Key[Array, ""], problem: Problem, objective: Objective, quadrature: Quadrature
    ) -> Starts:
        return Starts(self.theta[None], self.theta[None][:0], 0, self)

    def start_calls(self, simulator: Simulator, m: int, far: int, *, most: bool) -> int:
        return 0

    def minimise(
        self, key: Key[Array, ""], objective: Objective, bank: Bank, starts: Float[Array, "b p"]
    ) -> Minimum:
        theta, nothing = starts[0], jnp.zeros(())
        return Minimum(theta, nothing, jnp.array(0), jnp.array(True), theta[None], nothing[None])

    def minimise_calls(self, simulator: Simulator, m: int, near: int, far: int) -> int:
        return 0


class Regression(_Narrow, eqx.Module):
    """For rough simulators: in the regression of the embedding around the estimate.

    Every data set is fitted in the same simulations, so that no fit takes another one.
    """

    scatter: Scatter

    @classmethod
    def at(cls, landing: Landing) -> "Regression":
        """Around the end of a search; ValueError where the simulations fail there."""
        if landing.scatter is None:
            raise ValueError(
                f"y is NaN or infinite around theta = {np.asarray(landing.minimum.theta)}; mend "
                "the generator or narrow the prior"
            )
        return cls(landing.scatter)

    def minimise(
        self, key: Key[Array, ""], objective: Objective, bank: Bank, starts: Float[Array, "b p"]
    ) -> Minimum:
        scatter = look_through(self.scatter, objective.data_kernel)
        found = refit_inside(scatter, objective.observed[None], objective.shares[None])
        return jax.tree.map(lambda leaf: leaf[0], found)

    def refine(self, objective: Objective, theta: Float[Array, " p"]) -> Minimum:
        """In one more regression, around theta."""
        centre = to_place(theta, objective.ends)
        scatter, calls = scatter_around(objective, centre, self.scatter.spread, 0)
        if scatter is None:
            nothing, spent = jnp.array(jnp.nan), jnp.array(calls)
            return Minimum(theta, nothing, spent, jnp.array(False), theta[None], nothing[None])
        found = refit_inside(scatter, objective.observed[None], objective.shares[None])
        return jax.tree.map(lambda leaf: leaf[0], found)._replace(calls=jnp.array(calls))


Search = Newton | Adam | Given
Prepared = Search | Regression


def as_search(search: Any, theta: Any, restarts: Any) -> Search:
    """Raises ValueError for another word."""
    restarts = as_count("restarts", restarts, 0)
    if not isinstance(search, Adam) and not (isinstance(search, str) and search == "newton"):
        raise ValueError(f"search must be 'newton' or Adam(...), got {brief(search)}")
    if theta is not None:
        return Given(as_array("theta", theta))
    return search if isinstance(search, Adam) else Newton(restarts)


def refuse_constant(
    names: Sequence[str], theta: Float[Array, " p"], slopes: Float[Array, "p m d"]
) -> None:
    """Raises ValueError where no simulation changes with a parameter."""
    for name, slope in zip(names, np.asarray(slopes), strict=True):
        if not slope.any():
            raise ValueError(
                f"y does not change with {name} near theta = {np.asarray(theta)}: the model is "
                "piecewise constant in it and cannot be fitted by its slopes; hold it with "
                "simulator.fix(...), or test a given theta"
            )
