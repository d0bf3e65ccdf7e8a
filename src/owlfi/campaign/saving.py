"""What optimal weights have saved: the runs that equal weights would need for the same error."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi.kernels import Kernel
from owlfi.problem.simulations import Simulations


def runs_with_equal_weights(kernel: Kernel, runs: Simulations, excess: float) -> float:
    """How many runs equal weights on independent points need for an excess squared MMD.

    At one theta m of them leave (E k(y, y) - E k(y, y')) / m, y and y' independent; both means
    come from the weighted simulations.

    kernel: the data kernel k, for which the excess was estimated.

    >>> from owlfi.kernels import SquaredExponential
    >>> from owlfi.weights.quadrature import unweighted
    >>> u = unweighted(jnp.array([[-1.0], [1.0]]))
    >>> far = Simulations(jnp.ones((5, 1)), u, jnp.array([[[-99.0], [99.0]]] * 5), 10)
    >>> runs_with_equal_weights(SquaredExponential(1.0), far, 0.01)  # (1 - 1/2) / 0.01 at each
    250.0
    """
    weights = jnp.broadcast_to(runs.quadrature.weights, runs.y.shape[:2])

    def spread(one: tuple[Array, Array]) -> Array:
        y, w = one
        gram = kernel.gram(y, y)
        return w @ jnp.diagonal(gram) - w @ gram @ w

    total = float(jax.lax.map(spread, (runs.y, weights)).sum())
    return total / max(excess, np.finfo(float).tiny)
