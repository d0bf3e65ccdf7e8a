"""The squared MMD as a function of theta, on one fixed quadrature: deterministic and smooth."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.inference.search.gaussian_field import gaussian_field, gaussian_gram, mixed_curvature
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.pair_sums import row_sums, self_sum
from owlfi.kernels.transformed import Transformed
from owlfi.problem.problem import Problem
from owlfi.problem.real_line import Ends, from_real
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature

_DENSE = 2**21  # pairs up to which the whole matrix is fastest
_FEW_COORDINATES = 8  # beyond, all second moments cost more than some directions


class Objective(eqx.Module):
    """The squared MMD less its data term, for observations with weights.

    Replace `observed` or `shares` (`eqx.tree_at`, or `with_data`) to fit other data.
    """

    simulator: Simulator
    kernel: Kernel
    ends: Ends
    widths: Float[Array, " p"]
    """Of the parameters on the real line, the unit of steps."""
    points: Float[Array, "m s"]
    weights: Float[Array, " m"]
    observed: Float[Array, "n d"]
    shares: Float[Array, " n"]
    """The weights of the observations, usually 1/n."""
    unbiased: bool = eqx.field(static=True, default=False)

    def with_data(self, observed: Array, shares: Array | None = None) -> "Objective":
        """The same for other observations, equally weighted where no shares are given."""
        if shares is None:
            shares = jnp.full(observed.shape[0], 1 / observed.shape[0])
        return eqx.tree_at(lambda o: (o.observed, o.shares), self, (observed, shares))

    def on(self, points: Array, weights: Array) -> "Objective":
        """The same on another design."""
        return eqx.tree_at(lambda o: (o.points, o.weights), self, (points, weights))

    def rows(self, v: Float[Array, " p"]) -> Float[Array, "m d"]:
        """Simulations at the parameters whose place on the real line is v."""
        return self.simulator.rows(from_real(v, self.ends), self.points)

    def of_rows(self, y: Float[Array, "m d"]) -> Float[Array, ""]:
        """wᵀK(y,y)w - 2 wᵀK(y,x)v: eq. (5) without its data term."""
        if y.shape[1] != self.observed.shape[1]:  # generators on the host tell late
            raise ValueError(
                f"observed has {self.observed.shape[1]} columns where the simulator gives "
                f"{y.shape[1]}"
            )
        own = _own(self.kernel, y, self.weights)
        if self.unbiased:
            m = y.shape[0]
            own = (own * m - self.kernel.diagonal(y).mean()) / (m - 1)
        return own - 2 * self.weights @ witness(self.kernel, y, self.observed, self.shares)

    def at(self, v: Float[Array, " p"]) -> Float[Array, ""]:
        """The value at v."""
        return self.of_rows(self.rows(v))

    def data_term(self) -> Float[Array, ""]:
        """What is missing to the squared MMD."""
        own = _own(self.kernel, self.observed, self.shares)
        if not self.unbiased:
            return own
        n = self.observed.shape[0]
        return (own * n - self.kernel.diagonal(self.observed).mean()) / (n - 1)


def objective_of(problem: Problem, quadrature: Quadrature) -> Objective:
    """The objective of a problem on the points and weights of one design."""
    n = problem.observed.shape[0]
    return Objective(
        problem.simulator,
        problem.kernel,
        problem.prior.bounds,
        problem.prior.real_widths(),
        quadrature.points,
        quadrature.weights,
        problem.observed,
        jnp.full(n, 1 / n),
        quadrature.unbiased,
    )


class LocalModel(NamedTuple):
    """The objective near a point: its value, gradient and (perhaps approximate) Hessian."""

    value: Float[Array, ""]
    gradient: Float[Array, " p"]
    hessian: Float[Array, "p p"]


def newton_model(objective: Objective, v: Float[Array, " p"]) -> LocalModel:
    """With the exact Hessian: finds its way from afar."""
    y, slopes = rows_and_slopes(objective, v)
    curved = _curved(objective, y, slopes)
    bend = jax.linearize(jax.grad(lambda at: jnp.vdot(curved.slope, objective.rows(at))), v)[1]
    model = _model(curved, slopes)
    return model._replace(hessian=model.hessian + jax.lax.map(bend, jnp.eye(len(v))))


def gauss_newton_model(objective: Objective, v: Float[Array, " p"]) -> LocalModel:
    """Without second derivatives of the simulator: cheapest from a warm start."""
    return model_of_rows(objective, *rows_and_slopes(objective, v))


def model_of_rows(
    objective: Objective, y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> LocalModel:
    """From simulations and their derivatives by v, however they were found.

    The Hessian is exact in y, Σ ∂_a y · ∂²f/∂y² · ∂_b y; it leaves out Σ ∂f/∂y · ∂²y, small where
    the model fits. Its part Σ w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j is Gauss–Newton's.
    """
    return _model(_curved(objective, y, slopes), slopes)


class _Curved(NamedTuple):
    """The objective as a function f of the simulations y."""

    value: Float[Array, ""]
    slope: Float[Array, "m d"]
    curvature: Float[Array, "p p"]
    """Σ ∂_a y · ∂²f/∂y² · ∂_b y."""


def rows_and_slopes(objective: Objective, v: Float[Array, " p"]) -> tuple[Array, Array]:
    """y (m, d) and its derivatives (p, m, d) by v, of a simulator in JAX."""
    y, tangent = jax.linearize(objective.rows, v)
    return y, jax.vmap(tangent)(jnp.eye(v.shape[0]))


def _model(curved: _Curved, slopes: Array) -> LocalModel:
    return LocalModel(curved.value, jnp.tensordot(slopes, curved.slope, 2), curved.curvature)


def _curved(objective: Objective, y: Array, slopes: Array) -> _Curved:
    pairs = y.shape[0] * max(y.shape[0], objective.observed.shape[0])
    if _is_gaussian(objective.kernel) and y.shape[1] <= _FEW_COORDINATES and pairs <= _DENSE:
        return _gaussian_curved(objective, y, slopes)
    (value, slope), tangent = jax.linearize(jax.value_and_grad(objective.of_rows), y)
    changes = jax.lax.map(lambda t: tangent(t)[1], slopes)
    return _Curved(value, slope, jnp.tensordot(slopes, changes, [[1, 2], [1, 2]]))


def _gaussian_curved(objective: Objective, y: Array, slopes: Array) -> _Curved:
    """The same by moments: all directions share the exponentials."""
    w, center = objective.weights, objective.observed.mean(0)
    y, back = jax.vjp(lambda rows: _scaled(objective.kernel, rows - center), y)
    slopes = _scaled(objective.kernel, slopes)
    x = _scaled(objective.kernel, objective.observed - center)
    gram = gaussian_gram(y, y)
    own = gaussian_field(gram, y, y, w)
    data = gaussian_field(gaussian_gram(y, x), y, x, objective.shares)
    more = len(w) / (len(w) - 1) if objective.unbiased else 1.0  # where pairs of one are left out
    value = w @ (more * own.value - 2 * data.value) - (more - 1)
    slope = 2 * w[:, None] * (more * own.gradient - data.gradient)
    blocks = 2 * w[:, None, None] * (more * own.hessian - data.hessian)
    around = jnp.einsum("aid,ide,bie->ab", slopes, blocks, slopes)
    mixed = 2 * more * mixed_curvature(gram, y, w, slopes)
    return _Curved(value, back(slope)[0], around + mixed)


def witness(kernel: Kernel, y: Array, x: Array, shares: Array) -> Float[Array, " m"]:
    """Σ_j v_j k(y_i, x_j) for each i."""
    if y.shape[0] * x.shape[0] > _DENSE:
        return row_sums(kernel, y, x, shares)
    return _gram(kernel, y, x) @ shares


def _own(kernel: Kernel, y: Array, w: Array) -> Array:
    if y.shape[0] ** 2 > _DENSE:
        return self_sum(kernel, y, w)
    return w @ (_gram(kernel, y, y) @ w)


def _gram(kernel: Kernel, y: Array, x: Array) -> Array:
    """With the exponent of a squared exponential as one product, whose derivatives are products."""
    if not _is_gaussian(kernel):
        return kernel.gram(y, x)
    center = jax.lax.stop_gradient(x.mean(0))
    return gaussian_gram(_scaled(kernel, y - center), _scaled(kernel, x - center))


def _is_gaussian(kernel: Kernel) -> bool:
    if isinstance(kernel, Transformed):
        return _is_gaussian(kernel.kernel)
    return isinstance(kernel, SquaredExponential)


def _scaled(kernel: Any, rows: Array) -> Array:
    """Coordinates in which a squared exponential has the lengthscale 1."""
    if isinstance(kernel, Transformed):
        return _scaled(kernel.kernel, rows @ kernel.matrix.T)
    return rows / kernel.lengthscale
