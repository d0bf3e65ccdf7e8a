"""What is known of the error of weighted simulations, and how to say it in plain words."""

from enum import IntEnum

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi.measures import Rotated
from owlfi.weights.kernel_fit import KernelFit

LARGEST_UNEXPLAINED = 0.9
UNSEEN_TAILS = 3.0
_NOTHING = 1e-12  # unexplained variance that is rounding
LARGEST_ABSOLUTE_SUM = 30.0
SMALLEST_SUM = 0.5  # weights of a probability measure should sum to about 1
_SOUND_SUMS = 0.8, 1.2
_NEARLY_ALL = 0.99


class Verdict(IntEnum):
    """Whether optimal weights were taken, and why not.

    >>> Verdict(0).name
    'WEIGHTED'
    """

    WEIGHTED = 0
    CONSTANT = 1
    TOO_FEW = 2
    UNEXPLAINED = 3
    HARMFUL = 4
    EXPLODING = 5
    VANISHING = 6
    SEED = 7


class Certificate(eqx.Module):
    """An estimate, not a bound, of the error of a quadrature tuned to simulations.

    >>> import jax, owlfi
    >>> noise = owlfi.Normal()
    >>> u = owlfi.sobol(jax.random.key(0), 64, noise)
    >>> quadrature = owlfi.tuned_weights(owlfi.SquaredExponential(1.0), noise, u, jnp.sin(u))
    >>> bool(quadrature.certificate.excess < quadrature.certificate.equal)
    True
    """

    excess: Float[Array, "..."]
    """Estimated excess MMD²: what the weights add to the squared MMD, on average."""
    equal: Float[Array, "..."]
    """The same estimate for equal weights at the same points."""
    unexplained: Float[Array, "..."]
    """Leave-one-out error of the fitted kernel over that of a constant; 1 explains nothing."""
    tails: Float[Array, "..."]
    """Leave-one-out error at the outermost points over what the fitted kernel predicts there."""
    lengthscale: Float[Array, "... s"]
    family: Int[Array, "..."]
    verdict: Int[Array, "..."]
    """A `Verdict`: anything but 0 means that equal weights were taken."""
    fit: KernelFit | None = None
    """The kernel, as it was fitted."""


def without_estimate(points: Float[Array, "... m s"], verdict: Verdict) -> Certificate:
    """A certificate that knows nothing but why the weights are equal."""
    unknown = jnp.full(points.shape[:-2], jnp.nan)
    lengthscale = jnp.full((*points.shape[:-2], points.shape[-1]), jnp.nan)
    family, code = (jnp.full(points.shape[:-2], number) for number in (0, int(verdict)))
    return Certificate(unknown, unknown, unknown, unknown, lengthscale, family, code)


def explanation(
    points: Float[Array, "... m s"],
    weights: Float[Array, "... m"],
    condition: Array,
    certificate: Certificate | None,
) -> str:
    """Whether the weights help, what limits them, and what to do."""
    if points.ndim > 2:
        return _describe_many(weights, certificate)
    amplified = float(jnp.abs(weights).sum())
    m, s = points.shape
    if certificate is None:
        return " ".join(
            _describe_untuned(m, amplified, bool(jnp.ptp(weights) == 0), float(condition))
        )
    return " ".join(
        [_describe_gain(m, certificate), *_describe_limits(m, s, amplified, certificate)]
    )


def _describe_untuned(m: int, amplified: float, equal: bool, condition: float) -> list[str]:
    if equal:
        return [
            f"All points (m = {m}) have the same weight, and no simulation was used to estimate "
            "the error; OptimallyWeighted(base_kernel='tuned') does."
        ]
    size = f"The weights of the {m} points come from a kernel that never saw a simulation; "
    size += f"their absolute values sum to {amplified:.3g} (condition {condition:.0e})."
    return [size, *_warn_of_explosion(amplified)]


def _describe_gain(m: int, certificate: Certificate) -> str:
    match int(certificate.verdict):
        case Verdict.CONSTANT:
            return (
                "The simulations do not depend on u as far as the data kernel sees: equal weights "
                "are exact. If y does vary, give a kernel of a shorter lengthscale."
            )
        case Verdict.TOO_FEW:
            return f"{m} points are too few to tune weights (4 are needed): equal weights are used."
        case Verdict.EXPLODING:
            return (
                "Equal weights are used: optimal ones explode for this kernel at these points "
                f"(absolute values that sum to more than {LARGEST_ABSOLUTE_SUM:.0f}) and would "
                "amplify every deviation. Use base_kernel='tuned', sobol points, or more points."
            )
        case Verdict.VANISHING:
            return (
                "Equal weights are used: optimal ones nearly vanish (they sum to less than "
                f"{SMALLEST_SUM}), since the kernel sees too little around these {m} points. Use "
                "base_kernel='tuned', or more points."
            )
        case Verdict.SEED:
            return (
                f"Equal weights are used for the {m} runs: u is a seed, in which nothing is "
                "smooth. Everything works, at the rate of independent draws; derivatives and the "
                "gain of weights are lost. To have them, let the program take its random numbers "
                "as u (docs/simulators.md), or draw them in Python with Simulator.from_random."
            )
        case Verdict.UNEXPLAINED:
            return (
                "Equal weights are used: the simulations vary with u in no way that "
                f"{m} points could show (unexplained variance {float(certificate.unexplained):.0%})"
                f"; the squared MMD is off by about {float(certificate.excess):.1e}."
            )
        case Verdict.HARMFUL:
            return (
                "Equal weights are used, since optimal ones would be expected to do harm; the "
                f"squared MMD is off by about {float(certificate.excess):.1e}."
            )
    # Unseen tails are charged to the weights alone, so the gain is compared without them.
    gain = float(certificate.equal / certificate.excess * jnp.maximum(certificate.tails, 1.0))
    return (
        f"The weights help: the squared MMD is off by about {float(certificate.excess):.1e}, "
        f"estimated {gain:,.3g} times less than with equal weights at these {m} points, tails "
        f"apart. Unexplained variance {max(0.0, float(certificate.unexplained)):.1g}."
    )


def _describe_limits(m: int, s: int, amplified: float, certificate: Certificate) -> list[str]:
    if bool(jnp.isnan(certificate.excess)) or int(certificate.verdict) == Verdict.CONSTANT:
        return []
    found = []
    unexplained = float(certificate.unexplained)  # rounding may take it below 0
    if float(certificate.tails) > UNSEEN_TAILS:
        found.append(
            "The outermost points fit badly: beyond them the simulator changes faster than seen "
            f"(leave-one-out error {float(certificate.tails):.1f} times the predicted), so the "
            "error is uncertain. Use Adaptive, which places points there."
        )
    if unexplained > 0.1 and s > 5:
        found.append(
            f"What limits them is dimension: {m} points in {s} coordinates. Give the generator "
            "fewer or more natural coordinates, put the important ones first, or add points."
        )
    elif unexplained > 0.1:
        found.append(
            "What limits them is roughness: y jumps, has kinks, or m is too small to see it "
            "smooth. Double m and see whether the unexplained variance falls; if not, use "
            "coordinates of u along which y is smooth."
        )
    elif int(certificate.family) > 0 and unexplained > _NOTHING:
        found.append("A rough kernel fitted y best: more points help, at a slower rate.")
    return [*found, *_warn_of_explosion(amplified)]


def _warn_of_explosion(amplified: float) -> list[str]:
    if amplified <= LARGEST_ABSOLUTE_SUM:
        return []
    return [
        f"The weights explode (their absolute values sum to {amplified:.0f}): a small deviation of "
        "one simulation is amplified. Use base_kernel='tuned', sobol points, or a larger nugget."
    ]


def describe_directions(noise: Rotated) -> str:
    """How many directions of the noise there are to look along."""
    carried = np.cumsum(noise.shares)
    enough = carried >= min(_NEARLY_ALL, carried[-1])
    count = int(np.argmax(enough)) + 1
    return (
        f"{count} of {len(noise.rotation.reflectors)} directions of the noise carry "
        f"{carried[count - 1]:.0%} of what k sees of it."
    )


def tell_sum(
    points: Float[Array, "... m s"], weights: Float[Array, "... m"], certificate: Certificate | None
) -> tuple[str, ...]:
    """A sentence where the weights, mostly, do not sum to about 1, or none."""
    total = float(np.median(np.asarray(weights).sum(-1)))
    low, high = _SOUND_SUMS
    if low <= total <= high:
        return ()
    *_, m, s = points.shape
    kernel = f"base_kernel='tuned', lengthscales that grow with √s (s = {s} coordinates), or "
    return (
        f"The weights of the {m} points sum to {total:.2g}, not to about 1: the base kernel sees "
        "too little between the points, so that the simulations count wrongly against the data; "
        f"use {kernel if certificate is None else ''}more points",
    )


def _describe_many(weights: Array, certificate: Certificate | None) -> str:
    amplified = np.abs(np.asarray(weights)).sum(-1)
    count = amplified.size
    text = f"{count} designs; the absolute weights of the worst sum to {amplified.max():.3g}."
    if certificate is None:
        return text
    fallen = int((np.asarray(certificate.verdict) != Verdict.WEIGHTED).sum())
    gain = np.median(np.asarray(certificate.equal) / np.maximum(certificate.excess, 1e-300))
    return (
        f"{text} {count - fallen} have optimal weights, {fallen} fell back to equal ones; the "
        f"median estimated gain over equal weights is {gain:.3g}."
    )
