"""How strongly the squared MMD speaks in a generalised posterior exp(-beta·MMD²)·prior.

Since MMD² is at most 2 for kernels up to 1, beta = 1 barely moves the prior, whatever the data.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import positive
from owlfi.inference.minimum_distance import Fit
from owlfi.inference.search.sandwich import Sandwich
from owlfi.problem.real_line import log_slope, to_real


def calibrated_beta(sandwich: Sandwich) -> float:
    """The beta at which the posterior is as wide as the estimate is uncertain; it grows with n.

    Near the estimate the posterior has precision beta·H, which should be Σ⁻¹ for the sandwich
    covariance Σ: tr(beta·H Σ) = p.

    >>> nothing = jnp.zeros(2)
    >>> float(calibrated_beta(Sandwich(0.01 * jnp.eye(2), 4 * jnp.eye(2), *[nothing] * 3)))
    25.0
    """
    return float(sandwich.hessian.shape[0] / jnp.trace(sandwich.hessian @ sandwich.covariance))


def check_beta(beta: float | None) -> None:
    """Raises ValueError where it is given and no positive number."""
    if beta is not None:
        positive("beta", beta, number=True)


def choose_beta(fit: Fit, beta: float | None) -> float:
    """The given beta, or the calibrated one.

    Raises ValueError where it cannot be calibrated.
    """
    found = calibrated_beta(fit.sandwich) if beta is None else float(beta)
    if not 0 < found < float("inf"):
        raise ValueError(
            f"beta cannot be calibrated: the estimate {fit.minimum.theta} has no finite standard "
            "errors; give beta=, narrow the prior, or use more observations"
        )
    return found


def real_covariance(fit: Fit) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """The estimate and its covariance on the real line, at most as wide as the prior."""
    ends = fit.objective.ends
    v = to_real(fit.minimum.theta, ends)
    slope = jnp.exp(log_slope(v, ends))
    sd = jnp.sqrt(jnp.diag(fit.sandwich.covariance)) / slope
    shrink = jnp.minimum(1.0, fit.objective.widths / sd) / slope
    return v, fit.sandwich.covariance * jnp.outer(shrink, shrink)
