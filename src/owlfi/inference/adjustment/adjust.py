"""Where the accepted draws would lie if their simulations were those of the data.

The features of simulations are regressed on theta over the accepted draws. What the data then say
is prior(theta) · N(features of the data; regression at theta, noise of the data and of the points,
and what the regression leaves), of which draws are made inside the accepted cloud.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import gammaincc

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import from_real
from owlfi.inference.adjustment.anneal import draw_by_annealing
from owlfi.inference.adjustment.cloud import Cloud, gather_clouds, spread_within
from owlfi.inference.adjustment.features import Features
from owlfi.inference.adjustment.noise import Gaps, Noise, measure_gaps
from owlfi.inference.adjustment.polynomial import Polynomial, degrees_for, regress
from owlfi.inference.adjustment.redrawn import Redrawn, compare_designs
from owlfi.inference.adjustment.slopes import Scatter, assess_slope
from owlfi.problem.prior import Prior, log_prior
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations

DRAWS = 1000
_SAMPLES = 20  # of the nearest parameters, to know the scatter of rows by
_REACH = 4  # times the accepted draws, in the widest cloud
_HELD = 0.3  # of the variance of a cloud, that of the adjusted draws: its edge cuts off none
_ROWS_A_FEATURE = 10
_EDGE, _MANY_AT_EDGE = 0.5, 0.1  # of the largest leverage; of the draws
_UNEXPLAINED = 1e-4
_COARSE = 1.0  # times the noise of the data, what a regression leaves
_NOISE_DRAWS = 128


class Sight(NamedTuple):
    """One way to look at runs: how far they are from the data, and what is compared of them."""

    measure: Callable[[Simulations], Float[np.ndarray, " t"]]
    choose: Callable[[Float[Array, "r m d"]], Features]
    """The features, by samples of the model near the data."""


class View(NamedTuple):
    """Runs in the order of their distance by one sight, and clouds of the nearest."""

    choose: Callable[[Float[Array, "r m d"]], Features]
    runs: Simulations
    clouds: list[Cloud]


class Seen(NamedTuple):
    """The features of the draws of a cloud, and those of the data."""

    at_draws: Float[np.ndarray, "n q"]
    some: Int[np.ndarray, " k"]
    scatter: Float[np.ndarray, "k q q"]
    """The covariance at some of them, over samples of as many rows as the data have."""
    observed: Float[np.ndarray, " q"]
    design: Float[np.ndarray, " q"]
    """The variance that the choice of the design adds."""
    slopes: Scatter
    middle: Float[np.ndarray, " p"] | None
    """Where on the real line other designs were looked at."""


class Look(NamedTuple):
    """Features of one sight, their regression over a cloud, and how much they tell."""

    cloud: Cloud
    observed: Float[np.ndarray, " r"]
    """Those of the data, of the features that change most over the cloud."""
    noise: Noise
    regression: Polynomial
    place: Float[np.ndarray, " p"]
    shrink: Float[np.ndarray, "p p"]
    """Steps from a place near the data count by this, since some of the slopes there is chance."""
    information: float
    """The log determinant of what they tell of v, less what may be chance."""
    reach: float
    """The variance of draws by them, in units of the cloud's."""
    seen: int
    """Directions of which they tell more than the prior does."""
    reach_seen: float
    """Along these; 0 where there are none."""

    def measure(self, xi: Float[np.ndarray, "n p"]) -> Gaps:
        """How far the data are from what the regression gives at each ξ."""
        counted = self.place + (xi - self.place) @ self.shrink.T
        gaps = self.observed - self.regression.at(counted)
        return measure_gaps(gaps, self.noise.at(xi, self.regression.variance(xi)))


class Adjusted(NamedTuple):
    """The draws, what is known of them, and what is wrong."""

    thetas: Float[Array, "n p"]
    about: dict[str, Any]
    warnings: tuple[str, ...]


def adjust_draws(
    random: np.random.Generator, problem: Problem, views: list[View], redrawn: Redrawn | None = None
) -> Adjusted:
    """Draws of what the nearest runs say of theta, by the view that tells most."""
    look = _choose_look(problem, views, redrawn)
    density, farthest = _log_density(problem.prior, look)
    xi = draw_by_annealing(random, density, len(look.cloud.centre), DRAWS)
    thetas = from_real(as_jax(look.cloud.place(xi)), problem.prior.bounds)
    left_over = float(look.regression.left.mean() / look.noise.mean)
    about = {
        "support": look.regression.worth,
        "degree": look.regression.degree,
        "features": len(look.observed),
        "left_over": left_over,
    }
    at_edge = np.mean(look.regression.leverage(xi) > _EDGE * farthest)
    told = (*_tell_coarse(left_over), *_tell_edge(float(at_edge)), *_tell_misfit(look, xi))
    return Adjusted(thetas, about, told)


def view_runs(
    problem: Problem,
    sights: list[Sight],
    runs: Simulations,
    importance: Float[np.ndarray, " t"],
    count: int,
) -> list[View]:
    """The nearest of some runs, by each sight.

    count: how many are accepted.

    Raises UnadjustableError where they are too few for a regression.
    """
    views = []
    for measure, choose in sights:
        found = measure(runs)
        nearest = np.argsort(found, kind="stable")[: _REACH * count]
        near = runs.at(nearest)
        clouds = gather_clouds(problem, near, found[nearest], importance[nearest], count)
        views.append(View(choose, near, clouds))
    return views


def _choose_look(problem: Problem, views: list[View], redrawn: Redrawn | None) -> Look:
    """The sight, the size of the cloud and the degree that tell most of theta.

    Of clouds that hold what they tell, since narrower ones would cut it off; where none does, the
    one that cuts off least.
    """
    n, widths = len(problem.observed), np.asarray(problem.prior.real_widths())
    most, looks = max(len(widths), n // _ROWS_A_FEATURE), []
    for choose, near, clouds in views:
        features = choose(near.y[:_SAMPLES] if redrawn is None else redrawn.others)
        compared = compare_designs(problem, features, near, redrawn)
        at_draws = features.of(near.y, near.quadrature.weights)
        chosen = [_choose_some(len(cloud.xi)) for cloud in clouds]
        known = np.unique(np.concatenate(chosen))
        chosen_runs = near.at(known)
        scatter = features.scatter_of(chosen_runs.y, chosen_runs.quadrature.shares) / n
        for cloud, some in zip(clouds, chosen, strict=True):
            known_some = scatter[np.searchsorted(known, some)]
            mended = at_draws[: len(cloud.xi)] + compared.lacking(cloud.place(cloud.xi))
            parts = features.observed, compared.design, compared.slopes, compared.middle
            seen = Seen(mended, some, known_some, *parts)
            for degree in degrees_for(len(widths), cloud.worth):
                looks.append(_look(cloud, seen, degree, most, widths))
    if holding := [look for look in looks if look.reach < _HELD]:
        return max(holding, key=lambda look: look.information)
    most_seen = max(look.seen for look in looks)  # what changes nothing is held by none
    seeing = [look for look in looks if look.seen == most_seen]
    if holding := [look for look in seeing if look.reach_seen < _HELD]:
        return max(holding, key=lambda look: look.information)
    return min(seeing, key=lambda look: look.reach_seen)


def _look(
    cloud: Cloud, seen: Seen, degree: int, most: int, widths: Float[np.ndarray, " p"]
) -> Look:
    polynomial, left = regress(cloud.xi, seen.at_draws, cloud.weights, degree)
    fitted = polynomial.at(cloud.xi)
    change = np.sqrt(cloud.weights)[:, None] * (fitted - cloud.weights @ fitted)
    directions = np.linalg.svd(change, full_matrices=False)[2][:most].T
    regression = polynomial.combine(directions, cloud.weights @ (left @ directions) ** 2)
    design = seen.design @ directions**2
    scatter = directions.T @ seen.scatter @ directions
    noise = Noise(cloud.xi[seen.some], cloud.weights[seen.some], scatter, design)
    wanted = seen.observed @ directions
    covariances = noise.at(cloud.xi, regression.left)
    nearest = np.argmin(measure_gaps(seen.at_draws @ directions - wanted, covariances)[0])
    place = _anchor(cloud, regression, seen.middle, cloud.xi[nearest])
    around = noise.at(place[None], regression.left)[0]
    apart = seen.slopes.apart(cloud, place, regression) @ directions
    slope = assess_slope(regression.slope(place), around, apart)
    known = (cloud.root / widths[:, None]) ** 2
    prior = np.diag(known.sum(0))
    sizes = np.maximum(np.linalg.eigvalsh(slope.told + prior), np.finfo(float).tiny)
    information = float(np.log(sizes).sum()) - 2 * cloud.log_volume - slope.doubt
    gaps = measure_gaps(fitted @ directions - wanted, covariances)
    seen_by = slope.told + prior
    reach = _measure_reach(cloud, seen_by, gaps, np.eye(len(place)))
    values, axes = np.linalg.eigh(slope.told)
    axes = axes[:, values > np.einsum("pa,pq,qa->a", axes, prior, axes)]
    shown = (information, reach, axes.shape[1], _measure_reach(cloud, seen_by, gaps, axes))
    return Look(cloud, wanted, noise, regression, place, slope.shrink, *shown)


def _measure_reach(
    cloud: Cloud, told: Float[np.ndarray, "p p"], gaps: Gaps, axes: Float[np.ndarray, "p a"]
) -> float:
    """The largest variance along some axes of what is told, in units of the cloud's."""
    if not axes.shape[1]:
        return 0.0
    least = max(float(np.linalg.eigvalsh(axes.T @ told @ axes)[0]), np.finfo(float).tiny)
    return max(1 / least, spread_within(cloud, gaps, axes))  # a slope may be that of one place


def _anchor(
    cloud: Cloud,
    regression: Polynomial,
    middle: Float[np.ndarray, " p"] | None,
    nearest: Float[np.ndarray, " p"],
) -> Float[np.ndarray, " p"]:
    """The middle, where the cloud has it, since errors of the design are known there."""
    if middle is None:
        return nearest
    there = np.linalg.solve(cloud.root, middle - cloud.centre)
    inside = regression.leverage(there[None]) <= regression.leverage(cloud.xi).max()
    return there if inside.all() else nearest


def _choose_some(count: int) -> Int[np.ndarray, " k"]:
    """From the nearest to the farthest, as many as it takes to know how noise changes."""
    return np.linspace(0, count - 1, min(count, _NOISE_DRAWS)).astype(int)


def _log_density(prior: Prior, look: Look) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """Of ξ, -∞ farther out than the farthest draw, and the leverage of that."""
    cloud = look.cloud
    farthest = float(look.regression.leverage(cloud.xi).max())

    def log_density(xi: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        distance, size = look.measure(xi)
        known = np.asarray(log_prior(prior, as_jax(cloud.place(xi))))
        total = known - 0.5 * (distance + size)
        inside = (look.regression.leverage(xi) <= farthest) & np.isfinite(total)
        return np.where(inside, total, -np.inf)

    return log_density, farthest


def _tell_coarse(left_over: float) -> tuple[str, ...]:
    """Of a regression that knows less than the data do."""
    if left_over <= _COARSE:
        return ()
    return (
        f"what the regression leaves of the simulations is {left_over:.2g} times the noise of the "
        "data: the adjusted draws are wider than the data leave open, and only as good as it is; "
        "simulate more parameters near the data (sequential_abc), or narrow the prior",
    )


def _tell_edge(share: float) -> tuple[str, ...]:
    if share <= _MANY_AT_EDGE:
        return ()
    return (
        f"{share:.0%} of the adjusted draws lie at the edge of the accepted ones, beyond which "
        "nothing is known; accept a larger share, or simulate more parameters near the data",
    )


def _tell_misfit(look: Look, xi: Float[np.ndarray, "n p"]) -> tuple[str, ...]:
    """Of data whose features the regression reaches nowhere."""
    least = look.measure(xi)[0].min()
    if gammaincc(len(look.observed) / 2, least / 2) >= _UNEXPLAINED:
        return ()
    return (
        "the features of the data are not those of simulations at any of the adjusted draws: the "
        "model does not fit, or the accepted draws are far from the data; see goodness_of_fit, or "
        "simulate more parameters",
    )
