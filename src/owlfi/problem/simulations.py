"""What a simulator gives at some thetas, on the points of a quadrature."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_array
from owlfi.measures import as_points
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import Simulator, check_finite
from owlfi.weights.quadrature import Quadrature

CHECK_CALLS = 4  # of seeing that y is determined by theta and u

_REPEATED_DIGITS = 1e-9  # batches of another size may round differently


class Simulations(eqx.Module):
    """What a simulator gave at each theta, on the points of a quadrature."""

    thetas: Float[Array, "t p"]
    quadrature: Quadrature
    y: Float[Array, "t m d"]
    calls: int = eqx.field(static=True)
    """Rows that the simulator computed, those of the check included."""
    importance: Float[Array, " t"] | None = None
    """Prior over proposal density of each theta; None where all are drawn from the prior."""

    def at(self, chosen: Any) -> "Simulations":
        """Those at some of the thetas; the calls stay those of all."""
        importance = None if self.importance is None else self.importance[chosen]
        quadrature = self.quadrature.at(chosen)
        return Simulations(self.thetas[chosen], quadrature, self.y[chosen], self.calls, importance)

    def join(self, *more: "Simulations") -> "Simulations":
        """These and more on the same design, all from the prior."""
        parts = (self, *more)
        thetas, y = (jnp.concatenate([getattr(p, name) for p in parts]) for name in ("thetas", "y"))
        return Simulations(thetas, self.quadrature, y, sum(part.calls for part in parts))


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
        at four more calls.
    columns: how many y should have, which the check then sees to.
    keep_failed: leave values of y that are not finite to be looked at later, by ABC for example.

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
    thetas, u = as_design(simulator, thetas, quadrature)
    checked = 0
    if check:
        checked = _check_repeats(simulator, thetas[0], u if u.ndim == 2 else u[0], columns)
    y = _run_each(simulator, thetas, u)
    if not keep_failed:
        check_finite(thetas, u, y)
    return Simulations(thetas, quadrature, y, thetas.shape[0] * u.shape[-2] + checked)


def as_design(
    simulator: Simulator, thetas: Any, quadrature: Any
) -> tuple[Float[Array, "t p"], Float[Array, "... m s"]]:
    """thetas (t, p) and the points (m, s) or (t, m, s) to run each of them at.

    Raises ValueError for thetas of the wrong shape, points outside the measure's support, and
    designs of another number than the thetas.
    """
    thetas = _as_thetas(thetas, simulator.parameters)
    if not isinstance(quadrature, Quadrature):
        raise ValueError(
            "quadrature must be a Quadrature, such as optimal_weights(...) or equal_weights(...), "
            f"got {type(quadrature).__name__}"
        )
    u = as_points("quadrature.points", quadrature.points, simulator.measure, batched=True)
    if u.ndim > 3 or (u.ndim == 3 and u.shape[0] != thetas.shape[0]):
        raise ValueError(
            f"quadrature must hold one design, or one for each of the {thetas.shape[0]} thetas, "
            f"got points of shape {u.shape}"
        )
    return thetas, u


@compile_where_it_runs
def _run_each(simulator: Simulator, thetas: Array, u: Array) -> Array:
    """y (t, m, d) on one design (m, s) for all thetas, or on one for each."""
    if u.ndim == 3:
        return simulator.runtime.map(lambda pair: simulator.rows(*pair), (thetas, u))
    return simulator.runtime.map(lambda theta: simulator.rows(theta, u), thetas)


def _check_repeats(simulator: Simulator, theta: Array, u: Array, columns: int | None) -> int:
    """Two rows together and each on its own; returns the rows that took."""
    pair = u[:2]
    together = np.asarray(simulator.rows(theta, pair))
    if columns is not None and together.shape[1] != columns:
        raise ValueError(
            f"the simulator gives {together.shape[1]} columns where {columns} were observed"
        )
    for row, expected in zip(pair, together, strict=True):
        alone = np.asarray(simulator.rows(theta, row[None]))[0]
        if alone.shape != expected.shape:
            raise ValueError(
                "y must have one dimension, the generator returned "
                f"{len(expected)} columns for two rows of u and {len(alone)} for one"
            )
        if not np.allclose(expected, alone, _REPEATED_DIGITS, _REPEATED_DIGITS, equal_nan=True):
            raise ValueError(
                f"y is not determined by theta and u: at theta = {np.asarray(theta)}, u = "
                f"{np.asarray(row)} the generator returned {expected} beside another row, and "
                f"{alone} alone; take all random numbers from u, and let row i of y depend on "
                "row i of u alone"
            )
    return 2 * len(pair)


def _as_thetas(thetas: Any, names: tuple[str, ...]) -> Float[Array, "t p"]:
    array = as_array("thetas", thetas)
    if array.ndim == 1:
        array = array[:, None] if len(names) == 1 else array[None]
    if array.ndim != 2 or array.shape[1] != len(names) or len(array) == 0:
        raise ValueError(
            f"thetas must have shape (t, {len(names)}), a column for each of {', '.join(names)}, "
            f"got {np.shape(thetas)}"
        )
    return array
