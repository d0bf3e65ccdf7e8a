"""Simulators: functions of parameters theta and noise u whose distribution is known."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_array, as_kind, as_truth, brief, fails_in_jax
from owlfi._tools.display import write_facts
from owlfi._tools.host_parts import StandIn, stands_aside
from owlfi.measures import Measure, Uniform, as_measure, as_points
from owlfi.problem.checks import as_parameters, as_sample, as_theta, check_finite
from owlfi.problem.jax_or_host import Known, Runtime, choose_runtime
from owlfi.problem.prior import Prior, as_prior
from owlfi.problem.recorded_noise.noise import Noise
from owlfi.problem.recorded_noise.record import describe_recorded, record
from owlfi.problem.spending import is_limited, is_tight
from owlfi.problem.wrapped import Fixed, FromUniform

Generator = Callable[[Any, Any], Any]


@stands_aside
class Simulator(eqx.Module):
    """A generator of data y = G(theta, u), the measure of its noise, and its parameters.

    generator: a function of theta (p,) and u (m, s) that returns y (m, d), or (m,) where d = 1:
        row i of y depends on row i of u alone. A JAX function is compiled and differentiable; any
        other runs on the host, with NumPy arrays.
    measure: the distribution of u, a Measure or a frozen scipy.stats distribution.
    parameters: the names of the entries of theta.
    prior: what is believed of them, where there is a usual choice.
    theta: a usual value of them, (p,).
    on_host: whether the generator is no JAX function; where left out, it is called once with
        abstract arrays to find out.

    Raises ValueError for names that repeat, and a prior or theta that does not fit them; NameError
    where the generator uses a name that is not there.

    >>> from owlfi.measures import Normal
    >>> scaled = Simulator(lambda theta, u: theta[0] * u, Normal(), ["scale"])
    >>> scaled([2.0], [[1.0], [-0.5]]).ravel()
    Array([ 2., -1.], dtype=float64)
    """

    generator: Generator
    measure: Measure
    parameters: tuple[str, ...] = eqx.field(static=True)
    prior: Prior | None
    theta: Float[Array, " p"] | None
    on_host: bool = eqx.field(static=True)

    def __init__(
        self,
        generator: Any,
        measure: Any,
        parameters: Any,
        *,
        prior: Any = None,
        theta: Any = None,
        on_host: bool | None = None,
    ):
        if not callable(generator):
            raise ValueError(f"generator must be a function of theta and u, got {brief(generator)}")
        self.generator = generator
        self.measure = as_measure(measure)
        self.parameters = as_parameters(parameters)
        self.prior = None if prior is None else _as_prior_of(self.parameters, prior)
        self.theta = None if theta is None else as_theta(theta, self.parameters)
        if on_host is None:
            self.on_host = fails_in_jax(generator, *self.shapes())
        else:
            self.on_host = as_truth("on_host", on_host)

    @classmethod
    def from_random(
        cls,
        function: Any,
        parameters: Any,
        *,
        prior: Any = None,
        theta: Any = None,
        argument: str | None = None,
        draws: int | None = None,
        vectorised: bool = False,
        workers: int = 1,
        on_host: bool | None = None,
    ) -> "Simulator":
        """The simulator of a function that draws random numbers, in NumPy or JAX, as it is written.

        function: (theta, rng) -> one row y (d,), where rng has the methods of NumPy's generators.
            Dry runs at 8 thetas of the prior (64 where they differ) find what it draws: u.
        parameters, prior, theta: as of `Simulator`; prior or theta is needed.
        argument: the name of the argument that takes random numbers: a generator, a "seed" for
            default_rng, a "random_state", a JAX "key". The second where left out; a method of an
            object that keeps a generator needs none.
        draws: how many leading draws come from u, where their number changes from run to run; as
            many as nearly all runs make where left out. Later ones come from a stream fixed by u.
        vectorised: whether it is (theta, rng, m) -> m rows (m, d) from draws with leading axis m.
        workers: how many processes compute rows that run on the host.
        on_host: whether it runs there; False for derivatives by JAX. Found out where left out: what
            JAX cannot trace does, and what it would compile for longer than it runs.

        Raises ValueError for a function that draws nothing, or from elsewhere, whose y is not
        determined by its draws, or is not one row of so many numbers; warns where some runs raise.

        >>> from owlfi.measures import Uniform
        >>> walk = lambda theta, rng: theta[0] * rng.normal(size=3).cumsum()
        >>> model = Simulator.from_random(walk, ["step"], prior=Prior(step=Uniform(1, 2)))
        >>> model.measure, model([2.0], [[1.0, -0.5, 0.25]])
        (Normal(0.0, 1.0, dim=3), Array([[2. , 1. , 1.5]], dtype=float64))
        """
        names = as_parameters(parameters)
        found = record(
            function,
            None if prior is None else _as_prior_of(names, prior),
            None if theta is None else as_theta(theta, names),
            argument=argument,
            draws=draws,
            vectorised=as_truth("vectorised", vectorised),
            workers=workers,
            on_host=None if on_host is None else as_truth("on_host", on_host),
        )
        return cls(
            found.generator, found.measure, names, prior=prior, theta=theta, on_host=found.on_host
        )

    @property
    def noise(self) -> "Noise | Measure":
        """What it draws and where, as a table; its measure where u is given to it as such."""
        found = describe_recorded(self._innermost, self.prior, self.theta)
        return self.measure if found is None else found

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with its noise, for the results of every method."""
        return getattr(self._innermost, "warnings", ())

    @property
    def _innermost(self) -> Any:
        """The generator without what is wrapped around it."""
        found = self.generator
        while hasattr(found, "generator"):
            found = found.generator
        return found

    def __repr__(self) -> str:
        where = "on the host" if self.on_host else "in JAX"
        return write_facts(self, [", ".join(self.parameters), f"noise {self.measure!r}", where])

    def __call__(self, theta: Any, u: Any) -> Float[Array, "m d"]:
        """Simulated rows y (m, d) at one theta (p,) and noise u (m, s).

        Raises ValueError for a theta of the wrong length, u outside the measure's support, and a
        generator that does not return one row of real numbers for each row of u.
        """
        theta = as_theta(theta, self.parameters)
        u = as_points("u", u, self.measure)
        y = self.rows(theta, u)
        check_finite(theta, u, y)
        return y

    def rows(self, theta: Array, u: Array) -> Float[Array, "m d"]:
        """The same without looking at theta and u, for the inside of loops."""
        return as_sample(self.runtime.call(self.generator, theta, u), u.shape[0])

    def attempt(self, theta: Array, u: Array, columns: int) -> Float[Array, "m d"]:
        """The same with NaN where the generator raises on the host, for searches to go on."""
        y = self.runtime.attempt(self.generator, theta, u, columns)
        return as_sample(y, u.shape[0])

    @property
    def runtime(self) -> Runtime:
        """Its loops and derivatives: those of JAX, or Python's on the host."""
        return choose_runtime(self.on_host, by_step=is_limited(), thrifty=is_tight())

    def rows_with_slopes(
        self,
        v: Float[Array, " p"],
        u: Float[Array, "m s"],
        *,
        theta_of: Callable[[Array], Array],
        widths: Float[Array, " p"],
        columns: int,
        wanted: Callable[[Array], Any],
        known: Known | None = None,
    ) -> "RowsWithSlopes":
        """y at theta_of(v) and its derivatives by each entry of v.

        Exact in JAX. On the host they are finite differences on the same noise, by a small share of
        the widths and at 2p more runs of all points, made only where y is `wanted`, 0 where not.
        known: what was seen at another place, whose slopes are carried on to this one instead.
        """
        rows = Partial(_attempt_at, self, theta_of, u, columns)
        y, slopes, runs = self.runtime.slopes(rows, v, widths, wanted, known)
        filled = as_jax(np.zeros((len(v), *y.shape))) if slopes is None else slopes
        seen = self.runtime.remember(v, y, filled, known)
        return RowsWithSlopes(y, filled, slopes is not None, runs * len(u), seen)

    def slope_calls(self, m: int) -> int:
        """The rows that it computes at most for m rows with slopes."""
        return m * self.runtime.slope_runs(len(self.parameters))

    def search_calls(self, m: int, steps: int) -> int:
        """The rows that a search of so many steps computes on m points."""
        return m * self.runtime.search_runs(len(self.parameters), steps)

    def bend(
        self,
        v: Float[Array, " p"],
        u: Float[Array, "m s"],
        direction: Float[Array, "m d"],
        theta_of: Callable[[Array], Array],
    ) -> Float[Array, "p p"]:
        """The second derivatives of Σ direction · y by v; on the host unknown, and taken as 0."""
        return self.runtime.bend(Partial(_weigh_rows, self, theta_of, u, direction), v)

    def derivative_calls(self, calls: int) -> int:
        """How many derivatives of a row by one parameter came with so many rows with slopes."""
        return calls * len(self.parameters) if self.runtime.differentiates else 0

    def check_differentiable(self, method: str, instead: str) -> None:
        """Raises ValueError where derivatives by theta are not to be had."""
        if not self.runtime.differentiates:
            raise ValueError(
                f"{method} needs the derivatives of the simulator, which is no JAX function; use "
                f"{instead}"
            )

    def columns(self) -> int | None:
        """The number of columns of y, None where only a run can tell."""
        if self.on_host:
            return None
        return jax.eval_shape(self.rows, *self.shapes()).shape[1]

    @property
    def summaries(self) -> Any:
        """What takes the place of its rows (see `Problem`), None where nothing does."""
        return getattr(self.generator, "summaries", None)

    def shapes(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Of theta, and of two rows of u."""
        theta = jax.ShapeDtypeStruct((len(self.parameters),), float)
        return theta, jax.ShapeDtypeStruct((2, self.measure.dim), float)

    def row_function(self) -> Generator:
        """The generator for one row at a time, compiled where it is JAX."""
        generator = self.generator
        if self.on_host:
            return generator
        return jax.jit(lambda theta, u: generator(theta, u))  # modules with arrays have no hash

    def replace(self, **parts: Any) -> "Simulator":
        """The same simulator with some of its arguments replaced, such as its prior or measure."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return Simulator(**own | parts)

    def stand_in(self, generator: StandIn) -> "Simulator":
        """What programs take for one on the host: all of the same noise look the same to them."""
        names = tuple(map(str, range(len(self.parameters))))
        known = {"generator": generator, "parameters": names, "prior": None, "theta": None}
        twin = object.__new__(Simulator)  # checks would take longer than programs run
        vars(twin).update(vars(self) | known)
        return twin

    def fix(self, **values: Any) -> "Simulator":
        """The simulator of the other parameters, with these held at the given numbers.

        Raises ValueError for names that the simulator does not have.
        """
        unknown = [name for name in values if name not in self.parameters]
        if unknown:
            raise ValueError(
                f"there is no parameter {', '.join(unknown)}; the simulator has "
                f"{', '.join(self.parameters)}"
            )
        numbers = {name: as_array(name, value) for name, value in values.items()}
        wrong = [name for name, number in numbers.items() if number.ndim]
        if wrong:
            raise ValueError(f"{wrong[0]} must be one number, got {brief(values[wrong[0]])}")
        free = tuple(name for name in self.parameters if name not in values)
        places = tuple(self.parameters.index(name) for name in free)
        base = jnp.stack([numbers.get(name, jnp.zeros(())) for name in self.parameters])
        return self.replace(
            generator=Fixed(self.generator, base, places, self.on_host),
            parameters=free,
            prior=self.prior.of(free) if self.prior is not None and free else None,
            theta=None if self.theta is None else self.theta[np.array(places, int)],
        )

    def uniform(self) -> "Simulator":
        """The same simulator with noise from the unit cube: G(theta, F⁻¹(v)) for uniform v."""
        return self.replace(
            generator=FromUniform(self.generator, self.measure, self.on_host),
            measure=Uniform(dim=self.measure.dim),
            on_host=self.on_host or not self.measure.traceable,
        )


# Functions of v as trees of arrays, for programs that serve them all.
def _attempt_at(simulator: Simulator, theta_of: Any, u: Array, columns: int, v: Array) -> Array:
    return simulator.attempt(theta_of(v), u, columns)


def _weigh_rows(simulator: Simulator, theta_of: Any, u: Array, weights: Array, v: Array) -> Array:
    return jnp.vdot(weights, simulator.rows(theta_of(v), u))


class RowsWithSlopes(NamedTuple):
    """Simulations on all points of a design, and what they took."""

    y: Float[Array, "m d"]
    slopes: Float[Array, "p m d"]
    taken: bool
    """Whether the slopes are known."""
    calls: int
    """Rows that the simulator computed."""
    known: Known | None
    """What a search keeps of it."""


def _as_prior_of(names: tuple[str, ...], prior: Any) -> Prior:
    if as_prior(prior).names != names:
        raise ValueError(
            f"prior has the parameters {prior.names}, the simulator {names}; name the same ones in "
            "the same order"
        )
    return prior


def as_simulator(simulator: Any) -> Simulator:
    """Raises ValueError for anything else."""
    expected = "a Simulator(function, measure, parameters)"
    return as_kind("simulator", simulator, Simulator, expected)
