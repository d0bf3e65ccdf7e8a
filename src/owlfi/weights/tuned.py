"""Optimal weights under the base kernel that fits the simulations, with a certificate."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_bound, as_rows
from owlfi._tools.programs import compile_quickly
from owlfi.embeddings.embed import embed
from owlfi.kernels import Kernel, as_kernel
from owlfi.measures import Measure, as_measure, as_points
from owlfi.weights.calm import Weights, solve_designs
from owlfi.weights.certificate import LARGEST_UNEXPLAINED, Certificate, Verdict
from owlfi.weights.coordinates import coordinate_systems, products_beyond, stack_systems
from owlfi.weights.data_grams import data_grams
from owlfi.weights.kernel_fit import (
    FAMILIES,
    KernelFit,
    choose_better,
    constant_errors,
    families_in,
    fit,
)
from owlfi.weights.quadrature import Quadrature, unweighted, unweighted_because

Tree = TypeVar("Tree")

_LARGEST_FIT = 512  # points that a kernel is fitted to; weights may have more
FEWEST = 4
_CONSTANT = 1e-12  # share of K that rounding may leave when y is constant


def tuned_weights(
    data_kernel: Any, measure: Any, points: Any, y: Any, *, most_noise: float = jnp.inf
) -> Quadrature:
    """Weights for the points, tuned to what was simulated on them.

    data_kernel: k, between simulations and observations.
    measure: the distribution of u.
    points: (m, s), or (b, m, s) for a design each with a kernel of its own.
    y: (m, d) simulated on the points at one theta; (t, m, d) at several thetas, whose weights are
        shared; (b, m, d) or (b, t, m, d) for several designs.
    most_noise: a bound on m Σ w_i², the factor by which weights raise the squared error of what is
        noise in u (1 for equal ones): for weights that also serve where y is rougher than here.

    The base kernel is a constant plus the family (squared exponential, Matérn 5/2 or 3/2) with the
    smallest leave-one-out error, each with its most likely lengthscales and nugget. The certificate
    estimates the error that remains. Where weights would not help (see `Verdict`), they are equal.
    The kernel is fitted to the first 512 points at most.

    Raises ValueError for shapes that do not fit, values that are not finite, and points outside
    the measure's support.

    >>> import owlfi
    >>> noise = owlfi.Normal()
    >>> u = owlfi.sobol(jax.random.key(0), 64, noise)
    >>> quadrature = tuned_weights(owlfi.SquaredExponential(1.0), noise, u, jnp.sin(u))
    >>> float(quadrature.certificate.excess) < 1e-5
    True
    """
    k, measure = as_kernel(data_kernel), as_measure(measure)
    u = as_points("points", points, measure, batched=True)
    rows = as_rows("y", y, batched=True)
    return weigh_runs(k, measure, u, rows, as_bound("most_noise", most_noise))


def weigh_runs(
    data_kernel: Kernel,
    measure: Measure,
    u: Float[Array, "... m s"],
    y: Float[Array | np.ndarray, "..."],
    most_noise: float = jnp.inf,
) -> Quadrature:
    """The same of checked arguments, where rows of y that failed are NaN (see `data_grams`).

    At least half of them must not be, at each theta.
    """
    samples = _as_samples(u, y)
    if not measure.smooth:
        return unweighted_because(u, Verdict.SEED, independent=True)
    if u.shape[-2] < FEWEST:
        return unweighted_because(u, Verdict.TOO_FEW)
    designs = as_jax(np.asarray(u).reshape(-1, *u.shape[-2:]))
    tuned = tune(data_kernel, measure, designs, samples, most_noise=most_noise).quadrature
    return _map_leaves(lambda leaf: leaf.reshape(u.shape[:-2] + leaf.shape[1:]), tuned)


def _map_leaves(function: Callable[..., np.ndarray], *trees: Tree) -> Tree:
    """On the host."""
    made = jax.tree.map(lambda *leaves: function(*map(np.asarray, leaves)), *trees)
    return jax.device_put(made)


def _as_samples(u: Array, y: Array | np.ndarray) -> Float[Array, "b t m d"]:
    batch = u.shape[:-2]
    if y.shape[-2] != u.shape[-2] or y.shape[: len(batch)] != batch or y.ndim > u.ndim + 1:
        raise ValueError(
            "y must hold one row for each point, (m, d), or (t, m, d) for several thetas, behind "
            f"the leading axis of the points if they have one, got shape {y.shape} for points of "
            f"shape {u.shape}"
        )
    return as_jax(np.asarray(y).reshape(batch[0] if batch else 1, -1, *y.shape[-2:]))


class Tuning(NamedTuple):
    """Fitted kernels of some designs, and the weights that follow."""

    laws: tuple[Measure, ...]
    """The measure of the noise in each system of coordinates."""
    points: Float[Array, "b m s"]
    """The designs in the coordinates that were chosen."""
    fit: KernelFit
    quadrature: Quadrature


def tune(
    data_kernel: Kernel,
    measure: Measure,
    designs: Float[Array, "b m s"],
    samples: Float[Array, "b t m d"],
    plain: Float[Array, " m"] | None = None,
    known: KernelFit | None = None,
    most_noise: float = jnp.inf,
) -> Tuning:
    """The work of `tuned_weights` on checked arrays, with all that it finds on its way.

    samples: NaN in the rows that failed.
    plain: the weights to fall back to, and by which kernels are compared; equal where left out.
    known: kernels fitted to other designs, which may serve these better than a fit of their own.
    most_noise: as of `tuned_weights`.
    """
    plain = as_jax(np.full(designs.shape[1], 1 / designs.shape[1])) if plain is None else plain
    systems = coordinate_systems(measure, designs)
    laws = tuple(system.law for system in systems)
    early = np.asarray(plain)[:_LARGEST_FIT]
    first = coordinate_systems(measure, designs[:, :_LARGEST_FIT])
    every = np.tile(np.arange(len(first)), (len(designs), 1))
    grams = data_grams(data_kernel, as_jax(np.asarray(samples)[..., :_LARGEST_FIT, :]))
    known_first = *stack_systems(first), products_beyond(first, every), early / early.sum()
    seen, widths, outermost, rest, typical = jax.device_put(known_first)
    families = len(families_in(measure.dim))
    fitted = fit(seen, grams, widths, outermost, typical, families, rest)
    if known is not None:
        fitted = choose_better(fitted, known, seen, grams, outermost, typical, rest)
    fitted = _without_unseen(fitted, laws)
    chosen = np.asarray(fitted.coordinates)
    own = stack_systems(systems).points[np.arange(len(designs)), chosen]
    points, beyond = jax.device_put((own, products_beyond(systems, chosen)))
    embedded = _embed_designs(laws, points, fitted)
    most = as_jax(np.float64(most_noise))
    calm, equal = solve_designs(points, *embedded, fitted, plain, most, beyond)
    quadrature = _certify(designs, fitted, calm, equal, grams)
    return Tuning(laws, points, fitted, quadrature)


def weigh_alike(
    measure: Measure, quadrature: Quadrature, designs: Float[Array, "b m s"]
) -> Quadrature:
    """Weights of other designs by the kernel of one that was tuned, equal where its are."""
    certificate = quadrature.certificate
    if certificate is None or certificate.fit is None or int(certificate.verdict):
        return unweighted(designs)
    m = designs.shape[1]
    fitted = _map_leaves(lambda leaf: leaf[None], certificate.fit)
    systems = coordinate_systems(measure, designs)
    laws = tuple(system.law for system in systems)
    chosen = int(certificate.fit.coordinates)
    points, rest = stack_systems(systems).points[:, chosen], systems[chosen].rest
    squares = (np.asarray(quadrature.weights) ** 2).sum()
    most = 1.5 * m * squares  # hardly noisier than the one that was tuned
    plain, most = jax.device_put((np.full(m, 1 / m), most))
    parts = []
    for i in range(len(designs)):  # one at a time, by the program that served the first
        beyond = None if rest is None else systems[chosen].products(i)[None]
        one, own = jax.device_put((points[i : i + 1], beyond))
        embedded = _embed_designs(laws, one, fitted)
        parts.append(solve_designs(one, *embedded, fitted, plain, most, own)[0])
    found = _map_leaves(lambda *leaves: np.concatenate(leaves), *parts)
    return Quadrature(designs, found.weights, found.risk, found.condition, found.nugget)


@compile_quickly
def _certify(
    designs: Array, fitted: KernelFit, calm: Weights, equal: Weights, grams: Array
) -> Quadrature:
    """The calm weights, or equal ones where those would do no good."""
    constant = _is_constant(grams)
    verdict = _verdict(constant, fitted.unexplained, calm.risk, equal.risk)
    weighted = verdict == Verdict.WEIGHTED
    chosen = jax.tree.map(partial(_choose, weighted), calm, equal)
    # Beyond the outermost points the error is as much larger than predicted as it is at them.
    excess = fitted.variance * calm.risk * jnp.maximum(fitted.tails, 1.0)
    equal_excess = fitted.variance * equal.risk
    remaining = jnp.where(weighted, excess, equal_excess)
    certificate = Certificate(
        jnp.where(constant, 0.0, remaining),
        equal_excess,
        fitted.unexplained,
        fitted.tails,
        fitted.lengthscale,
        fitted.family,
        verdict,
        fitted,
    )
    error = chosen.risk - fitted.nugget * (chosen.weights**2).sum(-1)
    return Quadrature(
        designs, chosen.weights, error, chosen.condition, chosen.nugget, certificate=certificate
    )


def _choose(which: Array, yes: Array, no: Array) -> Array:
    return jnp.where(which.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _without_unseen(fitted: KernelFit, laws: tuple[Measure, ...]) -> KernelFit:
    """Without lengthscales of coordinates that only other systems have."""
    lengthscales = np.asarray(fitted.lengthscale)
    dims = np.array([law.dim for law in laws])[np.asarray(fitted.coordinates)]
    unseen = np.arange(lengthscales.shape[1]) >= dims[:, None]
    seen = as_jax(np.where(unseen, np.inf, lengthscales))
    return eqx.tree_at(lambda fit: fit.lengthscale, fitted, seen)


def _embed_designs(
    laws: tuple[Measure, ...], points: Array, fitted: KernelFit
) -> tuple[Array, Array]:
    """z (b, m) and norm2 (b,) of each design's own kernel, without its constant."""
    z, norm2 = np.zeros(points.shape[:2]), np.zeros(len(points))
    pairs = np.stack([fitted.coordinates, fitted.family], 1)
    lengthscales, u = np.asarray(fitted.lengthscale), np.asarray(points)
    for law, family in np.unique(pairs, axis=0):
        chosen = np.flatnonzero((pairs == (law, family)).all(1))
        seen = laws[law].dim
        own = jax.device_put((lengthscales[chosen, :seen], u[chosen, :, :seen]))
        z[chosen], norm2[chosen] = _embed_side_by_side(int(family), laws[law], *own)
    return jax.device_put((z, norm2))


def _embed_side_by_side(
    family: int, law: Measure, lengthscales: Array, points: Array
) -> tuple[Array, Array]:
    """Side by side as far as the law can be traced, compiled where its numbers can be, too."""
    if not law.traceable_density:
        each = zip(lengthscales, points, strict=True)
        means, norms = zip(*(_embed_one(family, law, *design) for design in each), strict=True)
        return jnp.stack(means), jnp.stack(norms)
    try:
        return _embed_compiled(family, law, lengthscales, points)
    except ValueError:  # without a closed form, the numbers of the measure are needed
        return jax.vmap(partial(_embed_one, family, law))(lengthscales, points)


def _embed_one(family: int, law: Measure, lengthscale: Array, u: Array) -> tuple[Array, Array]:
    embedding = embed(FAMILIES[family](lengthscale), law)
    return embedding.mean(u), embedding.norm2


@compile_quickly
def _embed_compiled(
    family: int, law: Measure, lengthscales: Array, points: Array
) -> tuple[Array, Array]:
    return jax.vmap(partial(_embed_one, family, law))(lengthscales, points)


def _is_constant(grams: Array) -> Array:
    scale, m = jnp.einsum("btii->b", grams), grams.shape[-1]
    return constant_errors(grams, jnp.full(m, 1 / m)).sum(-1) * m <= _CONSTANT * scale


def _verdict(constant: Array, unexplained: Array, risk: Array, equal: Array) -> Array:
    return jnp.select(
        [constant, ~(unexplained <= LARGEST_UNEXPLAINED), ~(risk <= equal)],
        [int(Verdict.CONSTANT), int(Verdict.UNEXPLAINED), int(Verdict.HARMFUL)],
        int(Verdict.WEIGHTED),
    )
