"""The paper's weights: a base kernel at the median lengthscale of the points, no simulation."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.median_heuristic import median_heuristic
from owlfi.measures import Measure, as_measure, as_points
from owlfi.weights.certificate import LARGEST_ABSOLUTE_SUM, SMALLEST_SUM, Verdict
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.quadrature import Quadrature, unweighted, unweighted_because


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


def median_weights(measure: Any, u: Any) -> Quadrature:
    """The paper's weights, or equal ones where those explode or vanish or there is one point.

    measure: the distribution of the noise u, a Measure or a frozen scipy.stats distribution.
    u: points of it, (m, s).

    They take no simulation, and are safe in any dimension; `explain()` says which they are.

    Raises ValueError for points outside the support of the measure.

    >>> import jax
    >>> from owlfi import Normal, sobol
    >>> noise = Normal(dim=2)
    >>> float(median_weights(noise, sobol(jax.random.key(0), 64, noise)).weights.sum().round(2))
    1.0
    """
    measure = as_measure(measure)
    u = as_points("u", u, measure)
    if len(u) == 1:
        return unweighted(u)
    quadrature = paper_weights(measure, u)
    if float(quadrature.sum_of_absolute_weights) > LARGEST_ABSOLUTE_SUM:
        return unweighted_because(u, Verdict.EXPLODING)
    if float(quadrature.sum_of_weights) < SMALLEST_SUM:
        return unweighted_because(u, Verdict.VANISHING)
    return quadrature
