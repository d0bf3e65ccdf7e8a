"""The squared MMD as a function of theta, on one fixed quadrature: deterministic and smooth."""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from owlfi._tools.arrays import as_jax, fill_rows, next_rung, numpy_for, take_rows
from owlfi._tools.programs import compile_quickly
from owlfi._tools.real_line import Ends, from_real, log_slope, to_real
from owlfi.inference.search.curvature import Curved, curve
from owlfi.inference.search.places import from_place, place_widths, steepness, to_place
from owlfi.kernels import Kernel
from owlfi.mmd import simulated_term
from owlfi.problem.jax_or_host import Known, Runtime, compile_where_it_runs
from owlfi.problem.problem import Problem
from owlfi.problem.simulator import RowsWithSlopes, Simulator
from owlfi.weights.data_grams import LEAST_FINE
from owlfi.weights.quadrature import Quadrature


class Finished(NamedTuple):
    """Simulations without those that failed: their rows are filled, their weights 0."""

    y: Float[Array, "m d"]
    weights: Float[Array, " m"]
    fine: Bool[Array, " m"]
    enough: Bool[Array, ""]


class Objective(eqx.Module):
    """The squared MMD less its data term, for observations with weights.

    Replace `observed` or `shares` (`eqx.tree_at`, or `with_data`) to fit other data.
    """

    simulator: Simulator
    data_kernel: Kernel
    ends: Ends
    widths: Float[Array, " p"]
    """Of the parameters on the real line."""
    units: Float[Array, " p"]
    """Of their places: those of steps."""
    points: Float[Array, "m s"]
    weights: Float[Array, " m"]
    observed: Float[Array, "n d"]
    shares: Float[Array, " n"]
    """The weights of the observations, usually 1/n."""
    unbiased: bool = eqx.field(static=True, default=False)

    @property
    def runtime(self) -> Runtime:
        """Where the simulator runs."""
        return self.simulator.runtime

    @property
    def n(self) -> int:
        """The observations, without the rows that fill a rung of the ladder of sizes."""
        return int(np.count_nonzero(self.shares))

    @property
    def m(self) -> int:
        """The rows that the simulator computes for one value."""
        return self.points.shape[0]

    def with_data(self, observed: Array, shares: Array | None = None) -> "Objective":
        """The same for other observations, equally weighted where no shares are given."""
        if shares is None:
            shares = jnp.full(observed.shape[0], 1 / observed.shape[0])
        return replace(self, observed=observed, shares=shares)

    def fill(self) -> "Objective":
        """The same with rows of share 0 up to the next rung: what is compiled serves other n."""
        size = next_rung(len(self.observed))
        return self.with_data(fill_rows(self.observed, size), fill_rows(self.shares, size, 0.0))

    def fill_shares(self, shares: Float[Array, "b n"]) -> Float[Array, "b filled"]:
        """Other weightings of the observations, 0 for the rows that fill a rung."""
        return jnp.pad(shares, ((0, 0), (0, len(self.observed) - shares.shape[1])))

    def stretch(self, factor: Array | float) -> "Objective":
        """The same with the lengthscales of the data kernel multiplied."""
        return replace(self, data_kernel=self.data_kernel.stretch(factor))

    def on(self, points: Array, weights: Array) -> "Objective":
        """The same on another design."""
        return replace(self, points=points, weights=weights)

    def theta_of(self, v: Float[Array, "... p"]) -> Float[Array, "... p"]:
        """The parameters whose place on the real line is v."""
        return from_real(v, self.ends)

    def place_of(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        """Where steps are planned: on the real line an end of the prior is infinitely far."""
        return to_place(self.theta_of(v), self.ends)

    def rows(self, v: Float[Array, " p"]) -> Float[Array, "m d"]:
        """Simulations at a place on the real line."""
        return self.simulator.attempt(self.theta_of(v), self.points, self.observed.shape[1])

    def rows_with_slopes(
        self,
        v: Float[Array, " p"],
        below: Array | float = jnp.inf,
        known: Known | None = None,
    ) -> RowsWithSlopes:
        """The same with derivatives by v, which may be left out where the value is not below."""
        return self.simulator.rows_with_slopes(
            v,
            self.points,
            theta_of=self.theta_of,
            widths=self.widths,
            columns=self.observed.shape[1],
            wanted=lambda y: value_of_rows(self, y) < below,  # NaN is not
            known=known,
        )

    def of_rows(self, y: Float[Array, "m d"]) -> Float[Array, ""]:
        """The value from simulations, eq. (5) without its data term."""
        if y.shape[1] != self.observed.shape[1]:  # generators on the host tell late
            raise ValueError(
                f"observed has {self.observed.shape[1]} columns where the simulator gives "
                f"{y.shape[1]}; let both have the same"
            )
        finished = self.finished(y)
        sample = finished.y, self.observed, finished.weights, self.shares
        value = simulated_term(self.data_kernel, *sample, self.unbiased)
        return jnp.where(finished.enough, value, jnp.nan)

    def finished(self, y: Float[Array, "m d"]) -> "Finished":
        """The rows that did not fail, which share the weight of those that did.

        A simulation that fails leaves no data, so that the model is that of the others.
        """
        fine = jnp.isfinite(y).all(1)
        held, total = jnp.where(fine, self.weights, 0.0), self.weights.sum()
        enough = (fine.mean() >= LEAST_FINE) & (held.sum() / total >= LEAST_FINE)
        enough = fine.all() | (enough & (not self.unbiased))
        weights = jnp.where(fine.all(), self.weights, held * total / held.sum())
        return Finished(jnp.where(fine[:, None], y, self.observed[:1]), weights, fine, enough)

    def at(self, v: Float[Array, " p"]) -> Float[Array, ""]:
        """The value at v, for simulators in JAX inside of programs."""
        return self.of_rows(self.rows(v))


def objective_of(problem: Problem, quadrature: Quadrature) -> Objective:
    """The objective of a problem on the points and weights of one design."""
    n, prior = problem.observed.shape[0], problem.prior
    widths = prior.real_widths()
    return Objective(
        problem.simulator,
        problem.data_kernel,
        prior.bounds,
        widths,
        place_widths(prior.widths(), widths, prior.bounds),
        quadrature.points,
        quadrature.weights,
        problem.observed,
        as_jax(np.full(n, 1 / n)),
        quadrature.unbiased,
    )


@compile_quickly
def value_of_rows(objective: Objective, y: Float[Array, "m d"]) -> Float[Array, ""]:
    """`of_rows` as a program of its own, for loops on the host."""
    return objective.of_rows(y)


@compile_where_it_runs
def value_at(objective: Objective, v: Float[Array, " p"]) -> Float[Array, ""]:
    """The value at v, for simulators of any kind."""
    return value_of_rows(objective, objective.rows(v))


def simulate_each(objective: Objective, thetas: Float[Array, "t p"]) -> Float[Array, "t m d"]:
    """Simulations at some thetas, on the points of the objective."""
    places = to_real(thetas, objective.ends)
    return objective.runtime.map_cases(Objective.rows, objective, places)


def simulate_in_turn(
    objective: Objective, thetas: Float[Array, "t p"], designs: Float[Array, "r m s"]
) -> Float[Array, "t m d"]:
    """The same on the points of one design after the other."""
    cases = to_real(thetas, objective.ends), as_jax(np.arange(len(thetas)) % len(designs))
    return objective.runtime.map_cases(_rows_on_design, (objective, designs), cases)


def _rows_on_design(shared: tuple[Objective, Array], case: tuple[Array, Array]) -> Array:
    (objective, designs), (place, number) = shared, case
    return objective.on(take_rows(designs, number), objective.weights).rows(place)


@compile_where_it_runs
def simulate_with_slopes(objective: Objective, theta: Float[Array, " p"]) -> RowsWithSlopes:
    """Rows at theta with their derivatives on the real line."""
    return objective.rows_with_slopes(to_real(theta, objective.ends))


class LocalModel(NamedTuple):
    """The objective near a place: its value, gradient and (perhaps approximate) Hessian there."""

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    hessian: Float[Array, "p p"]
    calls: Int[Array, ""]
    """Rows that the simulator computed for it."""
    known: Known | None = None


def newton_model(
    objective: Objective,
    v: Float[Array, " p"],
    below: Array | float = jnp.inf,
    known: Known | None = None,
) -> LocalModel:
    """With second derivatives of the simulator where it has them: finds its way from afar.

    Where the value is not below the given one, gradient and Hessian may be 0.
    known: of another place, from which the host carries slopes on.
    """
    rows = objective.rows_with_slopes(v, below, known)
    curved = _curve_by_place(objective, v, rows)
    theta_of = Partial(from_place, ends=objective.ends)
    place = objective.place_of(v)
    bend = objective.simulator.bend(place, objective.points, curved.slope, theta_of)
    return _local_model(rows, curved, curved.curvature + where_finite(bend))


def gauss_newton_model(
    objective: Objective,
    v: Float[Array, " p"],
    below: Array | float = jnp.inf,
    known: Known | None = None,
) -> LocalModel:
    """Without second derivatives of the simulator: cheapest from a warm start."""
    rows = objective.rows_with_slopes(v, below, known)
    curved = _curve_by_place(objective, v, rows)
    return _local_model(rows, curved, curved.curvature)


def _curve_by_place(objective: Objective, v: Float[Array, " p"], rows: RowsWithSlopes) -> Curved:
    ratio = steepness(objective.place_of(v), objective.ends) / jnp.exp(log_slope(v, objective.ends))
    return curve_rows(objective, rows.y, rows.slopes * ratio[:, None, None])


def _local_model(rows: RowsWithSlopes, curved: Curved, hessian: Array) -> LocalModel:
    gradient = curved.gradient
    value = curved.value if rows.taken else jnp.array(jnp.inf)  # no step ends where they are not
    return LocalModel(value, gradient, hessian, jnp.asarray(rows.calls), rows.known)


@compile_quickly
def curve_rows(
    objective: Objective, y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> Curved:
    """How the objective bends as the simulations y move along their slopes.

    The curvature is exact in y, Σ ∂_a y · ∂²f/∂y² · ∂_b y; what it lacks to the Hessian by theta,
    Σ ∂f/∂y · ∂²y, is small where the model fits.
    """
    finished = objective.finished(y)
    moved = jnp.where(finished.fine[None, :, None], slopes, 0.0)
    sample = objective.observed, finished.weights, objective.shares
    curved = curve(objective.data_kernel, finished.y, moved, *sample, objective.unbiased)
    return curved._replace(value=jnp.where(finished.enough, curved.value, jnp.nan))


def where_finite(bend: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Second derivatives, or 0 where a failed simulation has spoilt them."""
    xp = numpy_for(bend)
    return as_jax(xp.where(xp.isfinite(bend).all(), bend, 0.0))


def slopes_by_theta(
    objective: Objective, theta: Float[Array, " p"], slopes: Float[Array, "p m d"]
) -> Float[Array, "p m d"]:
    """Slopes by theta from those by its place on the real line."""
    steepness = jnp.exp(log_slope(to_real(theta, objective.ends), objective.ends))
    return slopes / steepness[:, None, None]
