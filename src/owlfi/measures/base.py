"""What a base measure is: the distribution of a simulator's noise u."""

import abc
from dataclasses import fields
from math import inf
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from owlfi._tools.arrays import as_jax, next_rung
from owlfi._tools.checks import as_array, as_count, as_rows, check_size, is_traced
from owlfi._tools.display import write_arguments, write_call
from owlfi._tools.keys import draw_levels
from owlfi._tools.programs import compile_quickly
from owlfi._tools.ranks import lift

_FEWEST = 512  # rows to compile quantiles for
_BISECTIONS = 50  # to the last digits of a level


class Measure(eqx.Module):
    """A probability measure on R^dim.

    >>> from owlfi.measures import Normal
    >>> isinstance(Normal(), Measure), Normal(dim=3).dim
    (True, 3)
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The number of coordinates s."""

    @property
    @abc.abstractmethod
    def support(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        """The lower and the upper end of each coordinate, perhaps infinite."""

    @abc.abstractmethod
    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        """`from_uniform` of levels that are known to be in order."""

    @abc.abstractmethod
    def log_density(self, u: Any) -> Float[Array, "..."]:
        """The log density at u (..., s), -inf outside the support.

        For discrete measures the log probability.
        """

    def excludes(self, u: Float[Array, "n s"]) -> Bool[np.ndarray, " n"]:
        """Which points inside of its ends have density 0 all the same: none of a family."""
        return np.zeros(len(u), bool)

    @property
    def law(self) -> "Measure":
        """The same distribution, in the coordinates that were given."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether its densities and quantiles can be computed inside jit, vmap and grad."""
        return self.traceable_density

    @property
    def traceable_density(self) -> bool:
        """Whether at least its densities can: the quantiles of many families are scipy's."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether simulations can be smooth in it, so that weights can help: not in seeds."""
        return True

    def from_uniform(self, v: Any) -> Float[Array, "... s"]:
        """Points of the measure from points of (0, 1)^s, so that every point set serves it.

        Raises ValueError for another number of columns, and for values outside [0, 1].
        """
        levels = as_coordinates("v", v, self.dim)
        if not is_traced(levels):
            outside = np.asarray(levels)[~((np.asarray(levels) >= 0) & (np.asarray(levels) <= 1))]
            if outside.size:
                raise ValueError(f"v must hold levels between 0 and 1, got {outside[0]}")
        if is_traced(levels, self) or not self.traceable:
            return self.at_levels(levels)
        rows = np.asarray(levels).reshape(-1, self.dim)
        padded = np.full((next_rung(max(len(rows), _FEWEST)), self.dim), 0.5)
        padded[: len(rows)] = rows
        found = np.asarray(_compiled_at_levels(self, padded))[: len(rows)]
        return as_jax(found.reshape(levels.shape))

    def to_levels(self, u: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "n s"]:
        """The inverse of `from_uniform`, by bisection of one group of coordinates after the other.

        Those of one group depend on none but those of groups before it.
        """
        found = np.full(u.shape, 0.5)
        for columns in self.ordered_columns:
            low, high = np.zeros_like(u[:, columns]), np.ones_like(u[:, columns])
            for _ in range(_BISECTIONS):
                found[:, columns] = middle = (low + high) / 2
                below = np.asarray(self.from_uniform(found))[:, columns] <= u[:, columns]
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            found[:, columns] = (low + high) / 2
        return found

    @property
    def ordered_columns(self) -> list[slice]:
        """Groups of coordinates that depend on none but those of groups before."""
        return [slice(j, j + 1) for j in range(self.dim)]

    def sample(self, key: Any, m: Any) -> Float[Array, "m s"]:
        """m independent draws."""
        shape = (as_count("m", m), self.dim)
        check_size("m", *shape)
        return self.from_uniform(draw_levels(key, shape))


@compile_quickly
def _compiled_at_levels(measure: Measure, levels: Any) -> Float[Array, "n s"]:
    return measure.at_levels(levels)


class Family(Measure):
    """Independent coordinates of one family, each parameter one number a coordinate."""

    ends: ClassVar[tuple[float, float]] = (-inf, inf)
    """Of the support, where it is the same whatever the parameters are."""

    @property
    def support(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        low, high = (np.full(self.dim, end) for end in self.ends)
        return jax.device_put((low, high))

    @abc.abstractmethod
    def as_scipy(self) -> Any:
        """The scipy.stats distribution with one entry a coordinate, for work on the host."""

    @abc.abstractmethod
    def coordinate_log_density(
        self,
        u: Float[Array, "... s"],
        from_low: Float[Array, "... s"],
        to_high: Float[Array, "... s"],
    ) -> Float[Array, "... s"]:
        """The log density of each coordinate inside the support.

        The distances to the ends of the support come apart: near a singular end they are exact
        where a difference with u would be all rounding.
        """

    @abc.abstractmethod
    def restrict(self, coordinates: slice) -> "Family":
        """The measure of some of the coordinates."""

    def __repr__(self) -> str:
        parameters = [getattr(self, field.name) for field in fields(self)]
        if is_traced(self) or not all(eqx.is_array(p) and p.ndim == 1 for p in parameters):
            return write_call(self)
        shortest = [_shorten(np.asarray(parameter)) for parameter in parameters]
        repeated = self.dim > 1 and all(parameter.ndim == 0 for parameter in shortest)
        return write_arguments(self, shortest, **({"dim": self.dim} if repeated else {}))

    @property
    def traceable(self) -> bool:
        return type(self).at_levels is not Family.at_levels  # which asks scipy

    @property
    def ordered_columns(self) -> list[slice]:
        return [slice(None)]

    def quantiles(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points that leave the probability `level` below them, and above them."""
        frozen = self.as_scipy()
        return frozen.ppf(level), frozen.isf(level)

    def tail_distances(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far the lower and the upper quantile of a level lie from their end of the support.

        From the median where that end is infinite. `level` is (l, 1), the result (l, s) each.
        """
        low, high = (np.asarray(end) for end in self.support)
        middle, (lower, upper) = self.as_scipy().median(), self.quantiles(level)
        with np.errstate(invalid="ignore"):  # infinite quantiles of infinite ends
            return (
                np.where(np.isfinite(low), lower - low, _extend(middle - lower)),
                np.where(np.isfinite(high), high - upper, _extend(upper - middle)),
            )

    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        if is_traced(v, self):
            raise ValueError(
                f"{type(self).__name__}.from_uniform runs on the host and cannot be used inside "
                "jit, vmap or grad; draw the points outside and pass them in"
            )
        levels = np.asarray(v)
        lower, upper = self.quantiles(np.minimum(levels, 1 - levels))
        u = np.where(levels > 0.5, upper, lower)  # from above there, where 1 - v has more digits
        return as_jax(u.clip(*(np.asarray(end) for end in self.support)))

    def log_density(self, u: Any) -> Float[Array, "..."]:
        u = as_coordinates("u", u, self.dim)
        low, high, middle = (lift(part, u.ndim) for part in (*self.support, self.interior()))
        inside = (u >= low) & (u <= high)
        safe = jnp.where(inside, u, middle)
        values = self.coordinate_log_density(safe, safe - low, high - safe)
        return jnp.where(inside, values, -jnp.inf).sum(-1)

    def interior(self) -> Float[Array, " s"]:
        """A point inside the support, to evaluate formulas where the answer is not used."""
        low, high = self.support
        return jnp.where(
            jnp.isfinite(low),
            jnp.where(jnp.isfinite(high), 0.5 * (low + high), low + 1),
            jnp.where(jnp.isfinite(high), high - 1, 0.0),
        )


def _shorten(parameter: np.ndarray) -> np.ndarray | np.floating:
    """The one number that all coordinates share, where they do."""
    return parameter[0] if (parameter == parameter[0]).all() else parameter


def _extend(distances: np.ndarray) -> np.ndarray:
    """Distances that go on growing where scipy's quantiles of tiny levels stop or are infinite."""
    rows = [distances[0]]
    for row in distances[1:]:
        rows.append(np.where((row > rows[-1]) & np.isfinite(row), row, 1.5 * rows[-1]))
    return np.stack(rows)


class LineFamily(Family):
    """A continuous family, one field a parameter, all of shape (dim,)."""

    @property
    def dim(self) -> int:
        return jax.tree.leaves(self)[0].shape[0]

    def restrict(self, coordinates: slice) -> "LineFamily":
        return jax.tree.map(lambda parameter: parameter[coordinates], self)

    def beside(self, u: Float[Array, "... s"]) -> list[Float[Array, "... s"]]:
        """The parameters, in the order of the fields, with as many axes as u."""
        return [lift(parameter, u.ndim) for parameter in jax.tree.leaves(self)]


def as_coordinates(name: str, value: Any, dim: int) -> Float[Array, "... s"]:
    """An array whose last axis is the dim coordinates; a number will do where there is one."""
    array = as_array(name, value)
    array = array if array.ndim else array[None]
    if array.shape[-1] != dim:
        raise ValueError(
            f"{name} has {array.shape[-1]} columns where {dim} are expected (shape {array.shape}); "
            f"give {dim}"
        )
    return array


def as_points(name: str, points: Any, measure: Measure, *, batched: bool = False) -> Array:
    """Points as (m, s) rows inside the support of the measure."""
    rows = as_rows(name, points, measure.dim, batched=batched)
    if not is_traced(rows, measure):
        with jax.ensure_compile_time_eval():
            low, high = (np.asarray(end) for end in measure.support)
        outside = np.argwhere(~((np.asarray(rows) >= low) & (np.asarray(rows) <= high)))
        if len(outside):
            *design, row, j = (int(i) for i in outside[0])
            place = (
                f"row {row}" if not design else f"design {', '.join(map(str, design))}, row {row}"
            )
            raise ValueError(
                f"{name} has a value outside the support of the measure: "
                f"{float(rows[*design, row, j])} at {place}, coordinate {j}; "
                f"give values in [{low[j]}, {high[j]}]"
            )
    return rows
