"""Measures whose coordinates depend on each other."""

from collections.abc import Callable
from math import log, pi
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import (
    as_array,
    as_covariance,
    as_rows,
    as_weights,
    brief,
    fails_in_jax,
    is_traced,
    tell_failure,
)
from owlfi._tools.display import write_arguments
from owlfi._tools.programs import compile_fully
from owlfi.measures.base import Measure, as_coordinates
from owlfi.measures.normal import Normal, ndtri

_CELLS = {1: 4096, 2: 512, 3: 64}  # a coordinate, of a density that is known as a function


class MultivariateNormal(Measure):
    """The normal distribution with a mean (s,) and a covariance (s, s).

    Raises ValueError for a covariance that is not symmetric and positive definite.

    >>> MultivariateNormal([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]]).log_density([0.0, 1.0]).round(6)
    Array(-1.694036, dtype=float64)
    """

    mean: Float[Array, " s"]
    covariance: Float[Array, "s s"]

    def __init__(self, mean: Any, covariance: Any):
        self.mean = as_array("mean", mean)
        if self.mean.ndim != 1 or not self.mean.size:
            raise ValueError(f"mean must have shape (s,), got shape {self.mean.shape}")
        self.covariance = as_covariance(covariance, self.dim)

    @classmethod
    def of_draws(cls, draws: Any, weights: Any = None) -> "MultivariateNormal":
        """That of the mean and covariance of draws (n, s), such as those of a former posterior.

        >>> MultivariateNormal.of_draws([[0.0, 0.0], [2.0, 1.0], [1.0, 2.0]]).mean
        Array([1., 1.], dtype=float64)
        """
        given = as_rows("draws", draws)
        rows, shares = np.asarray(given), np.ones(len(given))
        if weights is not None:
            shares = np.asarray(as_weights("weights", weights, given))
        if shares.min() < 0 or shares.sum() == 0:
            raise ValueError(f"weights must be at least 0 and not all 0, got {brief(weights)}")
        return cls(
            np.average(rows, axis=0, weights=shares), np.atleast_2d(np.cov(rows.T, aweights=shares))
        )

    def __repr__(self) -> str:
        numbers = [self.mean, self.covariance]
        return write_arguments(self, numbers if is_traced(self) else [x.tolist() for x in numbers])

    @property
    def dim(self) -> int:
        return self.mean.shape[0]

    @property
    def support(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        return as_jax(np.full(self.dim, -np.inf)), as_jax(np.full(self.dim, np.inf))

    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        """Each coordinate by its quantile given those before it."""
        moved = ndtri(v) @ jnp.linalg.cholesky(self.covariance).T
        return moved + self.mean.reshape((1,) * (v.ndim - 1) + (-1,))

    def log_density(self, u: Any) -> Float[Array, "..."]:
        u = as_coordinates("u", u, self.dim)
        root = jnp.linalg.cholesky(self.covariance)
        away = (u - self.mean.reshape((1,) * (u.ndim - 1) + (-1,))).reshape(-1, self.dim)
        scaled = jax.scipy.linalg.solve_triangular(root, away.T, lower=True)
        constant = jnp.log(jnp.diagonal(root)).sum() + 0.5 * self.dim * log(2 * pi)
        return (-0.5 * (scaled**2).sum(0) - constant).reshape(u.shape[:-1])

    def given(self, before: Float[np.ndarray, "n j"]) -> Normal:
        """Coordinate j given those before it, for each of n points, side by side."""
        mean, matrix, j = np.asarray(self.mean), np.asarray(self.covariance), before.shape[1]
        slopes = np.linalg.solve(matrix[:j, :j], matrix[:j, j]) if j else np.zeros(0)
        variance = matrix[j, j] - slopes @ matrix[:j, j]
        return Normal(mean[j] + (before - mean[:j]) @ slopes, np.full(len(before), variance**0.5))


class LogDensity(Measure):
    """A density inside a box, known by its logarithm up to a constant, in at most 3 dimensions.

    function: of a point (s,), in JAX or NumPy; -inf where nothing is. As a prior, nothing is
        drawn there; estimates keep to the box alone, and warn where they lie there.
    low, high: the ends of the box, (s,), finite.

    The density is exact but for its constant; points are drawn from cells of the box in which it is
    taken as flat, 4096, 512 or 64 a coordinate.

    Raises ValueError for ends that are not finite or not in order, more dimensions, and a function
    that gives no number, or is zero everywhere.

    >>> ring = LogDensity(lambda t: -50 * (t @ t - 1) ** 2, [-2.0, -2.0], [2.0, 2.0])
    >>> points = ring.sample(jax.random.key(0), 500)
    >>> bool(abs(np.mean(np.sum(np.asarray(points) ** 2, 1)) - 1) < 0.05)
    True
    """

    function: Callable[[Any], Any]
    low: Float[Array, " s"]
    high: Float[Array, " s"]
    log_mass: Float[Array, ""]
    shares: tuple[Float[Array, "..."], ...]
    """For each coordinate, the shares below the ends of its cells, given the cells before."""
    on_host: bool = eqx.field(static=True)

    def __init__(self, function: Any, low: Any, high: Any):
        self.function = function
        self.low, self.high = as_array("low", low), as_array("high", high)
        _check_box(self.low, self.high)
        self.on_host = fails_in_jax(function, jax.ShapeDtypeStruct((self.dim,), float))
        try:
            logs = np.asarray(self._evaluate(_midpoints(self.low, self.high)))
        except Exception as error:  # of its own, or where it gives no number
            raise ValueError(
                "function must be one of a point (s,) that gives the logarithm of a density, "
                f"{tell_failure(function, error)}"
            ) from error
        if np.isnan(logs).any() or not np.isfinite(logs.max()):
            raise ValueError(
                "function must give the logarithm of a density inside the box, got "
                f"{'NaN' if np.isnan(logs).any() else logs.max()} there"
            )
        cells = np.exp(logs - logs.max()).reshape((_CELLS[self.dim],) * self.dim)
        volume = float(np.prod(np.asarray(self.high - self.low))) / cells.size
        self.log_mass = as_jax(np.asarray(logs.max() + np.log(cells.sum() * volume)))
        self.shares = tuple(as_jax(each) for each in _conditional_shares(cells))

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        return (
            f"LogDensity({name}, {np.asarray(self.low).tolist()}, {np.asarray(self.high).tolist()})"
        )

    @property
    def dim(self) -> int:
        return self.low.shape[0]

    @property
    def support(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        return self.low, self.high

    @property
    def traceable(self) -> bool:
        return False  # cells are looked up on the host

    @property
    def traceable_density(self) -> bool:
        return not self.on_host

    def log_density(self, u: Any) -> Float[Array, "..."]:
        u = as_coordinates("u", u, self.dim)
        rows = u.reshape(-1, self.dim)
        inside = ((rows >= self.low[None]) & (rows <= self.high[None])).all(1)
        safe = jnp.where(inside[:, None], rows, 0.5 * (self.low + self.high)[None])
        found = self._evaluate(safe) - self.log_mass
        return jnp.where(inside, found, -jnp.inf).reshape(u.shape[:-1])

    def excludes(self, u: Float[Array, "n s"]) -> Bool[np.ndarray, " n"]:
        return np.isneginf(np.asarray(self.log_density(u)))

    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        levels = np.asarray(v).reshape(-1, self.dim)
        cells = np.zeros((len(levels), 0), int)
        places = []
        for j, shares in enumerate(self.shares):
            ends = np.asarray(shares)[tuple(cells.T)].reshape(-1, _CELLS[self.dim] + 1)
            ends = np.broadcast_to(ends, (len(levels), ends.shape[1]))
            cell, within = _find_cells(ends, levels[:, j])
            cells = np.column_stack([cells, cell])
            places.append((cell + within) / _CELLS[self.dim])
        low, high = np.asarray(self.low), np.asarray(self.high)
        points = low + np.stack(places, 1) * (high - low)
        return as_jax(points.reshape(v.shape))

    def _evaluate(self, rows: Any) -> Float[Array, " n"]:
        if self.on_host:
            return as_jax(np.array([float(self.function(row)) for row in np.asarray(rows)]))
        return _evaluate_each(self.function, jnp.asarray(rows))


@compile_fully
def _evaluate_each(function: Callable[[Any], Any], rows: Float[Array, "n s"]) -> Float[Array, " n"]:
    return jax.vmap(lambda row: jnp.asarray(function(row), float).reshape(()))(rows)


def _check_box(low: Array, high: Array) -> None:
    if low.ndim != 1 or low.shape != high.shape or not (np.asarray(low) < np.asarray(high)).all():
        raise ValueError(
            f"low must lie below high, one number a coordinate, got {np.asarray(low)} and "
            f"{np.asarray(high)}"
        )
    if len(low) not in _CELLS:
        raise ValueError(
            f"a density known as a function may have at most {max(_CELLS)} dimensions, got "
            f"{len(low)}; give independent groups of parameters a prior each, and join them by "
            "prior.beside(other)"
        )


def _midpoints(low: Array, high: Array) -> Float[np.ndarray, "n s"]:
    """Of all cells, the last coordinate fastest."""
    cells = _CELLS[len(low)]
    steps = (np.arange(cells) + 0.5) / cells
    unit = np.stack(np.meshgrid(*[steps] * len(low), indexing="ij"), -1).reshape(-1, len(low))
    return np.asarray(low) + unit * np.asarray(high - low)


def _conditional_shares(cells: np.ndarray) -> list[np.ndarray]:
    """For each coordinate j, the shares below each end, given the cells of those before it."""
    found = []
    for j in range(cells.ndim):
        mass = cells.sum(tuple(range(j + 1, cells.ndim)))
        total = mass.sum(-1, keepdims=True)
        even = np.full_like(mass, 1 / mass.shape[-1])  # cells that are never reached
        parts = np.divide(mass, total, out=even, where=total > 0)
        found.append(np.insert(np.cumsum(parts, -1), 0, 0.0, axis=-1))
    return found


def _find_cells(ends: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell that each level falls into, and how far into it."""
    wanted = levels * ends[:, -1]
    cell = np.minimum((ends[:, 1:] < wanted[:, None]).sum(1), ends.shape[1] - 2)
    rows = np.arange(len(cell))
    start, width = ends[rows, cell], ends[rows, cell + 1] - ends[rows, cell]
    return cell, np.clip((wanted - start) / np.where(width > 0, width, 1.0), 0.0, 1.0)
