"""The statement of a problem: a simulator, what was observed, and what is believed beforehand."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from owlfi._tools.checks import is_traced
from owlfi._tools.display import html_table, join, write_facts
from owlfi.kernels import Kernel, SquaredExponential, as_kernel
from owlfi.kernels.median import median_heuristic
from owlfi.mmd import data_term, squared_mmd
from owlfi.problem.observed import as_observed
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.weights.quadrature import Quadrature


class Problem(eqx.Module):
    """Which parameters of the simulator fit the observations?

    simulator: the model y = G(theta, u).
    observed: x, (n, d), or (n,) where d = 1; any n; an array, a data frame, or the path of a CSV
        file (`read_csv` to choose its columns).
    prior: of the simulator's parameters, by their names; the simulator's own where left out.
    kernel: the data kernel k; a squared exponential at the median lengthscale of the observations
        where left out. It stays fixed, and so does the data term Σ k(x, x') / n².

    Raises ValueError where there is no prior, the prior has other parameters than the simulator,
    the observations have another dimension than the simulations (known beforehand of simulators in
    JAX only), or half of them are equal and no kernel is given.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 50, model.measure))
    >>> problem = Problem(model, x)
    >>> problem.observed.shape, problem.prior.names
    ((50, 1), ('theta_1', 'theta_2', 'theta_3', 'theta_4'))
    """

    simulator: Simulator
    observed: Float[Array, "n d"]
    prior: Prior
    kernel: Kernel
    data_term: Float[Array, ""]
    median: bool = eqx.field(static=True)
    """Whether k was chosen by the median lengthscale of the observations."""

    def __init__(
        self, simulator: Simulator, observed: Any, prior: Prior | None = None, kernel: Any = None
    ):
        self.simulator = as_simulator(simulator)
        self.observed = as_observed(observed)
        self.prior = _prior_of(simulator, prior)
        _check_dimension(simulator, self.observed)
        self.median = kernel is None
        if kernel is None:
            self.kernel = SquaredExponential(median_heuristic(self.observed, name="observed"))
        else:
            self.kernel = as_kernel(kernel)
        self.data_term = data_term(self.kernel, self.observed)

    def __repr__(self) -> str:
        parameters = [f"{name} ~ {measure}" for name, measure in self.prior.table()]
        return write_facts(self, [join(parameters), *self._facts()])

    def _repr_html_(self) -> str:
        caption = "; ".join(["Problem", *self._facts()])
        return html_table(caption, ("parameter", "prior"), self.prior.table())

    def _facts(self) -> list[str]:
        n, d = self.observed.shape
        return [f"{n} × {d} observations", f"data kernel {self.kernel!r}"]

    def squared_mmd(self, y: Any, quadrature: Quadrature) -> Float[Array, "..."]:
        """The squared MMD between the observations and simulations y (..., m, d).

        y: simulated on the points of the quadrature, at any number of thetas.
        """
        if quadrature.unbiased:
            return squared_mmd(self.kernel, y, self.observed, unbiased=True)
        return squared_mmd(
            self.kernel, y, self.observed, quadrature.weights, data_term=self.data_term
        )


def _prior_of(simulator: Simulator, prior: Prior | None) -> Prior:
    given = simulator.prior if prior is None else prior
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
    if simulator.on_host or is_traced(observed):
        return
    theta = jax.ShapeDtypeStruct((len(simulator.parameters),), float)
    u = jax.ShapeDtypeStruct((2, simulator.measure.dim), float)
    d = jax.eval_shape(simulator.rows, theta, u).shape[1]
    if observed.shape[1] != d:
        raise ValueError(
            f"observed has {observed.shape[1]} columns where the simulator gives {d} "
            f"(shape {observed.shape})"
        )
