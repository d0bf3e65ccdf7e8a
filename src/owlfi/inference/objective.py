"""The squared MMD as a function of theta, on one fixed quadrature: deterministic and smooth."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.kernels import Kernel, SquaredExponential
from owlfi.problem import Problem
from owlfi.quadrature import Quadrature
from owlfi.simulator import Simulator
from owlfi.sums import row_sums, self_sum
from owlfi.transforms import Ends, from_real
from owlfi.whitening import Transformed

_DENSE = 2**21  # pairs up to which the whole matrix is fastest


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
    (value, gradient), tangent = jax.linearize(jax.value_and_grad(objective.at), v)
    return LocalModel(value, gradient, jax.lax.map(lambda t: tangent(t)[1], jnp.eye(v.shape[0])))


def gauss_newton_model(objective: Objective, v: Float[Array, " p"]) -> LocalModel:
    """Without second derivatives of the simulator: cheapest from a warm start."""
    y, tangent = jax.linearize(objective.rows, v)
    return model_of_rows(objective, y, jax.vmap(tangent)(jnp.eye(v.shape[0])))


def model_of_rows(
    objective: Objective, y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> LocalModel:
    """From simulations and their derivatives by v, however they were found.

    The Hessian is exact in y, Σ ∂_a y · ∂²f/∂y² · ∂_b y; it leaves out Σ ∂f/∂y · ∂²y, small where
    the model fits. Its part Σ w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j is Gauss–Newton's.
    """
    (value, slope), tangent = jax.linearize(jax.value_and_grad(objective.of_rows), y)
    changes = jax.lax.map(lambda t: tangent(t)[1], slopes)
    hessian = jnp.tensordot(slopes, changes, [[1, 2], [1, 2]])
    return LocalModel(value, jnp.tensordot(slopes, slope, 2), hessian)


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
    if isinstance(kernel, Transformed):
        return _gram(kernel.kernel, y @ kernel.matrix.T, x @ kernel.matrix.T)
    if not isinstance(kernel, SquaredExponential):
        return kernel.gram(y, x)
    center = jax.lax.stop_gradient(x.mean(0))
    y, x = ((rows - center) / kernel.lengthscale for rows in (y, x))
    y_norm, x_norm = (-0.5 * jnp.sum(rows**2, 1, keepdims=True) for rows in (y, x))
    left = jnp.concatenate([y, y_norm, jnp.ones_like(y_norm)], 1)
    return jnp.exp(left @ jnp.concatenate([x, jnp.ones_like(x_norm), x_norm], 1).T)
