"""Summaries of rows: a function that takes the place of the rows, observed and simulated alike."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows, brief, tell_failure
from owlfi.problem.jax_or_host import call_compiled
from owlfi.problem.simulator import Generator, Simulator

Function = Callable[[Any], Any]

_DIGITS = 1e-9  # that a summary may lose where other rows stand beside its own


class Summaries(eqx.Module):
    """Functions of rows (n, d) that give a column (n,) or some (n, q) each, side by side."""

    names: tuple[str, ...] = eqx.field(static=True)
    functions: tuple[Function, ...] = eqx.field(static=True)
    widths: tuple[int, ...] = eqx.field(static=True)
    """How many columns each function gives."""
    taken: int = eqx.field(static=True)
    """The columns of the rows that they take."""

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each column; numbered where a function gives several."""
        return tuple(
            name if width == 1 else f"{name}_{j}"
            for name, width in zip(self.names, self.widths, strict=True)
            for j in range(width)
        )

    def __call__(self, rows: Any) -> Any:
        """Of rows that JAX may trace; NaN for rows that are not finite."""
        values = jnp.concatenate([_as_columns(function(rows)) for function in self.functions], 1)
        fine = jnp.isfinite(rows).all(1, keepdims=True)
        return jnp.where(fine, values, jnp.nan)  # a count of what is positive, say, would hide it

    def on_host(self, rows: np.ndarray) -> Float[np.ndarray, "n q"]:
        """The same in NumPy; the functions never see rows that are not finite.

        Raises ValueError for rows of other columns than were observed.
        """
        if rows.shape[1] != self.taken:
            raise ValueError(
                f"the simulator gives {rows.shape[1]} columns where {self.taken} were observed; "
                "let both have the same"
            )
        fine = np.isfinite(rows).all(1)
        found = np.full((len(rows), sum(self.widths)), np.nan)
        if fine.any():
            columns = [_as_columns(np.asarray(function(rows[fine]))) for function in self.functions]
            found[fine] = np.concatenate(columns, 1)
        return found


def observe_summaries(
    summaries: Any, rows: Float[Array, "n d"]
) -> tuple[Summaries, Float[Array, "n q"]]:
    """A function, or functions by name, as summaries, and those of the observations.

    Raises ValueError for anything else, and where a function gives another number of rows, a number
    that is not finite, or something else for a row alone than for the same row beside others.
    """
    x, functions = np.asarray(rows), _by_name(summaries)
    found = [_observe(name, function, x) for name, function in functions.items()]
    widths = tuple(values.shape[1] for values in found)
    known = Summaries(tuple(functions), tuple(functions.values()), widths, x.shape[1])
    return known, as_rows("summaries of observed", np.concatenate(found, 1))


def _by_name(summaries: Any) -> dict[str, Function]:
    if callable(summaries):
        name = getattr(summaries, "__name__", "")
        return {name if name.isidentifier() else "summary": summaries}  # a lambda's is not
    functions = dict(summaries) if isinstance(summaries, Mapping) else {}
    if not functions or not all(callable(function) for function in functions.values()):
        raise ValueError(
            "summaries must be a function of rows (n, d) that gives (n, q), or a dict of such "
            f"functions by name, got {brief(summaries)}"
        )
    return {str(name): function for name, function in functions.items()}


def _observe(name: str, function: Function, rows: np.ndarray) -> Float[np.ndarray, "n q"]:
    try:
        values = _as_columns(np.asarray(function(rows), float))
    except Exception as error:  # of its own, or where it gives no numbers
        raise ValueError(
            f"summaries: {name} must give numbers for rows (n, d), {tell_failure(function, error)}"
        ) from error
    if values.ndim != 2 or len(values) != len(rows) or not values.size:
        raise ValueError(
            f"summaries: {name} must give one row for each of the {len(rows)} rows of observed, "
            f"(n,) or (n, q), got shape {np.shape(values)}"
        )
    wrong = np.flatnonzero(~np.isfinite(values).all(1))
    if len(wrong):
        raise ValueError(
            f"summaries: {name} is NaN or infinite for row {wrong[0]} of observed, "
            f"{brief(rows[wrong[0]])}; mend the function, or leave out the row"
        )
    alone = np.asarray(function(rows[:1]), float).reshape(-1)
    if alone.shape != values[0].shape or not np.allclose(alone, values[0], _DIGITS, _DIGITS):
        raise ValueError(
            f"summaries: {name} gives {brief(values[0])} for the first row of observed beside the "
            f"others, and {brief(alone)} for it alone; let row i depend on row i alone"
        )
    return values


def summarise(simulator: Simulator, summaries: Summaries) -> Simulator:
    """The simulator whose data are the summaries of its rows.

    In JAX where the simulator and all functions are.
    """
    traced = not simulator.on_host and _can_trace(simulator, summaries)
    generator = Summarised(simulator.generator, summaries, simulator.on_host, not traced)
    return simulator.replace(generator=generator, on_host=not traced)


class Summarised(eqx.Module):
    """A generator of summaries."""

    generator: Generator
    summaries: Summaries
    rows_on_host: bool = eqx.field(static=True)
    on_host: bool = eqx.field(static=True)

    def __call__(self, theta: Any, u: Any) -> Any:
        if not self.on_host:
            return self.summaries(_as_columns(jnp.asarray(self.generator(theta, u), float)))
        own = self.generator
        rows = own(theta, u) if self.rows_on_host else call_compiled(own, theta, u)
        return self.summaries.on_host(_as_columns(np.asarray(rows, float)))


def _can_trace(simulator: Simulator, summaries: Summaries) -> bool:
    generator = Summarised(simulator.generator, summaries, False, False)
    try:
        jax.eval_shape(generator, *simulator.shapes())
    except Exception:  # such as NumPy's, that the host will do
        return False
    return True


def _as_columns(values: Any) -> Any:
    return values[:, None] if np.ndim(values) == 1 else values
