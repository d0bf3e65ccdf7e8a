"""Weights under a fitted kernel: no larger than they need to be, and without the bias of a fit."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from owlfi._tools.programs import compile_quickly
from owlfi.weights.certificate import LARGEST_ABSOLUTE_SUM
from owlfi.weights.kernel_fit import KernelFit, base_gram, invert, with_rest
from owlfi.weights.optimal import solve_gram

_CALM = 1.2  # weights may cost this factor of the smallest estimated error, if they are smaller
_CALM_SUM = 2.0  # of absolute weights; below, they are calm already
_ROUNDING = 4e-16
_LARGEST_BIAS = 8.0  # up to 6 are chance, where what has none would err more by its variance


class Weights(NamedTuple):
    """Weights, and their risk I - 2 wᵀz + wᵀCw + nugget wᵀw under the fitted kernel."""

    weights: Array
    risk: Array
    condition: Array
    nugget: Array


@compile_quickly
def solve_designs(
    designs: Array,
    z: Array,
    norm2: Array,
    fitted: KernelFit,
    plain: Array,
    most_noise: Array,
    rest: Array | None = None,
) -> tuple[Weights, Weights]:
    """Calm and plain weights of each design.

    plain: weights of the points that stand for the measure.
    most_noise: a bound on m Σ w_i², as of `tuned_weights`.
    rest: (b, m, m), products of what lies beyond the coordinates.
    """
    largest = most_noise / len(plain)

    def solve_one(design: tuple[Array, Array, Array, KernelFit, Any]) -> tuple[Weights, Weights]:
        u, zu, own, found, beyond = design
        seen = base_gram(found.family, found.lengthscale, u)
        gram = with_rest(seen, found.linear, beyond) + found.constant
        system = gram, zu + found.constant, own + found.constant
        risk = _risk(*system, found.nugget, plain)
        calm = _calm(*system, found.nugget, largest)
        even = partial(_even_out, *system, found.nugget, plain, largest)
        calm = jax.lax.cond(found.bias > _LARGEST_BIAS, even, lambda kept: kept, calm)
        return calm, Weights(plain, risk, jnp.array(1.0), 0.0 * own)

    return jax.lax.map(solve_one, (designs, z, norm2, fitted, rest))


def _calm(gram: Array, z: Array, norm2: Array, nugget: Array, largest_square_sum: Array) -> Weights:
    """The weights of the largest nugget that keeps the risk near its least, never exploding.

    The risk is flat in the nugget where weights are huge: they cancel for nothing.
    """

    def solve(jitter: Array) -> Weights:
        found = solve_gram(gram, z, norm2, jitter)
        risk = _risk(gram, z, norm2, nugget, found.weights)
        return Weights(found.weights, risk, found.condition, found.nugget)

    def calmer_is_better(now: Weights, calmer: Weights, limit: Array) -> Array:
        flat = (jnp.abs(now.weights).sum() > _CALM_SUM) & (calmer.risk <= limit)
        return (_explode(now.weights, largest_square_sum) | flat) & (now.nugget < 1)

    State = tuple[Array, Weights, Weights, Array]

    def is_unfinished(state: State) -> Array:
        return (state[0] < 2) | calmer_is_better(*state[1:])

    def calm_further(state: State) -> State:  # one solve for all: it is compiled once
        solved, _, calmer, limit = state
        found = solve(jnp.where(solved == 0, nugget, 10 * calmer.nugget))
        least = _CALM * jnp.maximum(found.risk, _ROUNDING * norm2)
        return solved + 1, calmer, found, jnp.where(solved == 0, least, limit)

    nothing = Weights(jnp.zeros_like(z), norm2, norm2, norm2)
    begin = jnp.array(0), nothing, nothing, norm2
    return jax.lax.while_loop(is_unfinished, calm_further, begin)[1]


def _even_out(
    gram: Array,
    z: Array,
    norm2: Array,
    nugget: Array,
    shares: Array,
    largest_square_sum: Array,
    calm: Weights,
) -> Weights:
    """Weights without the bias of the fit: what it predicts of each point from the others is
    averaged beside what there is.

    With P = C̃⁻¹ the fit mᵢ to all points but one leaves rᵢ = (P f)ᵢ / Pᵢᵢ of f there, and
    ∫ mᵢ = wᵀf - wᵢ rᵢ. On independent points the average of ∫ mᵢ + rᵢ has no bias.
    """
    inverse = invert(jnp.linalg.cholesky(gram + calm.nugget * jnp.eye(len(z))))
    w = calm.weights + inverse @ (shares * (1 - calm.weights) / jnp.diagonal(inverse))
    risk = _risk(gram, z, norm2, nugget, w)
    even = Weights(w, risk, calm.condition, calm.nugget)
    sound = ~_explode(w, largest_square_sum) & jnp.isfinite(risk)
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), even, calm)


def _explode(w: Array, largest_square_sum: Array) -> Array:
    return (jnp.abs(w).sum() > LARGEST_ABSOLUTE_SUM) | ((w**2).sum() > largest_square_sum)


def _risk(gram: Array, z: Array, norm2: Array, nugget: Array, w: Array) -> Array:
    return norm2 - 2 * w @ z + w @ (gram @ w) + nugget * w @ w
