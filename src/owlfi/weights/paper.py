"""The paper's weights: a base kernel at the median lengthscale of the points, no simulation."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.median_heuristic import median_heuristic
from owlfi.measures import Measure
from owlfi.weights.certificate import LARGEST_ABSOLUTE_SUM, SMALLEST_SUM, Verdict, without_estimate
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.quadrature import Quadrature, unweighted, with_certificate


def paper_weights(
    measure: Measure,
    u: Float[Array, "m s"],
    *,
    family: Callable[[Any], Kernel] = SquaredExponential,
) -> Quadrature:
    """Optimal weights as they come, even where they explode.

    family: the base kernel as a function of its lengthscale.
    """
    return optimal_weights(family(median_heuristic(u)), measure, u)


def median_weights(measure: Measure, u: Float[Array, "m s"]) -> Quadrature:
    """The paper's weights, or equal ones where those explode or vanish or there is one point."""
    if len(u) == 1:
        return unweighted(u)
    quadrature = paper_weights(measure, u)
    if float(quadrature.sum_of_absolute_weights) > LARGEST_ABSOLUTE_SUM:
        return with_certificate(unweighted(u), without_estimate(u, Verdict.EXPLODING))
    if float(quadrature.sum_of_weights) < SMALLEST_SUM:
        return with_certificate(unweighted(u), without_estimate(u, Verdict.VANISHING))
    return quadrature
