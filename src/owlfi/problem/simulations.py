"""What a simulator gives at some thetas, on the points of a quadrature."""

from time import perf_counter
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, as_places, numpy_for, take_rows
from owlfi._tools.checks import as_array, as_count, as_kind, as_truth, check_memory
from owlfi._tools.fields import check_fields
from owlfi.measures import as_points
from owlfi.problem.checks import check_finite
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.problem.spending import tell_cost
from owlfi.weights.quadrature import Quadrature, as_quadrature

CHECK_CALLS = 4
"""Rows that the simulator computes to show that y is determined by theta and u."""
MOST_CHECK_CALLS = 8
"""The same where y is not finite at two thetas."""
_TRIED = 3  # thetas, beside those at which the generator raises
_MOST_TRIED = 12
_REPEATED_DIGITS = 1e-9  # batches of another size may round differently


class Simulations(eqx.Module):
    """What a simulator gave at each theta, on the points of a quadrature.

    >>> import owlfi
    >>> scaled = Simulator(lambda theta, u: theta[0] * u, owlfi.Normal(), ["scale"])
    >>> points = owlfi.median_weights(owlfi.Normal(), [-1.0, 0.0, 1.0])
    >>> simulate(scaled, [[0.5], [2.0]], points).at([1]).y.ravel()
    Array([-2.,  0.,  2.], dtype=float64)
    """

    thetas: Float[Array, "t p"]
    quadrature: Quadrature
    y: Float[Array, "t m d"]
    calls: int = eqx.field(static=True)
    """Rows that the simulator computed, those of the check included."""
    importance: Float[Array, " t"] | None = None
    """Prior over proposal density of each theta; None where all are drawn from the prior."""
    warnings: tuple[str, ...] = eqx.field(static=True, default=())
    """What is wrong with them, for the results of methods."""

    def __check_init__(self) -> None:
        check_fields(self)

    def at(self, chosen: Any) -> "Simulations":
        """Those at some of the thetas; the calls stay those of all.

        chosen: their places, or True or False for each theta; ValueError for anything else.
        """
        chosen = as_places("chosen", chosen, len(self.thetas))
        importance = None if self.importance is None else take_rows(self.importance, chosen)
        thetas, y = (take_rows(array, chosen) for array in (self.thetas, self.y))
        parts = thetas, self.quadrature.at(chosen), y
        return Simulations(*parts, self.calls, importance, self.warnings)

    def join(self, *more: "Simulations") -> "Simulations":
        """These and more on the same design, all from the prior; ValueError for other things."""
        parts = (self, *(as_simulations("more", each) for each in more))
        shapes = {(part.thetas.shape[1:], part.y.shape[1:]) for part in parts}
        if len(shapes) > 1:
            raise ValueError("more must be simulations of the same simulator on as many points")
        thetas = as_jax(np.concatenate([part.thetas for part in parts]))
        y = as_jax(np.concatenate([part.y for part in parts]))
        told = tuple(sentence for part in parts for sentence in part.warnings)
        calls = sum(part.calls for part in parts)
        return Simulations(thetas, self.quadrature, y, calls, warnings=told)


def simulate(
    simulator: Simulator,
    thetas: Any,
    quadrature: Any,
    *,
    check: bool = True,
    columns: int | None = None,
    keep_failed: bool = False,
) -> Simulations:
    """Run the simulator at each theta on all points of the quadrature.

    thetas: (t, p), (p,) for one theta, or (t,) where there is one parameter.
    quadrature: one design (m, s) for all thetas, or one for each, (t, m, s).
    check: see first that y is determined by theta and u: two rows together, and each on its own,
        at four more calls, or eight where y is not finite at the first thetas.
    columns: how many y should have, which the check then sees to.
    keep_failed: leave values of y that are not finite to be looked at later, by ABC for example;
        so are, on the host and where columns are given, thetas at which the generator raises.

    Raises ValueError for thetas of the wrong shape, points outside the measure's support, values
    of y that are not finite, a dimension of y that changes, and rows that come out differently
    the second time.

    >>> import owlfi
    >>> noise = owlfi.Normal()
    >>> scaled = Simulator(lambda theta, u: theta[0] * u, noise, ["scale"])
    >>> u = owlfi.optimal_weights(owlfi.SquaredExponential(1.0), noise, [-1.0, 0.0, 1.0])
    >>> runs = simulate(scaled, [0.5, 2.0], u)
    >>> runs.y.shape, runs.calls
    ((2, 3, 1), 10)
    """
    thetas, u = as_design(as_simulator(simulator), thetas, quadrature)
    columns = None if columns is None else as_count("columns", columns)
    keep_failed, checked = as_truth("keep_failed", keep_failed), 0
    if as_truth("check", check):
        checked = check_determined(simulator, thetas, u if u.ndim == 2 else u[0], columns)
    y = _run_each(simulator, thetas, u, columns if keep_failed else None)
    if not keep_failed:
        check_finite(thetas, u, y)
    return Simulations(thetas, quadrature, y, thetas.shape[0] * u.shape[-2] + checked)


def as_simulations(name: str, runs: Any) -> Simulations:
    """Raises ValueError for anything else."""
    return as_kind(name, runs, Simulations, "Simulations, as of simulate(...) or a campaign")


def as_design(
    simulator: Simulator, thetas: Any, quadrature: Any
) -> tuple[Float[Array, "t p"], Float[Array, "... m s"]]:
    """thetas (t, p) and the points (m, s) or (t, m, s) to run each of them at.

    Raises ValueError for thetas of the wrong shape, points outside the measure's support, designs
    of another number than the thetas, and simulations beyond memory.
    """
    thetas = as_thetas(thetas, simulator.parameters)
    u = as_points(
        "quadrature.points", as_quadrature(quadrature).points, simulator.measure, batched=True
    )
    if u.ndim > 3 or (u.ndim == 3 and u.shape[0] != thetas.shape[0]):
        raise ValueError(
            f"quadrature must hold one design, or one for each of the {thetas.shape[0]} thetas, "
            f"got points of shape {u.shape}"
        )
    check_memory(f"{len(thetas):,} thetas at {u.shape[-2]:,} points", len(thetas) * u.shape[-2])
    return thetas, u


def _run_each(simulator: Simulator, thetas: Array, u: Array, columns: int | None = None) -> Array:
    """y (t, m, d) on one design (m, s) for all thetas, or on one for each.

    columns: of the NaN where the generator raises; None to let it raise.
    """
    if u.ndim == 3:
        return simulator.runtime.map_cases(_run_on_own, (simulator, columns), (thetas, u))
    return simulator.runtime.map_cases(_run_on_shared, (simulator, columns, u), thetas)


def _run_on_own(shared: tuple[Simulator, int | None], case: tuple[Array, Array]) -> Array:
    return _run(*shared, *case)


def _run_on_shared(shared: tuple[Simulator, int | None, Array], theta: Array) -> Array:
    simulator, columns, u = shared
    return _run(simulator, columns, theta, u)


def _run(simulator: Simulator, columns: int | None, theta: Array, u: Array) -> Array:
    if columns is None:
        return simulator.rows(theta, u)
    return simulator.attempt(theta, u, columns)


def check_determined(
    simulator: Simulator,
    thetas: Float[Array, "t p"],
    u: Float[Array, "m s"],
    columns: int | None = None,
) -> int:
    """See that y is determined by theta and u: two rows together, and each on its own.

    thetas: the first of them at which y has finite values serves; three are tried at most, each
        on other points, and twelve where the generator raises.
    columns: how many y should have.

    Returns the rows that it took. Raises ValueError where a row comes out differently alone or in
    another place, y has other columns, or, as the generator did, where that fails at all thetas.
    """
    pairs = np.resize(u, (_MOST_TRIED, 2, u.shape[1]))  # a single point beside itself
    calls, errors = 0, []
    for theta, pair in zip(map(as_jax, np.asarray(thetas)), map(as_jax, pairs), strict=False):
        try:
            together = np.asarray(_run_once(simulator, theta, pair))
        except Exception as error:  # whatever it raises there, it may not elsewhere
            errors.append(error)
            continue
        calls += len(pair)
        _check_columns(together, columns)
        if np.isfinite(together).any():
            return calls + _check_rows(simulator, theta, pair, together)
        if calls == _TRIED * len(pair):
            break
    if not calls:
        raise errors[0]
    return calls  # NaN everywhere, of which the work itself will tell


@compile_where_it_runs
def _run_once(simulator: Simulator, theta: Array, u: Array) -> Float[Array, "m d"]:
    """As in the work itself; each number of rows is traced anew, with what the generator draws."""
    return simulator.rows(theta, u)


def _check_columns(y: Float[np.ndarray, "m d"], columns: int | None) -> None:
    if columns not in (None, y.shape[1]):
        raise ValueError(
            f"observed has {columns} columns where the simulator gives {y.shape[1]}; "
            "let both have the same"
        )


def _check_rows(
    simulator: Simulator, theta: Array, pair: Array, together: Float[np.ndarray, "2 d"]
) -> int:
    """Each row on its own; returns the rows that took."""
    seconds = np.inf
    for row, expected in zip(np.asarray(pair), together, strict=True):
        begun = perf_counter()
        try:
            alone = np.asarray(_run_once(simulator, theta, as_jax(row[None])))[0]
        except Exception:
            if np.isfinite(expected).any():
                raise
            continue  # as it did beside another row
        seconds = min(seconds, perf_counter() - begun)  # the first may be compiled
        if alone.shape != expected.shape:
            raise ValueError(
                "y must have one dimension, the generator returned "
                f"{len(expected)} columns for two rows of u and {len(alone)} for one"
            )
        if not np.allclose(expected, alone, _REPEATED_DIGITS, _REPEATED_DIGITS, equal_nan=True):
            raise ValueError(
                f"y is not determined by theta and u: at theta = {theta}, u = "
                f"{row} the generator returned {expected} beside another row, and "
                f"{alone} alone; take all random numbers from u, keep nothing from call to call, "
                "and let row i of y depend on row i of u alone (a seed made from the digits of u "
                "will not do: y must be smooth in u)"
            )
    tell_cost(seconds, compiled=simulator.runtime.compiles)
    return len(pair)


def as_thetas(thetas: Any, names: tuple[str, ...]) -> Float[Array, "t p"]:
    """One row for each theta; ValueError for another shape."""
    array = as_array("thetas", thetas)
    if array.ndim == 1:
        shape = (-1, 1) if len(names) == 1 else (1, -1)
        array = as_jax(numpy_for(array).asarray(array).reshape(shape))
    if array.ndim != 2 or array.shape[1] != len(names) or len(array) == 0:
        raise ValueError(
            f"thetas must have shape (t, {len(names)}), a column for each of {', '.join(names)}, "
            f"got {np.shape(thetas)}"
        )
    return array
