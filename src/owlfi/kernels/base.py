"""What a kernel is, and how kernels combine: sums, products, multiples."""

import abc
from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_floats, as_rows, brief, positive
from owlfi._tools.display import write, write_call
from owlfi.kernels.pair_sums import Rows, join_columns, split_columns, sum_pairs, sum_rows

Columns = slice | np.ndarray
"""Some of the coordinates."""


class Kernel(eqx.Module):
    """A symmetric positive semi-definite function of two points of R^d.

    Sums over pairs are those of samples that need no checks, for the inside of programs. A kernel
    of your own has a `gram`:

    >>> class Linear(Kernel):
    ...     def gram(self, x, y):
    ...         x, y = as_samples(x, y)
    ...         return x @ y.T
    >>> float((Linear() + 2.0 * Linear())([1.0, 2.0], [3.0, 4.0]))
    33.0
    """

    __array_ufunc__ = None  # array * kernel asks the kernel, not each entry

    def __repr__(self) -> str:
        return write_call(self)

    @abc.abstractmethod
    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        """The matrix k(x_i, y_j) of samples (n, d) and (m, d); (n,) is read as n numbers."""

    def __call__(self, a: Any, b: Any) -> Float[Array, ""]:
        a, b = (jnp.atleast_1d(as_floats(name, at)) for name, at in (("a", a), ("b", b)))
        if a.ndim > 1 or a.shape != b.shape:
            raise ValueError(
                "a kernel takes two points a and b (d,) with the same number of coordinates, got "
                f"shapes {a.shape} and {b.shape}; use gram for samples (n, d)"
            )
        return self.gram(a[None], b[None])[0, 0]

    def diagonal(self, x: Any) -> Float[Array, " n"]:
        """k(x_i, x_i) of a sample (n, d)."""
        return _diagonal(self, as_rows("x", x))

    def row_sums(
        self, y: Float[Array, "m d"], x: Float[Array, "n d"], weights: Float[Array, " n"]
    ) -> Float[Array, " m"]:
        """Σ_j weights_j k(y_i, x_j) for each i, in bounded memory."""
        return sum_rows(self._tile, split_columns(y), split_columns(x), weights)

    def self_sum(self, x: Float[Array, "n d"], weights: Float[Array, " n"]) -> Float[Array, ""]:
        """Σ_ij weights_i weights_j k(x_i, x_j), in bounded memory."""
        rows = split_columns(x)
        return sum_pairs(self._tile, rows, rows, weights)

    def _tile(self, y: Rows, x: Rows, weights: Float[Array, " n"]) -> Float[Array, " m"]:
        return self.gram(join_columns(y), join_columns(x)) @ weights

    def gaussian_coordinates(self) -> Callable[[Array], Array] | None:
        """The linear map to coordinates in which k is exp(-|a - b|²/2), None where none is."""
        return None

    def mapped(self) -> tuple[Callable[[Array], Array], "Kernel"]:
        """A function of rows, which need not be linear, and the kernel on what it gives."""
        return lambda rows: rows, self

    def distance_coordinates(self) -> Callable[[Array], Array] | None:
        """The map to coordinates of whose distances k is a function, None where none is known."""
        return None

    def stretch(self, factor: Any) -> "Kernel":
        """k(x / factor, y / factor): all lengthscales multiplied."""
        return StretchedKernel(self, factor)

    def __add__(self, other: Any) -> "Kernel":
        if isinstance(other, (int, float)) and other == 0:
            return self  # where sum([k1, k2]) begins
        return SumKernel((self, other if isinstance(other, Kernel) else Constant(_number(other))))

    def __mul__(self, other: Any) -> "Kernel":
        if isinstance(other, Kernel):
            return ProductKernel((self, other))
        return ScaledKernel(self, _number(other))

    def __truediv__(self, other: Any) -> "Kernel":
        return ScaledKernel(self, 1 / positive("divisor", other, number=True))

    __radd__ = __add__
    __rmul__ = __mul__


@eqx.filter_jit
def _diagonal(kernel: Kernel, rows: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(kernel)(rows, rows)


def _number(operand: Any) -> Any:
    if callable(operand):
        raise ValueError(
            f"a kernel combines with kernels and numbers, got {brief(operand)}; "
            "wrap a function of two points as FunctionKernel(function)"
        )
    return operand


def _group(kernel: Kernel, *compound: type[Kernel]) -> str:
    """In parentheses where it is written with an operator that binds less."""
    return f"({kernel!r})" if isinstance(kernel, compound) else repr(kernel)


def as_samples(x: Any, y: Any) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Both as rows of as many columns; (n,) is read as n numbers. Only shapes are looked at."""
    x, y = (as_floats(name, rows) for name, rows in (("x", x), ("y", y)))
    x, y = (rows[:, None] if rows.ndim == 1 else rows for rows in (x, y))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(
            "the samples x (n, d) and y (m, d) of gram must have the same number of columns, "
            f"got shapes {x.shape} and {y.shape}"
        )
    return x, y


class CoordinateKernel(Kernel):
    """A kernel with a one-dimensional form along each coordinate.

    Where it is `separable` in its dimension, it is the product of those forms over the coordinates,
    and embeddings multiply.
    """

    @abc.abstractmethod
    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        """The one-dimensional kernel of each coordinate, at u_j - v_j."""

    @abc.abstractmethod
    def panels(self) -> Float[Array, "p #s"]:
        """Positive differences at which to split an integral of `along`."""

    @abc.abstractmethod
    def restrict(self, coordinates: Columns) -> "CoordinateKernel":
        """The kernel on some of the coordinates."""

    @abc.abstractmethod
    def separable(self, dim: int) -> bool:
        """Whether the kernel on R^dim is the product of its one-dimensional forms."""


class ProductKernel(CoordinateKernel):
    """The product of kernels; written `k1 * k2`."""

    factors: tuple[Kernel, ...]

    def __repr__(self) -> str:
        first, *others = self.factors
        compound = SumKernel, ScaledKernel, ProductKernel
        return " * ".join([_group(first, SumKernel), *(_group(k, *compound) for k in others)])

    def distance_coordinates(self) -> Callable[[Array], Array] | None:
        return _side_by_side(self.factors)

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        return reduce(mul, (factor.gram(x, y) for factor in self.factors))

    def along(self, difference: Float[Array, "... s"]) -> Float[Array, "... s"]:
        return reduce(mul, (factor.along(difference) for factor in self._coordinate_factors()))

    def panels(self) -> Float[Array, "p #s"]:
        panels = [factor.panels() for factor in self._coordinate_factors()]
        width = max(p.shape[1] for p in panels)
        return jnp.concatenate([jnp.broadcast_to(p, (p.shape[0], width)) for p in panels])

    def restrict(self, coordinates: Columns) -> "ProductKernel":
        return ProductKernel(tuple(f.restrict(coordinates) for f in self._coordinate_factors()))

    def separable(self, dim: int) -> bool:
        return all(isinstance(f, CoordinateKernel) and f.separable(dim) for f in self.factors)

    def _coordinate_factors(self) -> list[CoordinateKernel]:
        return [factor for factor in self.factors if isinstance(factor, CoordinateKernel)]


class SumKernel(Kernel):
    """The sum of kernels; written `k1 + k2`."""

    terms: tuple[Kernel, ...]

    def __repr__(self) -> str:
        return " + ".join([repr(self.terms[0]), *(_group(k, SumKernel) for k in self.terms[1:])])

    def distance_coordinates(self) -> Callable[[Array], Array] | None:
        return _side_by_side(self.terms)

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        return reduce(add, (term.gram(x, y) for term in self.terms))

    def row_sums(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        return reduce(add, (term.row_sums(y, x, weights) for term in self.terms))

    def self_sum(self, x: Array, weights: Array) -> Float[Array, ""]:
        return reduce(add, (term.self_sum(x, weights) for term in self.terms))


class ScaledKernel(Kernel):
    """A kernel times a positive number; written `2.0 * k`."""

    kernel: Kernel
    factor: Array = eqx.field(converter=lambda value: positive("factor", value, number=True))

    def __repr__(self) -> str:
        inner = _group(self.kernel, SumKernel, ScaledKernel, ProductKernel)
        return f"{write(self.factor)} * {inner}"

    def distance_coordinates(self) -> Callable[[Array], Array] | None:
        return self.kernel.distance_coordinates()

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        return self.factor * self.kernel.gram(x, y)

    def row_sums(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        return self.factor * self.kernel.row_sums(y, x, weights)

    def self_sum(self, x: Array, weights: Array) -> Float[Array, ""]:
        return self.factor * self.kernel.self_sum(x, weights)


def _side_by_side(kernels: tuple[Kernel, ...]) -> Callable[[Array], Array] | None:
    """The coordinates of all kernels, where each has some."""
    maps = [kernel.distance_coordinates() for kernel in kernels]
    known = [to_coordinates for to_coordinates in maps if to_coordinates is not None]
    if len(known) < len(maps):
        return None
    return lambda rows: jnp.concatenate([to_coordinates(rows) for to_coordinates in known], 1)


class ImageKernel(Kernel):
    """k(f(x), f(y)) for a function f of rows; its coordinates are those of a linear one."""

    kernel: eqx.AbstractVar[Kernel]

    @abc.abstractmethod
    def image(self, rows: Array) -> Array:
        """f of each row."""

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        x, y = as_samples(x, y)
        return self.kernel.gram(self.image(x), self.image(y))

    def row_sums(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        return self.kernel.row_sums(self.image(y), self.image(x), weights)

    def self_sum(self, x: Array, weights: Array) -> Float[Array, ""]:
        return self.kernel.self_sum(self.image(x), weights)

    def gaussian_coordinates(self) -> Callable[[Array], Array] | None:
        return self._after(self.kernel.gaussian_coordinates())

    def distance_coordinates(self) -> Callable[[Array], Array] | None:
        return self._after(self.kernel.distance_coordinates())

    def _after(self, inner: Callable[[Array], Array] | None) -> Callable[[Array], Array] | None:
        return None if inner is None else lambda rows: inner(self.image(rows))


class StretchedKernel(ImageKernel):
    """k(x / factor, y / factor); made by `k.stretch(factor)`."""

    kernel: Kernel
    factor: Array = eqx.field(converter=lambda value: positive("factor", value, number=True))

    def image(self, rows: Array) -> Array:
        return rows / self.factor


class Constant(Kernel):
    """The same positive number everywhere; added to c, it makes the weights sum to nearly one.

    >>> float(Constant(2.0)([0.0], [5.0]))
    2.0
    """

    value: Array = eqx.field(converter=lambda v: positive("value", v, number=True), default=1.0)

    def gram(self, x: Any, y: Any) -> Float[Array, "n m"]:
        x, y = as_samples(x, y)
        return jnp.full((x.shape[0], y.shape[0]), self.value)

    def distance_coordinates(self) -> Callable[[Array], Array]:
        return jnp.zeros_like  # no distance changes it

    def row_sums(self, y: Array, x: Array, weights: Array) -> Float[Array, " m"]:
        return jnp.full(y.shape[0], self.value * weights.sum())

    def self_sum(self, x: Array, weights: Array) -> Float[Array, ""]:
        return self.value * weights.sum() ** 2


def check_coordinates(kernel: CoordinateKernel, dim: int) -> None:
    """Each parameter of a coordinate kernel is one number, or one a coordinate."""
    for path, value in jax.tree_util.tree_leaves_with_path(kernel):
        if value.ndim and value.shape[0] not in (1, dim):
            name = jax.tree_util.keystr(path).split(".")[-1]
            raise ValueError(
                f"the {name} of {type(kernel).__name__} has {value.shape[0]} entries, "
                f"but the points have {dim} coordinates; give one, or "
                f"{dim}"
            )


def take(value: Array, coordinates: Columns) -> Array:
    """A parameter of some coordinates; one number serves all of them."""
    return value[coordinates] if value.ndim and value.shape[0] > 1 else value
