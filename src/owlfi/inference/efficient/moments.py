"""Mean, covariance and slopes of the features under the model at some theta, by simulation.

On several designs of one rule: their spread is the error of the simulations, and two halves of them
check each other, as a kernel that was fitted to simulations looks better on these than it is.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.programs import compile_quickly
from owlfi._tools.real_line import log_slope, to_real
from owlfi.inference.efficient.features import Features, make_features
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.places import from_place
from owlfi.inference.search.scatter import Scatter, terms
from owlfi.inference.search.stage import Stage
from owlfi.problem.rules import Rule
from owlfi.problem.simulator import Simulator
from owlfi.problem.spending import afford, calls_left
from owlfi.weights.quadrature import unweighted

_ROWS = 768  # simulated at one theta, at least
_DESIGNS = 2, 8  # at least and at most
_FEW_DESIGNS = 4  # where calls are scarce
_LOOKS = 2  # of a round, without slopes


class Moments(NamedTuple):
    """Of the features at one theta, on host."""

    means: Float[np.ndarray, "r q"]
    """By design."""
    slopes: Float[np.ndarray, "2 q p"]
    """Of the mean by theta, from each half of the simulations."""
    covariances: Float[np.ndarray, "2 q q"]
    """Between rows, from each half of the simulations."""
    distances: Float[np.ndarray, " m"]
    """Of simulated rows from the model."""

    @property
    def mean(self) -> Float[np.ndarray, " q"]:
        return self.means.mean(0)


class Simulated(eqx.Module):
    """The model by simulations on all designs, at any place v on the real line."""

    objective: Objective
    """On the points of all designs together."""
    weights: Float[Array, "r m"]
    features: Features

    def fade(self, limit: float) -> "Simulated":
        """The same with features of rows near the model alone."""
        return eqx.tree_at(lambda s: s.features, self, self.features.fade(limit))

    def look(self, v: Float[Array, " p"]) -> tuple[Moments, int]:
        """Everything at a place, and the calls it took; none where they are not left."""
        afford(1, self.objective.simulator.slope_calls(self.objective.m))
        rows = self.objective.rows_with_slopes(v)
        steepness = np.exp(np.asarray(log_slope(v, self.objective.ends)))
        found = _moments(self, rows.y, rows.slopes)
        means, slopes, covariances, distances = map(np.asarray, found)
        return Moments(means, slopes / steepness, covariances, distances), rows.calls

    def mean(self, v: Float[Array, " p"]) -> tuple[Float[np.ndarray, " q"], int]:
        """The mean of the features alone."""
        y = self.objective.rows(v)
        return np.asarray(_means(self, y)).mean(0), len(y)

    def trace_mean(self, v: Float[Array, " p"]) -> Float[Array, " q"]:
        """The same inside of a program."""
        return _means(self, self.objective.rows(v)).mean(0)

    def thin(self, v: Float[Array, " p"], mean: Float[np.ndarray, " q"]) -> tuple["Thinned", int]:
        """On one design, for places near v, where all of them give a mean; and the calls of it."""
        m = self.weights.shape[1]
        first = self.objective.on(self.objective.points[:m], self.weights[0])
        one = Simulated(first, self.weights[:1], self.features)
        found, calls = one.mean(v)
        return Thinned(one, mean - found), calls


class Thinned(eqx.Module):
    """The model on one design, whose error near a place is that at the place."""

    model: Simulated
    shift: Float[np.ndarray, " q"]

    def mean(self, v: Float[Array, " p"]) -> tuple[Float[np.ndarray, " q"], int]:
        found, calls = self.model.mean(v)
        return found + self.shift, calls

    def trace_mean(self, v: Float[Array, " p"]) -> Float[Array, " q"]:
        """The same inside of a program."""
        return self.model.trace_mean(v) + self.shift


class Scattered(eqx.Module):
    """The model by regression over thetas around an estimate, for simulators that are rough.

    μ(v) = μ on the designs at the centre + what the regression says of the way from there.
    """

    scatter: Scatter
    near: Simulated
    """On the designs, for the centre."""
    known: Float[np.ndarray, "t q"]
    """The mean of the features at each of the scattered thetas."""
    centre: Moments

    @property
    def features(self) -> Features:
        return self.near.features

    def fade(self, limit: float) -> "Scattered":
        """The same with features of rows near the model alone; the centre is simulated again."""
        return model_scatter(self.scatter, self.near.fade(limit))[0]

    def look(self, v: Float[Array, " p"]) -> tuple[Moments, int]:
        steepness = np.asarray(self.scatter.steepness(self._xi(v)))
        halves = [
            self._slopes(v, half) / steepness for half in (slice(0, None, 2), slice(1, None, 2))
        ]
        means = self.centre.means + (self.mean(v)[0] - self.centre.mean)[None]
        return self.centre._replace(means=means, slopes=np.stack(halves)), 0

    def mean(self, v: Float[Array, " p"]) -> tuple[Float[np.ndarray, " q"], int]:
        at, here = (np.asarray(self.scatter.mixture(xi)) for xi in (self._xi(v), self._origin))
        return self.centre.mean + (at - here) @ self.known, 0

    def thin(self, v: Float[Array, " p"], mean: Float[np.ndarray, " q"]) -> tuple["Scattered", int]:
        """The same: it simulates nothing."""
        return self, 0

    @property
    def _origin(self) -> Array:
        return jnp.zeros_like(self.scatter.centre)

    def _xi(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        return self.scatter.xi_of(self.scatter.objective.theta_of(v))

    def _slopes(self, v: Float[Array, " p"], half: slice) -> Float[np.ndarray, "q p"]:
        """By every other theta, so that both halves have errors of their own."""
        polynomial = np.linalg.pinv(np.asarray(self.scatter.regression))[half]
        by_xi = np.asarray(jax.jacfwd(terms)(self._xi(v)))
        along = by_xi.T @ np.linalg.pinv(polynomial)
        return np.linalg.solve(np.asarray(self.scatter.spread).T, along @ self.known[half]).T


Model = Simulated | Scattered


def model_around(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    v: Float[Array, " p"],
    scatter: Scatter | None,
    least: int = 0,
) -> tuple[Model | None, int]:
    """The model around an estimate, and the calls it took; None where its simulations fail.

    scatter: simulations around the estimate, where the simulator is rough.
    least: how many designs at least, OutOfCallsError where calls do not do for them.
    """
    count = _pay_designs(stage, scatter is not None, least)
    points, weights = _draw(key, rule, stage, count + 1)
    first = stage.objective.on(points[0], weights[0])
    others = stage.objective.on(_flatten(points[1:]), _flatten(weights[1:]) / (len(weights) - 1))
    if scatter is None:
        rows = first.rows_with_slopes(v)
        y, slopes, calls = rows.y, rows.slopes, rows.calls
    else:
        y = first.rows(v)
        slopes, calls = jnp.zeros((0, *y.shape)), len(y)
    if not np.isfinite(np.asarray(y)).all():
        return None, calls
    features = make_features(y, slopes, stage.problem.observed)
    model = Simulated(others, weights[1:], features)
    if scatter is None:
        return model, calls
    found, more = model_scatter(scatter, model)
    return found, calls + more


def model_scatter(scatter: Scatter, near: Simulated) -> tuple[Scattered, int]:
    """The model around the centre of a scatter, and the calls of simulations there."""
    ends = near.objective.ends
    y = near.objective.rows(to_real(from_place(scatter.centre, ends), ends))
    means, _, covariances, distances = _moments(near, y, jnp.zeros((0, *y.shape)))
    parts: Any = map(np.asarray, (means, jnp.zeros((2, 0, 0)), covariances, distances))
    known = np.asarray(_means_at(near.features, scatter.y, scatter.weights))
    return Scattered(scatter, near, known, Moments(*parts)), len(y)


def count_designs(m: int) -> int:
    """Of m points, that are simulated at each theta."""
    return int(np.clip(2 * -(-_ROWS // (2 * m)), *_DESIGNS))


def least_calls(simulator: Simulator, m: int, rough: bool) -> int:
    """The calls of the model on as few designs as are enough, of one look and its steps."""
    first, each = _design_calls(simulator, m, rough)
    return first + min(_FEW_DESIGNS, count_designs(m)) * each


def _design_calls(simulator: Simulator, m: int, rough: bool) -> tuple[int, int]:
    """Of that for the features, and of each other one."""
    return (m, m) if rough else (simulator.slope_calls(m), simulator.slope_calls(m) + _LOOKS * m)


def _pay_designs(stage: Stage, rough: bool, least: int) -> int:
    """As many as the calls that are left do for; OutOfCallsError where they are too few."""
    m = stage.objective.m
    first, each = _design_calls(stage.problem.simulator, m, rough)
    paid = int(min(count_designs(m), 2 * ((calls_left() - first) // (2 * each))))
    afford(1, first + max(least, _DESIGNS[0]) * each)
    return paid


def _draw(key: Key[Array, ""], rule: Rule, stage: Stage, count: int) -> tuple[Array, Array]:
    """Designs of the rule, the first one for the features; independent ones where it has none."""
    m = stage.objective.m
    drawn = rule.redraw(key, stage.problem, stage.quadrature, count)
    if drawn is None:
        u = stage.problem.simulator.measure.sample(key, count * m)
        drawn = unweighted(u.reshape(count, m, -1))
    return drawn.points, drawn.weights


def _flatten(arrays: Float[Array, "r m ..."]) -> Float[Array, "n ..."]:
    return arrays.reshape(-1, *arrays.shape[2:])


@compile_quickly
def _moments(model: Simulated, y: Array, slopes: Array) -> tuple[Array, Array, Array, Array]:
    finished = model.objective.finished(y)
    moved = jnp.where(finished.fine[None, :, None], slopes, 0.0)
    means, along = jax.linearize(lambda rows: _average(model, rows, finished.weights), finished.y)
    turned = jax.lax.map(along, moved)
    by_half = jnp.stack([turned[:, 0::2].mean(1), turned[:, 1::2].mean(1)]).transpose(0, 2, 1)
    return means, by_half, *_spread(model, finished.y, finished.fine)


def _spread(model: Simulated, y: Array, fine: Array) -> tuple[Array, Array]:
    """Covariances with equal weights: others may make them indefinite."""
    r, m = model.weights.shape
    found, distances = model.features(y)
    cut, good = found.reshape(r, m, -1), fine.reshape(r, m)

    def spread(half: slice) -> Array:
        rows = cut[half].reshape(-1, cut.shape[2])
        shares = good[half].reshape(-1) / good[half].sum()
        centred = rows - (shares @ rows)[None]
        return (centred * shares[:, None]).T @ centred

    covariances = jnp.stack([spread(slice(0, None, 2)), spread(slice(1, None, 2))])
    return covariances, distances


def _average(model: Simulated, rows: Array, weights: Array) -> Float[Array, "r q"]:
    """The mean of the features on each design."""
    r, m = model.weights.shape
    weighted = model.features(rows)[0] * (weights * r)[:, None]
    return weighted.reshape(r, m, -1).sum(1)


@compile_quickly
def _means(model: Simulated, y: Array) -> Float[Array, "r q"]:
    finished = model.objective.finished(y)
    means = _average(model, finished.y, finished.weights)
    return jnp.where(finished.enough, means, jnp.nan)


@compile_quickly
def _means_at(features: Features, y: Array, weights: Array) -> Float[Array, "t q"]:
    return jax.lax.map(lambda pair: pair[1] @ features(pair[0])[0], (y, weights))
