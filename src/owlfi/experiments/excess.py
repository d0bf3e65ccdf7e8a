"""The error of an estimator itself: the squared MMD between weighted simulations and their law.

Comparing simulations with a sample of n observations adds a floor (1 - E k(x, x')) / n to every
estimate, which hides small errors; comparing them with the law, known almost exactly, does not.
"""

import abc
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.experiment import Plan
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.median_heuristic import median_heuristic
from owlfi.measures import Measure, Normal, Uniform, coordinate
from owlfi.models.moving_average import moving_average, moving_average_covariance
from owlfi.points.sequences import iid, sobol
from owlfi.problem.learned_coordinates import learn_coordinates
from owlfi.problem.simulator import Simulator
from owlfi.weights.paper import paper_weights

LAW_POINTS = 2**17
_COORDINATES_AT_ONCE = 2**23


class Law(eqx.Module):
    """The distribution of y under a kernel: its mean embedding, and the squared norm of that."""

    norm2: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def mean(self, rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        """E k(row, y)."""

    def floor(self, n: int) -> float:
        """What a sample of n observations adds to every squared MMD, on average."""
        return float(1 - self.norm2) / n


class WeightedLaw(Law):
    """A law known by many rows with weights."""

    norm2: Float[Array, ""]
    data_kernel: Kernel
    rows: Float[Array, "n d"]
    weights: Float[Array, " n"]

    def mean(self, rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        return _row_sums(self.data_kernel, rows, self.rows, self.weights)


class NormalLaw(Law):
    """The exact law of y ~ N(0, Σ) under a squared exponential kernel."""

    norm2: Float[Array, ""]
    widened: Float[Array, "d d"]  # l² + Σ
    peak: Float[Array, ""]

    def mean(self, rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        exponents = (rows * jnp.linalg.solve(self.widened, rows.T).T).sum(1)
        return self.peak * jnp.exp(-0.5 * exponents)


def sample(key: Key[Array, ""], simulator: Simulator, theta: Array, n: int) -> Float[Array, "n d"]:
    """n independent observations."""
    return simulate_rows(simulator, theta, simulator.measure.sample(key, n))


@eqx.filter_jit
def simulate_rows(simulator: Simulator, theta: Array, u: Array) -> Float[Array, "m d"]:
    """Rows y, compiled once for each model."""
    return simulator.rows(theta, u)


def law_points(plan: Plan) -> int:
    """Enough Sobol points for the curves of the figures."""
    return plan.choose(2**15, 2**13)


def law_of(
    key: Key[Array, ""],
    simulator: Simulator,
    theta: Array,
    data_kernel: Kernel,
    points: int = LAW_POINTS,
) -> Law:
    """The law of y: on a product grid for one or two coordinates, else on many Sobol points.

    These are drawn in learned coordinates, or in many dimensions the error of the law would be no
    smaller than the errors that are measured by it.
    """
    if simulator.measure.dim <= 2:
        u, weights = product_rule(simulator.measure)
        y = simulate_rows(simulator, theta, u)
    else:
        noise = learn_coordinates(key, simulator, data_kernel, theta).measure
        y = _many_rows(key, simulator, theta, noise, points)
        weights = jnp.full(len(y), 1 / len(y))
    return WeightedLaw(_self_sum(data_kernel, y, weights), data_kernel, y, weights)


_row_sums = eqx.filter_jit(lambda k, rows, others, weights: k.row_sums(rows, others, weights))
_self_sum = eqx.filter_jit(lambda k, rows, weights: k.self_sum(rows, weights))


def moving_average_law(theta: Array, length: int, data_kernel: SquaredExponential) -> Law:
    """The exact law of a moving average, which is normal: y ~ N(0, Σ)."""
    covariance = moving_average_covariance(theta, length)
    l2 = data_kernel.lengthscale**2

    def share(times: int) -> Array:
        return jnp.linalg.det(jnp.eye(length) + times * covariance / l2) ** -0.5

    return NormalLaw(share(2), l2 * jnp.eye(length) + covariance, share(1))


@eqx.filter_jit
def excesses(
    data_kernel: Kernel, law: Law, y: Float[Array, "b m d"], weights: Float[Array, "b e m"]
) -> Float[Array, "b e"]:
    """wᵀKw - 2 wᵀμ(y) + ‖μ‖² for each of several weights of each sample."""
    means = law.mean(y.reshape(-1, y.shape[-1])).reshape(y.shape[:2])  # all rows at once: faster
    cross = jnp.einsum("bem,bm->be", weights, means)

    def sum_pairs(sample: tuple[Array, Array]) -> Array:
        rows, w = sample
        return ((w @ data_kernel.gram(rows, rows)) * w).sum(1)

    return jax.lax.map(sum_pairs, (y, weights)) - 2 * cross + law.norm2


class Setting(NamedTuple):
    """A simulator at one theta, the data kernel k, and the law of y under it."""

    simulator: Simulator
    theta: Float[Array, " p"]
    data_kernel: Kernel
    law: Law


def set_up(
    key: Key[Array, ""],
    simulator: Simulator,
    points: int,
    *,
    theta: Array | None = None,
    exact: bool = False,
) -> tuple[Setting, Key[Array, ""]]:
    """The setting at this theta or the usual one, and a key for what is done in it.

    points: Sobol points behind the law.
    exact: whether to take the exact law where it is known.
    """
    law_key, kernel_key, key = jax.random.split(key, 3)
    theta = as_array("theta", simulator.theta if theta is None else theta)
    lengthscale = median_heuristic(sample(kernel_key, simulator, theta, 10_000))
    data_kernel = SquaredExponential(lengthscale)
    if exact and simulator.generator is moving_average().generator:
        law = moving_average_law(theta, simulator.measure.dim - 2, data_kernel)
    else:
        law = law_of(law_key, simulator, theta, data_kernel, points)
    return Setting(simulator, theta, data_kernel, law), key


def measure_excesses(
    keys: Iterable[Key[Array, ""]],
    setting: Setting,
    m: int,
    *,
    family: Callable[[Any], Kernel] = SquaredExponential,
) -> dict[str, list[float]]:
    """Excesses of equal ("v") and the paper's ("ow") weights on m independent points, by key."""
    simulator, theta, data_kernel, law = setting
    designs = [iid(key, m, simulator.measure) for key in keys]
    optimal = (paper_weights(simulator.measure, u, family=family).weights for u in designs)
    weights = jnp.array([[jnp.full(m, 1 / m), w] for w in optimal])
    y = jnp.stack([simulate_rows(simulator, theta, u) for u in designs])
    by_equal, by_optimal = np.asarray(excesses(data_kernel, law, y, weights)).T.tolist()
    return {"v": by_equal, "ow": by_optimal}


def _many_rows(
    key: Key[Array, ""], simulator: Simulator, theta: Array, noise: Measure, points: int
) -> Array:
    """By Sobol points, in separate scrambles where they would not fit into memory together."""
    limit = _COORDINATES_AT_ONCE // noise.dim
    size = min(points, 2 ** (limit.bit_length() - 1))
    keys = jax.random.split(key, points // size)
    return jnp.concatenate([simulate_rows(simulator, theta, sobol(k, size, noise)) for k in keys])


def product_rule(measure: Measure) -> tuple[Float[Array, "m s"], Float[Array, " m"]]:
    """Nodes and weights, exact to rounding for smooth integrands."""
    rules = [_line_rule(coordinate(measure, j)) for j in range(measure.dim)]
    nodes, weights = zip(*rules, strict=True)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), -1).reshape(-1, measure.dim)
    return jnp.asarray(grid), jnp.asarray(reduce(np.multiply.outer, weights).ravel())


def _line_rule(measure: Measure) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(measure, Uniform):
        nodes, weights = np.polynomial.legendre.leggauss(100)
        low, high = float(measure.low[0]), float(measure.high[0])
        return low + (high - low) * (nodes + 1) / 2, weights / 2
    if isinstance(measure, Normal):
        z, step = np.linspace(-12.0, 12.0, 481, retstep=True)  # trapezoid rule
        weights = step * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        return float(measure.mean[0]) + float(measure.sd[0]) * z, weights
    raise ValueError(f"no product rule for {type(measure).__name__}; use Uniform or Normal")
