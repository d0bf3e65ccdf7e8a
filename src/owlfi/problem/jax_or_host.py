"""Where a simulator runs: inside JAX, or on the host where JAX cannot trace it.

Both have the same loops and derivatives, so that an algorithm is written once.
"""

from collections.abc import Callable
from functools import partial, wraps
from os import cpu_count
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.arrays import as_jax, take_rows
from owlfi._tools.checks import is_traced
from owlfi._tools.programs import compile_quickly, map_cases
from owlfi.problem.recorded_noise.errors import NotFromNoiseError
from owlfi.problem.spending import take_calls, tell_cost

Function = Callable[..., Any]
Kind = TypeVar("Kind", bound=Function)
Sloped = tuple[Float[Array, "m d"], Float[Array, "p m d"] | None, int]
"""Rows, their derivatives where they are known, and how often all rows were computed for it."""


class Known(NamedTuple):
    """Rows at a place and their slopes there, differenced or carried on from another place."""

    v: Float[Array, " p"]
    y: Float[Array, "m d"]
    slopes: Float[Array, "p m d"]
    age: Int[Array, ""]
    """How many steps ago they were differenced."""

    def is_at(self, v: Float[Array, " p"]) -> bool:
        """Whether this is the place."""
        return np.array_equal(self.v, v)

    def carry(self, v: np.ndarray, y: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """Slopes at v, changed by what they failed to tell of y there (Broyden 1965)."""
        step, old = v - np.asarray(self.v), np.asarray(self.slopes)
        with np.errstate(invalid="ignore"):  # where simulations fail
            untold = y - np.asarray(self.y) - np.tensordot(step, old, 1)
        along = step / widths**2
        return old + np.multiply.outer(
            along / (along @ step), np.nan_to_num(untold, posinf=0, neginf=0)
        )


class InJax:
    """The loops of JAX, inside programs that are compiled once; exact derivatives."""

    numpy = jnp
    """The arrays that the simulator takes."""
    compiles = differentiates = True
    threads = cpu_count() or 1  # JAX leaves the interpreter lock

    def call(self, generator: Function, theta: Array, u: Array) -> Any:
        """What the generator returns."""
        call = generator if is_traced(theta, u) else partial(call_compiled, generator)
        return call(theta, u)

    def attempt(self, generator: Function, theta: Array, u: Array, columns: int) -> Any:
        """The same: compiled programs raise nothing."""
        return self.call(generator, theta, u)

    def while_loop(self, unfinished: Function, step: Function, state: Any) -> Any:
        """The state once it is finished."""
        return jax.lax.while_loop(unfinished, step, state)

    def map(self, function: Function, cases: Any) -> Any:
        """What the function gives for each case along the leading axis, stacked."""
        return jax.lax.map(function, cases)

    def map_cases(self, function: Function, shared: Any, cases: Any) -> Any:
        """function(shared, case) of each, by a program that serves any number of cases."""
        return map_cases(function, shared, cases)

    def slopes(
        self,
        rows: Function,
        v: Float[Array, " p"],
        widths: Float[Array, " p"],
        wanted: Function,
        known: Known | None,
    ) -> Sloped:
        """y = rows(v) and its derivatives by v."""
        take = _take_slopes if is_traced(rows, v) else _take_slopes_compiled
        return *take(rows, v), self.slope_runs(len(v))

    def slope_runs(self, p: int) -> int:
        """How often that is at most."""
        return 1

    def search_runs(self, p: int, steps: int) -> int:
        """How often all rows are computed in a search of so many steps."""
        return steps

    def remember(self, v: Array, y: Array, slopes: Array, known: Known | None) -> Known | None:
        """What a search keeps of its last place: nothing, where slopes come with the rows."""
        return None

    def bend(self, function: Function, v: Float[Array, " p"]) -> Float[Array, "p p"]:
        """The second derivatives of a function of v."""
        take = _take_bend if is_traced(function, v) else _take_bend_compiled
        return take(function, v)


class _InPython:
    """The same loops in Python."""

    def while_loop(self, unfinished: Function, step: Function, state: Any) -> Any:
        """The state once it is finished."""
        while unfinished(state):
            state = step(state)
        return state

    def map(self, function: Function, cases: Any) -> Any:
        """What the function gives for each case; ValueError where that has not one shape."""
        count = len(jax.tree.leaves(cases)[0])
        one = (jax.tree.map(lambda leaf, i=i: take_rows(leaf, i), cases) for i in range(count))
        found = [function(case) for case in one]
        return jax.tree.map(_stack, *found)

    def map_cases(self, function: Function, shared: Any, cases: Any) -> Any:
        """The same of a function of what all cases share, and one of them."""
        return self.map(partial(function, shared), cases)


class OnHost(_InPython):
    """Python's loops; derivatives are finite differences on the same noise."""

    numpy = np
    compiles = differentiates = False
    threads = 1
    difference = 1e-4  # of a width: generators print or iterate to fewer digits than a double

    def call(self, generator: Function, theta: Array, u: Array) -> Any:
        """What the generator returns for plain arrays."""
        if is_traced(theta, u):
            raise ValueError(
                "the generator runs on the host and cannot be used inside jit, vmap or grad; "
                "write it in JAX, or call it outside and pass y in"
            )
        take_calls(len(u))
        begun = perf_counter()
        y = generator(np.asarray(theta), np.asarray(u))
        tell_cost((perf_counter() - begun) / len(u), together=len(u))
        return y

    def attempt(self, generator: Function, theta: Array, u: Array, columns: int) -> Any:
        """The same, NaN where the generator raises."""
        if is_traced(theta, u):
            return self.call(generator, theta, u)
        try:
            return self.call(generator, theta, u)
        except NotFromNoiseError:  # it happens at any
            raise
        except Exception:  # whatever it is, no theta where it happens can be the answer
            return np.full((len(u), columns), np.nan)

    def slopes(
        self,
        rows: Function,
        v: Float[Array, " p"],
        widths: Float[Array, " p"],
        wanted: Function,
        known: Known | None,
    ) -> Sloped:
        """By finite differences, or from those known at another place; None where y is not wanted.

        Those known at this very place are taken anew where they were carried there.
        """
        at, unit = np.asarray(v), np.asarray(widths)
        if known is not None and known.is_at(v):
            if known.age == 0:
                return known.y, known.slopes, 0
            found = self._difference(rows, at, unit, known.y)
            return known.y, as_jax(found), self.slope_runs(len(at)) - 1
        y = rows(v)
        if not wanted(y):
            return y, None, 1
        if known is not None:
            return y, as_jax(known.carry(at, np.asarray(y), unit)), 1
        return y, as_jax(self._difference(rows, at, unit, y)), self.slope_runs(len(at))

    def _difference(
        self, rows: Function, at: np.ndarray, widths: np.ndarray, y: Array
    ) -> np.ndarray:
        reach, slopes = self.difference * widths, []
        for h, step in zip(reach, np.diag(reach), strict=True):
            up, down = (np.asarray(rows(as_jax(place))) for place in (at + step, at - step))
            with np.errstate(invalid="ignore"):  # ∞ - ∞ where simulations fail
                slopes.append((up - down) / (2 * h))
        return np.stack(slopes)

    def slope_runs(self, p: int) -> int:
        """How often all rows are computed for slopes at most."""
        return 1 + 2 * p

    def search_runs(self, p: int, steps: int) -> int:
        """Slopes are taken at its start and its end."""
        return 2 * self.slope_runs(p) + steps

    def remember(self, v: Array, y: Array, slopes: Array, known: Known | None) -> Known | None:
        """All, to carry slopes on: differences are many runs."""
        carried = known is not None and not known.is_at(v)
        age = known.age + 1 if known is not None and carried else np.int64(0)
        return Known(v, y, slopes, as_jax(age))

    def bend(self, function: Function, v: Float[Array, " p"]) -> Float[Array, "p p"]:
        """Second derivatives are unknown, and taken as 0."""
        return as_jax(np.zeros((len(v), len(v))))


class OnHostThriftily(OnHost):
    """Differences to one side, where calls are few: half as many runs, nearly as good."""

    def _difference(
        self, rows: Function, at: np.ndarray, widths: np.ndarray, y: Array
    ) -> np.ndarray:
        reach, here, slopes = self.difference * widths, np.asarray(y), []
        for h, step in zip(reach, np.diag(reach), strict=True):
            with np.errstate(invalid="ignore"):
                slopes.append((np.asarray(rows(as_jax(at + step))) - here) / h)
        return np.stack(slopes)

    def slope_runs(self, p: int) -> int:
        return 1 + p


class InJaxByStep(_InPython, InJax):
    """Python's loops around compiled simulators, whose calls are counted; exact derivatives."""

    compiles = False
    threads = 1

    def call(self, generator: Function, theta: Array, u: Array) -> Any:
        """What the generator returns; calls inside derivatives are counted with these."""
        if not is_traced(theta, u):
            take_calls(len(u))
        return super().call(generator, theta, u)

    def slopes(self, rows: Function, v: Array, *details: Any, **named: Any) -> Sloped:
        take_calls(len(jax.eval_shape(rows, v)))
        return super().slopes(rows, v, *details, **named)


Runtime = InJax | OnHost


def choose_runtime(on_host: bool, *, by_step: bool = False, thrifty: bool = False) -> Runtime:
    """The one of its kind that all share.

    by_step: whether calls inside JAX must be counted as they are made.
    thrifty: whether they are few.
    """
    if on_host:
        return _THRIFTY if thrifty else _HOST
    return _BY_STEP if by_step else _JAX


def compile_where_it_runs(function: Kind) -> Kind:
    """A function that is one program where the runtime of its first argument compiles."""

    compiled = compile_quickly(function)

    @wraps(function)
    def run(owner: Any, *arguments: Any, **options: Any) -> Any:
        chosen = compiled if owner.runtime.compiles else function
        return chosen(owner, *arguments, **options)

    return cast(Kind, run)


@compile_quickly
def call_compiled(generator: Function, theta: Array, u: Array) -> Any:
    """One program, not one for each operation."""
    return generator(theta, u)


def _take_slopes(rows: Function, v: Array) -> tuple[Array, Array]:
    y, tangent = jax.linearize(rows, v)
    return y, jax.vmap(tangent)(jnp.eye(len(v)))


def _take_bend(function: Function, v: Array) -> Array:
    return jax.lax.map(jax.linearize(jax.grad(function), v)[1], jnp.eye(len(v)))


_take_slopes_compiled = compile_quickly(_take_slopes)
_take_bend_compiled = compile_quickly(_take_bend)


def _stack(*arrays: Array) -> Array:
    shapes = sorted({jnp.shape(array) for array in arrays})
    if len(shapes) > 1:
        raise ValueError(f"y must have one shape at every theta, the generator returned {shapes}")
    return jnp.stack(arrays) if is_traced(arrays) else as_jax(np.stack(arrays))


_JAX, _HOST, _BY_STEP, _THRIFTY = InJax(), OnHost(), InJaxByStep(), OnHostThriftily()
