"""The statement of a problem: a simulator, what was observed, and what is believed beforehand."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, fill_rows, next_rung
from owlfi._tools.checks import as_kind, as_rows, as_truth, is_traced
from owlfi._tools.display import html_table, join, round_numbers, write_facts
from owlfi._tools.programs import compile_quickly
from owlfi._tools.progress import show_bars
from owlfi.kernels import Kernel, as_kernel
from owlfi.kernels.default_kernel import default_kernel
from owlfi.mmd import own_factors, own_term, squared_mmd
from owlfi.problem.dependence import tell_dependence
from owlfi.problem.observed import name_columns, observe
from owlfi.problem.predicted_spreads import predict_spreads
from owlfi.problem.prior import Prior, as_prior
from owlfi.problem.simulations import Simulations, check_determined
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.problem.summaries import observe_summaries, summarise
from owlfi.weights.quadrature import Quadrature, as_quadrature


class Problem(eqx.Module):
    """Which parameters of the simulator fit the observations?

    simulator: the model y = G(theta, u).
    observed: x, (n, d), or (n,) where d = 1; any n; an array, a data frame, or the path of a CSV
        file (`read_csv` to choose its columns).
    prior: of the simulator's parameters, by their names; the simulator's own where left out.
    data_kernel: k; a squared exponential at the median lengthscale of the observations
        where left out, each column in its own unit (see `default_kernel`). It stays fixed, and so
        does the data term Σ k(x, x') / n². The unit of a column in which all observations agree is
        its spread under the prior, from 36 rows that are simulated then.
    summaries: a function of rows (n, d) that gives (n, q), in NumPy or JAX, or a dict of functions
        by name: what takes the place of the rows, of observations and simulations alike. A JAX
        simulator with NumPy summaries runs on the host.
    columns: names of the columns, for plots; those of the summaries, the data frame or the file
        where left out.
    progress: show a bar while the lengthscale of many observations is found.

    Raises ValueError where there is no prior, the prior has other parameters than the simulator,
    the observations have another dimension than the simulations (known beforehand of simulators in
    JAX only), all of them are equal and no kernel is given, or a summary of them is not finite.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 50, model.measure))
    >>> problem = Problem(model, x)
    >>> problem.observed.shape, problem.prior.names
    ((50, 1), ('theta_1', 'theta_2', 'theta_3', 'theta_4'))
    >>> logs = {"size": lambda rows: jnp.log(jnp.abs(rows)), "sign": lambda rows: jnp.sign(rows)}
    >>> Problem(model, x, summaries=logs).columns
    ('size', 'sign')
    """

    simulator: Simulator
    observed: Float[Array, "n d"]
    prior: Prior
    data_kernel: Kernel
    median: bool = eqx.field(static=True)
    """Whether k was chosen by the median lengthscale of the observations."""
    columns: tuple[str, ...] = eqx.field(static=True)
    """The names of the columns of the observations."""

    def __init__(
        self,
        simulator: Simulator,
        observed: Any,
        *,
        prior: Prior | None = None,
        data_kernel: Any = None,
        summaries: Any = None,
        columns: Sequence[str] | None = None,
        progress: bool = False,
    ):
        self.simulator, shown = as_simulator(simulator), as_truth("progress", progress)
        self.observed, names = observe(observed)
        self.prior = _prior_of(simulator, prior)
        _check_dimension(self.simulator, self.observed)
        if summaries is not None:
            functions, self.observed = observe_summaries(summaries, self.observed)
            self.simulator, names = summarise(simulator, functions), functions.columns
        self.columns = name_columns(names if columns is None else columns, self.observed.shape[1])
        self.median = data_kernel is None
        if data_kernel is None:
            with show_bars(shown):
                self.data_kernel = self._default_kernel(self.observed)
        else:
            self.data_kernel = as_kernel(data_kernel)
            # A kernel that does not fit should say so before any run.
            row = jax.ShapeDtypeStruct((1, self.observed.shape[1]), float)
            jax.eval_shape(self.data_kernel.gram, row, row)

    def kernel_of(self, observed: Float[Array, "n d"]) -> Kernel:
        """k for other observations: chosen as for these, or the same where it was given.

        Raises ValueError where all of them are equal, or not finite.
        """
        return self._default_kernel(observed) if self.median else self.data_kernel

    def _default_kernel(self, observed: Float[Array, "n d"]) -> Kernel:
        return default_kernel(
            observed, name="observed", spreads_elsewhere=lambda: self._predicted_spreads
        )

    @cached_property
    def _predicted_spreads(self) -> Float[Array, " d"]:
        """Simulated once, and only where a column asks for it."""
        return predict_spreads(self.simulator, self.prior, self.observed.shape[1])

    def with_kernel(self, data_kernel: Any) -> "Problem":
        """The same problem with another data kernel."""
        given = {"prior": self.prior, "data_kernel": data_kernel, "columns": self.columns}
        return Problem(self.simulator, self.observed, **given)

    def with_data(self, observed: Any) -> "Problem":
        """The same problem with other observations; k is chosen for them, where it was chosen.

        observed: (n, d), rows of the problem, which are summaries where it has them.
        """
        x = as_rows("observed", observed, self.observed.shape[1])
        return eqx.tree_at(lambda p: (p.observed, p.data_kernel), self, (x, self.kernel_of(x)))

    def stretch(self, factor: float) -> "Problem":
        """The same problem with the lengthscales of its data kernel multiplied."""
        return self.with_kernel(self.data_kernel.stretch(factor))

    def summarise(self, runs: Simulations) -> Simulations:
        """Runs of the simulator itself, such as those of a campaign, with their summaries for y."""
        return replace(runs, y=self.summarise_rows(runs.y))

    def summarise_rows(self, y: Float[Array, "... d"]) -> Float[Array, "... q"]:
        """Rows of the simulator itself as those of the problem: the same where it has no summaries.

        Raises ValueError for other columns than were observed.
        """
        summaries = self.simulator.summaries
        if summaries is None:
            return y
        found = summaries.on_host(np.asarray(y).reshape(-1, y.shape[-1]))
        return jnp.asarray(found).reshape(*y.shape[:-1], -1)

    def pilot(self, quadrature: Quadrature) -> Simulations:
        """The runs that a rule has made to tune its weights, on the points of its quadrature."""
        known = quadrature.pilot
        if known is not None:
            return Simulations(known.thetas, quadrature, known.y, known.calls)
        thetas, y = (0, len(self.prior.names)), (0, quadrature.m, self.observed.shape[1])
        return Simulations(as_jax(np.zeros(thetas)), quadrature, as_jax(np.zeros(y)), 0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with observations and simulator, for the results of every method."""
        told = tell_dependence("observed", np.asarray(self.observed))
        return (*told, *self.simulator.warnings)

    def check_determined(self, thetas: Float[Array, "t p"], quadrature: Quadrature) -> int:
        """The calls of seeing that y is determined by theta and u, before long work.

        thetas: some of the prior, such as the first that will be simulated.
        quadrature: none is made where its rule has simulated on it, which checks the same.

        Raises ValueError where y is not.
        """
        if quadrature.pilot is not None:
            return 0
        columns = self.observed.shape[1]
        return check_determined(self.simulator, thetas, quadrature.points, columns)

    def __repr__(self) -> str:
        parameters = [f"{name} ~ {measure}" for name, measure in self.prior.table()]
        return write_facts(self, [join(parameters), *self._facts()])

    def _repr_html_(self) -> str:
        *facts, kernel = self._facts()
        caption = "; ".join(["Problem", *facts, round_numbers(kernel)])
        return html_table(caption, ("parameter", "prior"), self.prior.table())

    def _facts(self) -> list[str]:
        n, d = self.observed.shape
        summaries = self.simulator.summaries
        of = [] if summaries is None else [f"summaries {', '.join(summaries.names)}"]
        return [f"{n} × {d} observations", *of, f"data kernel {self.data_kernel!r}"]

    def squared_mmd(self, y: Any, quadrature: Quadrature) -> Float[Array, "..."]:
        """The squared MMD between the observations and simulations y (..., m, d).

        y: simulated on the points of the quadrature, at any number of thetas. Rows of a simulator
            without its summaries go through `summarise` first.
        """
        data_term = self.data_term(as_quadrature(quadrature).unbiased)
        return squared_mmd(self.data_kernel, y, self.observed, quadrature, data_term=data_term)

    def data_term(self, unbiased: bool = False) -> Float[Array, ""]:
        """The part of the squared MMD that depends on the observations alone."""
        pairs, single = own_factors(len(self.observed), as_truth("unbiased", unbiased))
        sums = self._sum_own() if is_traced(self) else self._own_sums
        return as_jax(pairs * sums[0] - single * sums[1])

    @cached_property
    def _own_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Once: a problem with a part replaced is another problem."""
        with jax.ensure_compile_time_eval():
            size = next_rung(len(self.observed))  # rows of share 0: one program for other n
            shares = np.full(len(self.observed), 1 / len(self.observed))
            sample = fill_rows(self.observed, size), fill_rows(shares, size, 0.0)
            own, single = (np.asarray(part) for part in _sum_own(self.data_kernel, *sample))
        if not np.isfinite(own):
            raise ValueError(f"data_kernel must give finite numbers, got {own} as their sum over x")
        return own, single

    def _sum_own(self) -> tuple[Array, Array]:
        """Σ k(x_i, x_j) / n² and Σ k(x_i, x_i) / n."""
        n = len(self.observed)
        return _sum_own(self.data_kernel, self.observed, jnp.full(n, 1 / n))


@compile_quickly
def _sum_own(k: Kernel, x: Float[Array, "n d"], shares: Float[Array, " n"]) -> tuple[Array, Array]:
    return own_term(k, x, shares, unbiased=False), shares @ k.diagonal(x)


def as_problem(problem: Any) -> Problem:
    """Raises ValueError for anything else."""
    return as_kind("problem", problem, Problem, "a Problem(simulator, observed)")


def _prior_of(simulator: Simulator, prior: Prior | None) -> Prior:
    given = simulator.prior if prior is None else as_prior(prior)
    if given is None:
        names = ", ".join(f"{name}=..." for name in simulator.parameters)
        raise ValueError(f"the simulator has no prior of its own; give prior=Prior({names})")
    if set(given.names) != set(simulator.parameters):
        raise ValueError(
            f"prior has the parameters {given.names}, the simulator {simulator.parameters}; hold "
            "those that are known with simulator.fix(...)"
        )
    return given.of(simulator.parameters)


def _check_dimension(simulator: Simulator, observed: Array) -> None:
    """Of generators that can tell the dimension of y without running."""
    d = None if is_traced(observed) else simulator.columns()
    if d not in (None, observed.shape[1]):
        raise ValueError(
            f"observed has {observed.shape[1]} columns where the simulator gives {d} "
            f"(shape {observed.shape}); let both have the same, a row for each observation"
        )
