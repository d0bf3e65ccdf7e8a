"""Two ways to the minimum: along derivatives of the simulations, or by regression over thetas.

Both go down a ladder of lengthscales, and both tell how the embedding moves at the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax, take_rows
from owlfi.inference.search.designs import (
    Designs,
    Simulated,
    draw_apart,
    leave_out_failed,
    simulate_designs,
)
from owlfi.inference.search.newton import NONE, STEPS, TOLERANCE, Minimum, minimise, minimise_each
from owlfi.inference.search.objective import Objective, gauss_newton_model
from owlfi.inference.search.places import to_place
from owlfi.inference.search.scatter import (
    Scatter,
    is_too_wide,
    refit_inside,
    scatter_around,
    scatter_size,
)
from owlfi.inference.search.starts import Starts, coarsen, comparison_points, take_rung
from owlfi.inference.search.tangent import Tangent, choose_joint, designs_calls, tangent_by_slopes
from owlfi.inference.search.tangent_by_regression import tangent_by_regression
from owlfi.inference.search.walk import Walk, as_minimum, end_walk, first_walk, walk, walk_near
from owlfi.problem.spending import OutOfCallsError, calls_left, is_tight, keep_back, tell_less

_LOOSE = 1e-4  # a rung need only lead to the next one
_ROUGHLY = 1e-6  # so that scouts in one valley are seen to be there
_PARTIES = 3  # of scouts, at most
_KNOWN = 0.6  # places a scout, of which hardly one is missing
_APART = 0.02  # widths of the prior, between places that are not the same
_ROUNDS, _ROUNDS_A_RUNG = 12, 3
_WIDENED, _WIDER = 2, 1.6  # how often, and how much wider each time
_INSIDE = 0.99  # of the minima of other weightings of the data
USUAL_STEPS, USUAL_ROUNDS = 5, 3
"""Of a search by slopes, and by regression."""
SCOUTS, SCOUT_POINTS = 3, 64
"""For each search on all points, and on how many they search."""


class Landing(NamedTuple):
    """Where a search ended."""

    minimum: Minimum
    scatter: Scatter | None = None
    """The simulations around the minimum, of a search by regression."""

    @property
    def value(self) -> float:
        return float(np.nan_to_num(self.minimum.value, nan=np.inf))


class Calls(NamedTuple):
    """Rows of the simulator that searches took, with slopes where it has them, and others."""

    search: int
    other: int

    def add(self, search: int = 0, other: int = 0) -> "Calls":
        return Calls(self.search + search, self.other + other)


class Look(NamedTuple):
    """Around a minimum: how the embedding moves, and simulations on other designs."""

    tangent: Tangent
    designs: Simulated
    calls: Calls


class Beginning(NamedTuple):
    """Where a search on all points begins, and the lengthscales that it goes through."""

    theta: Float[Array, " p"]
    ladder: tuple[float, ...]


@dataclass(frozen=True)
class BySlopes:
    """Newton's method along derivatives of the simulations."""

    steps: int = STEPS
    rough = False
    smooth = True
    more = 6
    """Searches from further starts, while the landing is doubtful."""

    def scout(
        self, objective: Objective, starts: Starts, refined: int
    ) -> tuple[tuple[Beginning, ...], int]:
        """Where to begin: the best places that searches on few points came to, and their calls.

        Many searches on few points meet other minima that few searches on many points would miss.
        Where most of them end at places of their own, there are others: more scouts set out.
        """
        if refined == 1 or not self._can_scout(objective, refined):
            return begin_at_best(starts), 0
        few, found = coarsen(objective, 1.0, SCOUT_POINTS), list[Minimum]()
        each = SCOUTS * refined
        for first in range(0, _PARTIES * each, each):
            tried = np.asarray(starts.thetas)[first : first + each]
            found += [self._lead(few, as_jax(start), starts.ladder, _ROUGHLY) for start in tried]
            places = _tell_apart(objective, found)
            if len(places) <= _KNOWN * len(found):
                break
        calls = sum(int(minimum.calls) for minimum in found)
        begun = tuple(Beginning(place, (1.0,)) for place in places[:refined])
        return begun or begin_at_best(starts), calls

    def _can_scout(self, objective: Objective, refined: int) -> bool:
        """Whether calls are left for scouts, and for the searches that follow them."""
        if not is_tight():
            return True
        few = objective.simulator.search_calls(min(objective.m, SCOUT_POINTS), USUAL_STEPS)
        fits = refined * (SCOUTS * few + self.search_calls(objective)) <= calls_left()
        if not fits:
            tell_less()
        return fits

    def search_calls(self, objective: Objective) -> int:
        """Of one search, mostly."""
        return objective.simulator.search_calls(objective.m, USUAL_STEPS)

    def error_calls(self, objective: Objective, designs: int) -> int:
        """Of the errors of an estimate on so many designs, and a look at the ends of intervals."""
        looked = 2 * len(objective.widths) * objective.m
        return designs_calls(objective.simulator, objective.m, designs) + looked

    def search(
        self,
        objective: Objective,
        start: Float[Array, " p"],
        ladder: tuple[float, ...] = (1.0,),
        around: Landing | None = None,
    ) -> Landing:
        """From a start, down the ladder of lengthscales."""
        return Landing(self._lead(objective, start, ladder, TOLERANCE))

    def _lead(
        self,
        objective: Objective,
        start: Float[Array, " p"],
        ladder: tuple[float, ...],
        last: float,
    ) -> Minimum:
        calls, kept = 0, objective.simulator.slope_calls(objective.m)
        with _leave(self.search_calls(objective) if is_tight() else kept):
            for factor in ladder[:-1]:
                found = self._descend(take_rung(objective, factor), start, _LOOSE)
                start, calls = found.theta, calls + int(found.calls)
        found = self._descend(objective.stretch(np.float64(ladder[-1])), start, last)
        return found._replace(calls=as_jax(np.int64(calls + int(found.calls))))

    def _descend(
        self, objective: Objective, start: Float[Array, " p"], tolerance: float
    ) -> Minimum:
        end, whole = as_jax(np.float64(tolerance)), objective.runtime.compiles  # one for all ends
        return minimise(objective, start, steps=self.steps, tolerance=end, held=NONE, whole=whole)

    def look(
        self, key: Key[Array, ""], objective: Objective, landing: Landing, designs: Designs
    ) -> Look:
        """How the embedding moves at the minimum, and other designs there."""
        found, seen, calls = tangent_by_slopes(objective, landing.minimum.theta, designs)
        beside = len(designs.weights) - choose_joint(designs)
        kept = found._replace(
            at_designs=take_rows(found.at_designs, (slice(None), np.asarray(seen.enough)))
        )
        return Look(kept, seen.whole(), Calls(int(calls), beside * designs.weights.shape[1]))

    def make_room(
        self, objective: Objective, landing: Landing, shares: Float[Array, "b n"]
    ) -> tuple[Landing, int]:
        """The landing from which other weightings of the data are fitted: this one, at no calls."""
        return landing, 0

    def refit_each(
        self,
        objective: Objective,
        landing: Landing,
        observed: Float[Array, "b n d"] | None,
        shares: Float[Array, "b n"],
    ) -> Minimum:
        """The minimum of other data, or weightings of the data, from this one."""
        start, known = landing.minimum.theta, landing.minimum.known
        starts = jnp.broadcast_to(start, (len(shares), len(start)))
        return minimise_each(
            objective, observed, starts, shares=shares, model=gauss_newton_model, known=known
        )


def begin_at_best(starts: Starts) -> tuple[Beginning, ...]:
    """Where the simulations came nearest to the data."""
    return (Beginning(as_jax(np.asarray(starts.thetas)[0]), starts.ladder),)


def _tell_apart(objective: Objective, minima: list[Minimum]) -> list[Float[Array, " p"]]:
    """The different places among those of some minima, the best first."""
    fine = [minimum for minimum in minima if np.isfinite(minimum.value)]
    units, places = np.asarray(objective.units), list[np.ndarray]()
    thetas: list[Float[Array, " p"]] = []
    for minimum in sorted(fine, key=lambda minimum: float(minimum.value)):
        place = np.asarray(to_place(minimum.theta, objective.ends)) / units
        if all(np.abs(place - other).max() > _APART for other in places):
            places.append(place)
            thetas.append(minimum.theta)
    return thetas


@dataclass(frozen=True)
class ByRegression:
    """Quadratic regressions of the embedding over thetas, ever closer around the minimum."""

    steps: int = STEPS
    smooth: bool = False
    """Whether it is the squared MMD alone that is not: derivatives of the simulations are right."""
    rough = True
    more = 3

    def scout(
        self, objective: Objective, starts: Starts, refined: int
    ) -> tuple[tuple[Beginning, ...], int]:
        """At the best start: its first look is as wide as the prior."""
        return begin_at_best(starts), 0

    def search_calls(self, objective: Objective) -> int:
        return walk_calls(len(objective.widths), objective.m, 0)

    def error_calls(self, objective: Objective, designs: int) -> int:
        return (designs + scatter_size(len(objective.widths))) * objective.m

    def search(
        self,
        objective: Objective,
        start: Float[Array, " p"],
        ladder: tuple[float, ...] = (1.0,),
        around: Landing | None = None,
    ) -> Landing:
        begun = first_walk(objective, start)
        if around is not None and around.scatter is not None:
            begun = begun._replace(spread=around.scatter.spread)
        return self._walk_down(objective, begun, ladder)

    def search_near(
        self,
        objective: Objective,
        theta: Float[Array, " p"],
        covariance: Float[Array, "p p"],
        ladder: tuple[float, ...],
    ) -> Landing:
        """From an estimate whose errors are known about."""
        return self._walk_down(objective, walk_near(objective, theta, covariance), ladder)

    def _walk_down(self, objective: Objective, begun: Walk, ladder: tuple[float, ...]) -> Landing:
        with _leave(walk_calls(len(begun.v), objective.m, rungs=0, rounds=1)):
            for factor in ladder[:-1]:
                begun = walk(coarsen(objective, factor), begun, _ROUNDS_A_RUNG)
        ended = walk(objective, begun._replace(trail=()), _ROUNDS)
        return Landing(as_minimum(objective, ended), ended.scatter)

    def look(
        self, key: Key[Array, ""], objective: Objective, landing: Landing, designs: Designs
    ) -> Look:
        """Slopes are compared with those on other points, to know what is noise in them."""
        scatter = landing.scatter
        if scatter is None:
            raise ValueError(
                "the simulations fail around the estimate "
                f"{np.asarray(landing.minimum.theta)}; mend the generator or narrow the prior"
            )
        theta = landing.minimum.theta
        xi, y = scatter.xi_of(theta), simulate_designs(objective, theta, designs.points)
        seen = leave_out_failed(objective, y, designs.weights).whole()
        apart = designs if len(designs.weights) else draw_apart(key, objective)
        try:
            again, calls = scatter_around(objective, scatter.place(xi), scatter.spread, 0, apart)
        except OutOfCallsError:  # what the regression leaves over tells of noise, too
            again, calls = None, 0
        tangent = tangent_by_regression(scatter, xi, seen, again)
        return Look(tangent, seen, Calls(0, designs.weights.size + calls))

    def make_room(
        self, objective: Objective, landing: Landing, shares: Float[Array, "b n"]
    ) -> tuple[Landing, int]:
        """Wider regressions, while they hold more of the minima of other weightings."""
        calls, held = 0, _share_inside(landing.scatter, shares)
        for number in range(_WIDENED):
            scatter = landing.scatter
            if scatter is None or held > _INSIDE:
                break
            try:
                spread = _WIDER * scatter.spread
                wider, made = scatter_around(objective, scatter.centre, spread, _ROUNDS + number)
            except OutOfCallsError:
                break
            calls, before, held = calls + made, held, _share_inside(wider, shares)
            if wider is None or held <= before or bool(is_too_wide(wider)):
                break
            landing = Landing(as_minimum(objective, end_walk(wider)), wider)
        return landing, calls

    def refit_each(
        self,
        objective: Objective,
        landing: Landing,
        observed: Float[Array, "b n d"] | None,
        shares: Float[Array, "b n"],
    ) -> Minimum:
        assert landing.scatter is not None
        return refit_inside(landing.scatter, observed, shares)


Way = BySlopes | ByRegression


def _share_inside(scatter: Scatter | None, shares: Float[Array, "b n"]) -> float:
    """Of the minima of some weightings of the data, those that a regression can tell."""
    found = None if scatter is None else refit_inside(scatter, None, shares).converged
    return 0.0 if found is None else float(np.mean(found))


def walk_calls(p: int, m: int, rungs: int, rounds: int = _ROUNDS) -> int:
    """The rows that a search by regression simulates at most."""
    each = scatter_size(p)
    return each * (rungs * _ROUNDS_A_RUNG * comparison_points(m) + rounds * m)


@contextmanager
def _leave(calls: int) -> Iterator[None]:
    """Rungs that lead to the last one, as far as so many calls are left for it."""
    with suppress(OutOfCallsError), keep_back(calls):
        yield
