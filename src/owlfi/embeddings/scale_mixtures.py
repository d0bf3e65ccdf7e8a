"""Isotropic kernels as mixtures of squared exponentials over their scale."""

from math import ceil, log, pi

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import gammaln, loggamma

from owlfi.kernels import CoordinateKernel, InverseMultiquadric, Matern, RationalQuadratic


def scale_mixture(kernel: CoordinateKernel, dim: int) -> tuple[np.ndarray, Array]:
    """weights (q,) and squared inverse lengthscales (q, #s) of a mixture of squared exponentials.

    With g gamma distributed, a Matérn kernel mixes over the scale and a rational quadratic over the
    precision.
    """
    depth = min(60 * dim, 700)  # -log of the smallest embedding worth its digits
    match kernel:
        case Matern(nu=shape):
            # Short scales matter less in more dimensions: the integrand is steeper and narrower,
            # most of all where a point is far out in every coordinate.
            sharpness = shape + 0.5 * dim + min(6.2 * dim, 175)
            ends = -34 / shape, log(60 + 4 * shape + depth)
            x, weights = _gamma_rule(shape, sharpness, *ends, bend=20.0)
            scales, factor = np.exp(-x), shape
        case RationalQuadratic() | InverseMultiquadric():
            shape = kernel.alpha if isinstance(kernel, RationalQuadratic) else 0.5
            far = 65  # log of the largest squared distance in lengthscales
            ends = max(-34 / shape - far, -(34 + depth) / shape), log(60 + 4 * shape)
            x, weights = _gamma_rule(shape, 2 * shape, *ends, bend=70.0)
            scales, factor = np.exp(x), 1 / shape
        case _:
            raise ValueError(
                f"{type(kernel).__name__} has no embedding in several dimensions; "
                "use Separable(...) of a one-dimensional kernel"
            )
    precision = factor * jnp.atleast_1d(kernel.lengthscale) ** -2.0
    return weights, jnp.asarray(scales)[:, None] * precision[None]


def _gamma_rule(
    shape: float, sharpness: float, low: float, high: float, bend: float
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x = log g and weights for the expectation over g ~ gamma(shape).

    The trapezoid rule in t with x = t - exp(-t - bend): below -bend the nodes leap, so that small
    shapes, which reach far down, need few. Its error for the weight of gamma(a) is
    2 |Γ(a + 2πi/step)| / Γ(a); the step makes it negligible for a up to `sharpness`.
    """
    steps = 0.25 * 0.97 ** np.arange(200)
    errors = loggamma(sharpness + 2j * pi / steps).real - gammaln(sharpness)
    step = steps[np.argmax(errors < -33)]
    start = max(low, -bend - log(max(-low, 1.0)))
    t = start + step * np.arange(ceil((high - start) / step))
    leap = np.exp(-t - bend)
    x = t - leap
    weights = step * (1 + leap) * np.exp(shape * x - np.exp(x) - gammaln(shape))
    return x.clip(-150), weights  # beyond, no embedding changes and scales would overflow
