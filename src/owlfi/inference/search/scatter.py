"""The model around a centre by regression: for simulators whose derivatives say nothing.

Simulated at thetas scattered around the centre, on the same noise, embeddings are regressed on
theta: μ(v) ≈ Σ_t c_t(v) μ_t with c quadratic in v. Jumps, counts and chaos average out.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from owlfi._tools.arrays import as_jax, take_rows
from owlfi._tools.programs import compile_quickly
from owlfi._tools.ranks import lift
from owlfi.inference.search.designs import Designs
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.objective import (
    Finished,
    Objective,
    simulate_each,
    simulate_in_turn,
)
from owlfi.inference.search.places import from_place, keep_within, steepness, to_place
from owlfi.inference.search.tangent import independent_error
from owlfi.kernels import Kernel
from owlfi.measures import Uniform
from owlfi.points.sequences import sobol
from owlfi.problem.spending import afford

EDGE = 3**0.5  # of the cube in which thetas are scattered, with variance 1 a coordinate
_PER_TERM = 4  # thetas for each term of the regression
_MOST_PRODUCTS = 6  # parameters whose products are terms, too
_POOR_FIT = 0.02  # of the variation of embeddings
_CANDIDATES = 1024
_POLISHING = 20
_GROUPS = 10  # of thetas


class Scatter(eqx.Module):
    """Simulations at thetas around a centre, and the regression of their embeddings.

    Places are centre + spread ξ; thetas lie in the cube of ξ up to `EDGE`, inside of the prior.
    """

    objective: Objective
    centre: Float[Array, " p"]
    spread: Float[Array, "p p"]
    y: Float[Array, "t m d"]
    weights: Float[Array, "t m"]
    fine: Bool[Array, "t m"]
    """Which simulations did not fail."""
    regression: Float[Array, "b t"]
    """From embeddings to the terms of their polynomial in ξ."""
    products: Float[Array, "t t"]
    """⟨μ_t, μ_s⟩."""

    def place(self, xi: Float[Array, "... p"]) -> Float[Array, "... p"]:
        """Where ξ is."""
        return lift(self.centre, xi.ndim) + xi @ self.spread.T

    def theta(self, xi: Float[Array, "... p"]) -> Float[Array, "... p"]:
        """The parameters there."""
        return from_place(self.place(xi), self.objective.ends)

    def xi_of(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """The inverse of `theta`."""
        place = to_place(theta, self.objective.ends)
        return jnp.linalg.solve(self.spread, place - self.centre)

    def keep(self, xi: Float[Array, " p"]) -> Float[Array, " p"]:
        """The nearest in the cube and the prior."""
        place = keep_within(self.place(jnp.clip(xi, -EDGE, EDGE)), self.objective.ends)
        return jnp.linalg.solve(self.spread, place - self.centre)

    def steepness(self, xi: Float[Array, " p"]) -> Float[Array, " p"]:
        """The derivative of theta by its place."""
        return steepness(self.place(xi), self.objective.ends)

    def mixture(self, xi: Float[Array, " p"]) -> Float[Array, " t"]:
        """c(ξ): the embedding there as a mixture of those simulated."""
        return terms(xi) @ self.regression

    def at_rows(self, x: Float[Array, "n d"]) -> Float[Array, "t n"]:
        """Each embedding at some rows: Σ_j w_j k(x_i, y_tj)."""
        k = self.objective.data_kernel
        return jax.lax.map(lambda pair: k.row_sums(x, pair[0], pair[1]), (self.y, self.weights))


class Found(NamedTuple):
    """The minimum inside the cube."""

    xi: Float[Array, "... p"]
    value: Float[Array, "..."]
    inside: Bool[Array, "..."]


def scatter_around(
    objective: Objective,
    centre: Float[Array, " p"],
    spread: Float[Array, "p p"],
    number: int,
    designs: Designs | None = None,
) -> tuple[Scatter | None, int]:
    """Simulations around a centre, None where too many of them fail, and the calls they took.

    number: of the scatter, so that no two in a search are alike.
    designs: on which thetas take turns, in place of the points of the objective.
    """
    p, count = len(centre), scatter_size(len(centre))
    afford(1, count * objective.m)
    middle, scaled = np.asarray(centre)[None], np.asarray(_cube(number, count, p)) @ spread.T
    places = keep_within(as_jax(middle + scaled), objective.ends)
    xi = np.linalg.solve(spread, (places - middle).T).T
    y, w = _simulate(objective, from_place(places, objective.ends), designs)
    calls, fine = count * objective.m, np.asarray(_are_enough(objective, y, w))
    if fine.sum() < count / 2:
        return None, calls
    kept = (as_jax(np.asarray(array)[fine]) for array in (xi, y, w))
    return _regress(objective, centre, spread, *kept), calls


def _simulate(
    objective: Objective, thetas: Float[Array, "t p"], designs: Designs | None
) -> tuple[Float[Array, "t m d"], Float[Array, "t m"]]:
    """Rows and weights at each theta."""
    if designs is None:
        same = np.broadcast_to(objective.weights, (len(thetas), objective.m))
        return simulate_each(objective, thetas), as_jax(same)
    turns = np.arange(len(thetas)) % len(designs.weights)
    return simulate_in_turn(objective, thetas, designs.points), take_rows(designs.weights, turns)


@lru_cache
def scatter_size(p: int) -> int:
    """How many thetas are scattered."""
    return _PER_TERM * jax.eval_shape(terms, jax.ShapeDtypeStruct((p,), float)).shape[0]


@compile_quickly
def _are_enough(
    objective: Objective, y: Float[Array, "t m d"], weights: Float[Array, "t m"]
) -> Bool[Array, " t"]:
    return jax.lax.map(lambda pair: _leave_out(objective, *pair).enough, (y, weights))


def _leave_out(objective: Objective, y: Array, weights: Array) -> Finished:
    return objective.on(objective.points, weights).finished(y)


@compile_quickly
def _regress(
    objective: Objective, centre: Array, spread: Array, xi: Array, y: Array, weights: Array
) -> Scatter:
    finished = jax.vmap(_leave_out, (None, 0, 0))(objective, y, weights)
    y, w = finished.y, finished.weights
    regression = jnp.linalg.pinv(jax.vmap(terms)(xi))
    products = _multiply(objective.data_kernel, y, w)
    return Scatter(objective, centre, spread, y, w, finished.fine, regression, products)


def _multiply(k: Kernel, y: Float[Array, "t m d"], w: Float[Array, "t m"]) -> Float[Array, "t t"]:
    """⟨μ_t, μ_s⟩ = Σ w_ti w_sj k(y_ti, y_sj), each pair of groups of thetas once."""
    count, size = len(w), -(-len(w) // _GROUPS)
    groups = -(-count // size)
    filled = np.arange(groups * size) % count
    y, w = (rows[filled].reshape(groups, size, *rows.shape[1:]) for rows in (y, w))
    one, other = np.triu_indices(groups)

    def multiply(pair: tuple[Array, Array]) -> Array:
        weights = w[pair[0]]
        rows = y[pair[0]].reshape(-1, y.shape[-1])

        def sum_up(theta: tuple[Array, Array]) -> Array:
            return (k.row_sums(rows, *theta).reshape(weights.shape) * weights).sum(1)

        return jax.lax.map(sum_up, (y[pair[1]], w[pair[1]]))

    found = jax.lax.map(multiply, (jnp.asarray(one), jnp.asarray(other)))
    products = jnp.zeros((groups, size, groups, size))
    products = products.at[other, :, one].set(found).at[one, :, other].set(found.swapaxes(1, 2))
    return products.reshape(groups * size, -1)[:count, :count]


@compile_quickly
def look_through(scatter: Scatter, data_kernel: Kernel) -> Scatter:
    """The same simulations with another kernel."""
    objective = eqx.tree_at(lambda o: o.data_kernel, scatter.objective, data_kernel)
    products = _multiply(data_kernel, scatter.y, scatter.weights)
    return eqx.tree_at(lambda s: (s.objective, s.products), scatter, (objective, products))


def terms(xi: Float[Array, " p"]) -> Float[Array, " b"]:
    """1, ξ_a, and ξ_a ξ_b; of many parameters the squares alone."""
    p = xi.shape[0]
    rows, columns = np.triu_indices(p) if p <= _MOST_PRODUCTS else (np.arange(p), np.arange(p))
    return jnp.concatenate([jnp.ones(1), xi, xi[rows] * xi[columns]])


def minimise_inside(scatter: Scatter) -> Found:
    """The minimum of the regression's squared MMD to the observations."""
    shares = scatter.objective.shares[None]
    found = _refit_each(scatter, None, shares, _candidates(scatter.centre.shape[0]))
    return jax.tree.map(lambda leaf: leaf[0], found)


@lru_cache(maxsize=8)
def _candidates(p: int) -> Float[Array, "c p"]:
    """Where a minimum is looked for first."""
    return as_jax(np.concatenate([np.zeros((1, p)), _cube(1, _CANDIDATES, p)]))


@lru_cache(maxsize=64)
def _cube(number: int, count: int, p: int) -> Float[Array, "n p"]:
    """Evenly spread points ξ."""
    cube = sobol(jax.random.fold_in(jax.random.key(0), number), count, Uniform(dim=p))
    return as_jax(EDGE * (2 * np.asarray(cube) - 1))


@compile_quickly
def _minimise_each(
    scatter: Scatter, at_data: Array, shares: Array, candidates: Float[Array, "c p"]
) -> Found:
    def fit(share: Array) -> Found:
        towards = at_data @ share

        def value(xi: Array) -> Array:
            c = scatter.mixture(xi)
            return c @ (scatter.products @ c) - 2 * c @ towards

        start = inside[jnp.argmin(jax.vmap(value)(inside))]
        xi = _polish(value, start, scatter.keep)
        return Found(xi, value(xi), (jnp.abs(xi) < 0.98 * EDGE).all())

    inside = jax.vmap(scatter.keep)(candidates)
    return jax.lax.map(fit, shares)


def _polish(value: Callable[[Array], Array], start: Array, keep: Callable[[Array], Array]) -> Array:
    """Damped Newton steps inside the cube and the prior."""
    slope, bend = jax.grad(value), jax.hessian(value)

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        xi, damping = state
        sizes, directions = jnp.linalg.eigh(bend(xi))
        damped = jnp.abs(sizes) + damping * jnp.abs(sizes).max() + jnp.finfo(float).tiny
        moved = keep(xi - directions @ (directions.T @ slope(xi) / damped))
        better = value(moved) < value(xi)
        return (jnp.where(better, moved, xi), jnp.where(better, damping / 4, damping * 8)), None

    return jax.lax.scan(step, (start, jnp.array(1e-3)), length=_POLISHING)[0][0]


def rest_of(scatter: Scatter) -> Float[Array, "t t"]:
    """What is left of an embedding once the polynomial is taken off, as mixtures of all."""
    fitted = jnp.linalg.pinv(scatter.regression) @ scatter.regression
    return jnp.eye(fitted.shape[0]) - fitted


def left_over(scatter: Scatter) -> Float[Array, ""]:
    """Σ_t |μ_t - its polynomial|²."""
    rest = rest_of(scatter)
    return jnp.trace(rest @ scatter.products @ rest.T)


@compile_quickly
def is_too_wide(scatter: Scatter) -> Bool[Array, ""]:
    """Whether the polynomial misses more of the embeddings than jumps of the points explain."""
    left, count = left_over(scatter), scatter.products.shape[0]
    mean = jnp.eye(count) - 1 / count
    jumps = independent_error(scatter.objective, scatter.y[0]) * jnp.trace(rest_of(scatter))
    total = jnp.trace(mean @ scatter.products @ mean.T)
    return (left > _POOR_FIT * total) & (left > 2 * jumps)


def refit_inside(
    scatter: Scatter, observed: Float[Array, "b n d"] | None, shares: Float[Array, "b n"]
) -> Minimum:
    """The minimum of each weighting of the data, without another simulation."""
    p = scatter.centre.shape[0]
    with jax.ensure_compile_time_eval():
        candidates = _candidates(p)
    found = _refit_each(scatter, observed, shares, candidates)
    theta = scatter.theta(found.xi)
    none = jnp.zeros(len(theta), int)
    return Minimum(theta, found.value, none, found.inside, theta[:, None], found.value[:, None])


@compile_quickly
def _refit_each(
    scatter: Scatter, observed: Array | None, shares: Array, candidates: Float[Array, "c p"]
) -> Found:
    if observed is None:
        at_data = scatter.at_rows(scatter.objective.observed)
        return _minimise_each(scatter, at_data, shares, candidates)

    def refit(case: tuple[Array, Array]) -> Found:
        at_data = scatter.at_rows(case[0])
        found = _minimise_each(scatter, at_data, case[1][None], candidates)
        return jax.tree.map(lambda leaf: leaf[0], found)

    return jax.lax.map(refit, (observed, shares))
