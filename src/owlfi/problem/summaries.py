"""Summaries of rows: a function that takes the place of the rows, observed and simulated alike."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows, brief
from owlfi.problem.simulator import Generator, Simulator

Function = Callable[[Any], Any]


class Summaries(eqx.Module):
    """Functions of rows (n, d) that give a column (n,) or some (n, q) each, side by side."""

    functions: tuple[Function, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, rows: Any) -> Any:
        columns = [_as_columns(function(rows)) for function in self.functions]
        if len(columns) == 1:
            return columns[0]
        traced = any(isinstance(column, jax.Array) for column in columns)
        return (jnp if traced else np).concatenate(columns, 1)

    def observe(self, rows: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """Of the observations.

        Raises ValueError where a function fails, gives another number of rows, or a number that is
        not finite.
        """
        for name, function in zip(self.names, self.functions, strict=True):
            _check(name, rows, function(np.asarray(rows)))
        return as_rows("summaries of observed", self(np.asarray(rows)))


def as_summaries(summaries: Any) -> Summaries:
    """Of a function, or of functions by name; ValueError for anything else."""
    if callable(summaries):
        return Summaries((summaries,), (getattr(summaries, "__name__", "summaries"),))
    functions = tuple(summaries.values()) if isinstance(summaries, Mapping) else ()
    if not functions or not all(callable(function) for function in functions):
        raise ValueError(
            "summaries must be a function of rows (n, d) that gives (n, q), or a dict of such "
            f"functions by name, got {brief(summaries)}"
        )
    return Summaries(functions, tuple(str(name) for name in summaries))


def summarise(simulator: Simulator, summaries: Summaries) -> Simulator:
    """The simulator whose data are the summaries of its rows.

    In JAX where the simulator and all functions are.
    """
    generator = simulator.generator
    if not simulator.on_host and not _can_trace(simulator, summaries):
        generator = simulator.row_function()
    traced = generator is simulator.generator and not simulator.on_host
    return Simulator(
        Summarised(generator, summaries, not traced),
        simulator.measure,
        simulator.parameters,
        prior=simulator.prior,
        theta=simulator.theta,
        on_host=not traced,
    )


class Summarised(eqx.Module):
    """A generator of summaries."""

    generator: Generator
    summaries: Summaries
    on_host: bool = eqx.field(static=True)

    def __call__(self, theta: Any, u: Any) -> Any:
        y = self.generator(theta, u)
        return self.summaries(_as_columns(np.asarray(y) if self.on_host else y))


def _can_trace(simulator: Simulator, summaries: Summaries) -> bool:
    try:
        jax.eval_shape(Summarised(simulator.generator, summaries, False), *simulator.shapes())
    except Exception:  # whatever it is, the observations will meet it again on the host
        return False
    return True


def _as_columns(values: Any) -> Any:
    return values[:, None] if np.ndim(values) == 1 else values


def _check(name: str, rows: Array, values: Any) -> None:
    shape = np.shape(values)
    if len(shape) not in (1, 2) or shape[0] != len(rows):
        raise ValueError(
            f"summaries: {name} must give one row for each of the {len(rows)} rows of observed, "
            f"(n,) or (n, q), got shape {shape}"
        )
    wrong = np.argwhere(~np.isfinite(np.asarray(values, float).reshape(len(rows), -1)))
    if len(wrong):
        row = int(wrong[0][0])
        raise ValueError(
            f"summaries: {name} is NaN or infinite for row {row} of observed, "
            f"{brief(np.asarray(rows[row]))}; mend the function"
        )
