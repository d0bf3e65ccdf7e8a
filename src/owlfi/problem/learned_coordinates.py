"""Coordinates of the noise along which simulations vary most, learned from some of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_rows
from owlfi._tools.programs import compile_fully
from owlfi.kernels import Kernel, as_kernel
from owlfi.measures import Measure, by_scores, scores_of
from owlfi.points.sequences import sobol
from owlfi.problem.pilot_spread import spread_factors, spread_of
from owlfi.problem.simulations import as_thetas, simulate
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.weights.data_grams import are_enough
from owlfi.weights.directions import bound_slopes, leading_directions, regress_directions, rotate
from owlfi.weights.quadrature import unweighted

SLOPE_ROWS = 768
"""Over all thetas, at which derivatives are taken."""
_MOST_SLOPE_ROWS = 256  # at one
_MOST_PROBES = 16  # products with random vectors tell as much of more columns
_NUMBERS_AT_ONCE = 2**22


class Learned(NamedTuple):
    """The noise in learned coordinates, or as it was given where nothing was found."""

    measure: Measure
    calls: int
    """Rows that the simulator computed."""


def learn_coordinates(
    key: Key[Array, ""],
    simulator: Simulator,
    data_kernel: Any,
    thetas: Any,
    *,
    observed: Float[Array, "n d"] | None = None,
    rows: int = 256,
) -> Learned:
    """The noise of a simulator in coordinates of which the first matter most to k.

    thetas: (t, p), or (p,) for one.
    observed: the simulations at each theta are taken to spread as far as these; as they do where
        left out.
    rows: how many are simulated at each theta where the simulator has no derivatives.

    By the derivatives of y by u at 256 points, or at 768 over all thetas, where the simulator is a
    JAX function; by regression of what k sees of the rows on u elsewhere. Where neither shows
    anything, the measure is the one that was given. Point sets of the measure found fill the
    leading directions most evenly, and `tuned_weights` with it look along them; its law is that of
    the noise.

    Raises ValueError for thetas of the wrong shape.

    >>> import owlfi
    >>> walk = lambda theta, u: theta[0] * u.sum(1, keepdims=True)
    >>> model = owlfi.Simulator(walk, owlfi.Normal(dim=50), ["step"])
    >>> k = owlfi.SquaredExponential(5.0)
    >>> found = owlfi.learn_coordinates(jax.random.key(0), model, k, [1.0]).measure
    >>> np.abs(found.rotation.directions).round(3)[:3, 0], found.shares.round(3)
    (array([0.141, 0.141, 0.141]), Array([1.], dtype=float64))
    """
    k, rows = as_kernel(data_kernel), as_count("rows", rows)
    thetas = as_thetas(thetas, as_simulator(simulator).parameters)
    calls = 0
    if simulator.runtime.differentiates:
        measure, calls = _learn_from_slopes(key, simulator, k, thetas, observed)
        if measure is not simulator.measure.law:
            return Learned(measure, calls)
    u = _draw_each(key, simulator.measure, len(thetas), rows)
    runs = simulate(simulator, thetas, unweighted(u), check=False, keep_failed=True)
    found = learn_from_runs(simulator.measure, k, u, runs.y, observed)
    return Learned(found, calls + runs.calls)


def learn_from_runs(
    measure: Measure,
    data_kernel: Kernel,
    u: Float[Array, "*t m s"],
    y: Float[Array, "t m d"],
    observed: Float[Array, "n d"] | None = None,
) -> Measure:
    """The noise in coordinates found by regression, as it was given where that explains nothing.

    u, y: runs at some thetas, on one design or each on its own; rows that failed are left out.
    """
    kept = are_enough(y)
    if not kept.any():
        return measure.law
    designs = np.broadcast_to(u, (len(y), *u.shape[-2:]))[kept]
    rows = np.asarray(y)[kept]
    seen = np.stack([_see(data_kernel, as_jax(sample)) for sample in rows])
    scaled = _scale_each(data_kernel, observed, rows) * seen
    return rotate(measure, regress_directions(scores_of(measure.law, as_jax(designs)), scaled))


def _learn_from_slopes(
    key: Key[Array, ""],
    simulator: Simulator,
    k: Kernel,
    thetas: Float[Array, "t p"],
    observed: Float[Array, "n d"] | None,
) -> Learned:
    law, t, probes = simulator.measure.law, len(thetas), _choose_probes(simulator, k)
    room = _NUMBERS_AT_ONCE // (t * len(probes) * law.dim)
    rows = max(1, min(_MOST_SLOPE_ROWS, SLOPE_ROWS // t, room))
    u, y, slopes = _draw_each(key, law, t, rows), [], []
    for theta, own in zip(np.asarray(thetas), np.asarray(u), strict=True):
        found, pulled = _pull_back(simulator, k, as_jax(theta), as_jax(own), probes)
        y.append(np.asarray(found))
        slopes.append(by_scores(law, as_jax(own), np.asarray(pulled)).swapaxes(0, 1))
    factors = _scale_each(k, observed, np.stack(y))
    bounded = [bound_slopes(f * j) for f, j in zip(factors, slopes, strict=True)]
    return Learned(rotate(law, leading_directions(np.concatenate(bounded))), t * rows)


@compile_fully
def _pull_back(
    simulator: Simulator, k: Kernel, theta: Array, u: Array, probes: Float[Array, "e c"]
) -> tuple[Float[Array, "m d"], Float[Array, "e m s"]]:
    """y, and the derivatives by u of the products of what k sees of it with the probes."""

    def run(u: Array) -> tuple[Array, Array]:
        y = simulator.rows(theta, u)
        return _see(k, y), y

    seen, pull, y = jax.vjp(run, u, has_aux=True)
    return y, jax.lax.map(lambda probe: pull(jnp.broadcast_to(probe, seen.shape))[0], probes)


def _choose_probes(simulator: Simulator, k: Kernel) -> Float[Array, "e c"]:
    """All columns, or random vectors p with E pᵀp = 1 where there are many."""
    y = jax.eval_shape(simulator.rows, *simulator.shapes())
    columns = jax.eval_shape(_see, k, y).shape[1]
    if columns <= _MOST_PROBES:
        return as_jax(np.eye(columns))
    draws = np.random.default_rng(0).standard_normal((_MOST_PROBES, columns))
    return as_jax(draws / _MOST_PROBES**0.5)


def _see(k: Kernel, rows: Float[Array, "m d"]) -> Float[Array, "m c"]:
    """Rows in coordinates of whose distances k is a function, as far as that is known."""
    transform, inner = k.mapped()
    to_coordinates = inner.distance_coordinates()
    return transform(rows) if to_coordinates is None else to_coordinates(transform(rows))


def _scale_each(
    k: Kernel, observed: Float[Array, "n d"] | None, y: Float[np.ndarray, "t m d"]
) -> Float[np.ndarray, "t 1 1"]:
    """What brings the rows that k sees at each theta to the spread of the observations."""
    if k.mapped()[1].distance_coordinates() is None:
        distances = [spread_of(_see(k, as_jax(rows)), 1.0) for rows in y]
        return 1 / np.array(distances)[:, None, None]
    if observed is None:
        return np.ones((len(y), 1, 1))
    return spread_factors(k, as_rows("observed", observed, y.shape[-1]), y)


def _draw_each(key: Key[Array, ""], measure: Measure, t: int, rows: int) -> Float[Array, "t m s"]:
    """Points of each theta's own, which together fill the noise evenly."""
    u = np.asarray(sobol(key, t * rows, measure.law))
    return as_jax(u.reshape(rows, t, -1).swapaxes(0, 1))
