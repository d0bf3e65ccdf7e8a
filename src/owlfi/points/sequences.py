"""Where to simulate: point sets of a base measure, as arrays (m, s).

Each takes a key, the number of points m and a measure (or a frozen scipy.stats distribution), fills
the unit cube, and maps it to the measure coordinate by coordinate. All but `iid` run on the host.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import roots_genlaguerre, roots_hermitenorm, roots_jacobi, roots_legendre

from owlfi._tools.checks import MOST_NUMBERS, as_count, as_truth, check_size
from owlfi._tools.keys import numpy_generator
from owlfi.measures import (
    Beta,
    DiscreteFamily,
    Exponential,
    Family,
    Gamma,
    Measure,
    Normal,
    Uniform,
    as_measure,
    coordinate,
)
from owlfi.points.sobol_cells import draw_sobol

_LATTICE_EFFORT = 2**23


def iid(key: PRNGKeyArray, m: int, measure: Any) -> Float[Array, "m s"]:
    """m independent draws: the plain Monte Carlo choice, with error m^(-1/2) at equal weights.

    >>> import jax
    >>> from owlfi.measures import Uniform
    >>> iid(jax.random.key(0), 5, Uniform(dim=2)).shape
    (5, 2)
    """
    return as_measure(measure).sample(key, m)


def sobol(key: PRNGKeyArray, m: int, measure: Any) -> Float[Array, "m s"]:
    """Scrambled Sobol points, the default of quasi-Monte Carlo.

    Any m works. A power of two is best: only then is each coordinate stratified into m equal cells
    with one point each, which is what gives errors near m^(-3/2) on smooth integrands at equal
    weights; another m takes the first m points of the next larger set and falls back towards m^-1.

    Coordinates beyond the 21201 that have Sobol numbers are independent draws.

    >>> import jax
    >>> from owlfi.measures import Normal
    >>> sobol(jax.random.key(0), 256, Normal(mean=0.0, sd=1.0, dim=2)).shape
    (256, 2)
    """
    measure, m = _as_size(measure, m)
    return _to_measure(draw_sobol(numpy_generator(key), m, measure.dim), measure)


def halton(key: PRNGKeyArray, m: int, measure: Any) -> Float[Array, "m s"]:
    """Scrambled Halton points: any m is as good as any other.

    >>> import jax
    >>> from owlfi.measures import Uniform
    >>> halton(jax.random.key(0), 100, Uniform(dim=3)).shape
    (100, 3)
    """
    measure, m = _as_size(measure, m)
    engine = scipy.stats.qmc.Halton(measure.dim, rng=numpy_generator(key))
    return _to_measure(engine.random(m), measure)


SEQUENCES = iid, sobol, halton
"""Of which each part is as evenly spread as another set of the same kind."""


def latin_hypercube(key: PRNGKeyArray, m: int, measure: Any) -> Float[Array, "m s"]:
    """A Latin hypercube: each coordinate has one point in each of its m cells.

    >>> import jax
    >>> from owlfi.measures import Uniform
    >>> latin_hypercube(jax.random.key(0), 10, Uniform(dim=3)).shape
    (10, 3)
    """
    measure, m = _as_size(measure, m)
    engine = scipy.stats.qmc.LatinHypercube(measure.dim, rng=numpy_generator(key))
    return _to_measure(engine.random(m), measure)


def lattice(key: PRNGKeyArray, m: int, measure: Any, *, tent: bool = False) -> Float[Array, "m s"]:
    """A rank-1 lattice with a random shift, in the order of its generator.

    With the Korobov kernel its weights cost O(m log m), up to m = 2^20 and beyond. It suits
    periodic integrands; `tent` folds it by v -> 1 - |2v - 1|, which makes any integrand periodic
    (and the fold breaks the structure behind the fast weights). The generator is built component
    by component for a small worst-case error.

    >>> import jax
    >>> from owlfi.measures import Uniform
    >>> lattice(jax.random.key(0), 64, Uniform(dim=2)).shape
    (64, 2)
    """
    measure, m = _as_size(measure, m)
    vector = _generating_vector(m, measure.dim)
    shift = numpy_generator(key).random(measure.dim)
    multiples = np.arange(m)[:, None] * vector % m  # whole numbers: no rounding builds up
    v = (multiples / m + shift) % 1.0
    return _to_measure(1 - np.abs(2 * v - 1) if as_truth("tent", tent) else v, measure)


def tensor_grid(nodes: int, measure: Any) -> Float[Array, "m s"]:
    """The grid of Gauss nodes of each coordinate, nodes^s points; the last coordinate runs fastest.

    Gauss nodes of the measure itself for Uniform, Normal, Exponential, Gamma and Beta, images of
    Gauss-Legendre nodes for the others. With a separable kernel `optimal_weights` uses the
    structure and costs s·nodes^(s+1).

    Raises ValueError for measures without independent continuous coordinates, and for grids that
    do not fit in memory.

    >>> from owlfi.measures import Uniform
    >>> tensor_grid(2, Uniform(-1, 1)).round(6).ravel()
    Array([-0.57735,  0.57735], dtype=float64)
    """
    measure = as_measure(measure)
    nodes = as_count("nodes", nodes)
    if measure.dim * nodes**measure.dim > MOST_NUMBERS:
        raise ValueError(
            f"nodes = {nodes} in {measure.dim} coordinates make {nodes}^{measure.dim} points, too "
            "many for memory; take fewer nodes, or m points of sobol, halton or lattice"
        )
    axes = [_gauss_axis(nodes, coordinate(measure, j)) for j in range(measure.dim)]
    return jnp.asarray(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, measure.dim))


def _as_size(measure: Any, m: Any) -> tuple[Measure, int]:
    """The measure, and how many points of it; ValueError where they do not fit in memory."""
    found, count = as_measure(measure), as_count("m", m)
    check_size("m", count, found.dim)
    return found, count


def _to_measure(v: np.ndarray, measure: Measure) -> Float[Array, "m s"]:
    return measure.from_uniform(np.clip(v, 2.0**-60, 1 - 2.0**-53))


def _gauss_axis(nodes: int, measure: Measure) -> np.ndarray:
    rule: dict[type, Callable[[Any], np.ndarray]] = {
        Uniform: lambda u: u.low + (u.high - u.low) * 0.5 * (1 + roots_legendre(nodes)[0]),
        Normal: lambda u: u.mean + u.sd * roots_hermitenorm(nodes)[0],
        Exponential: lambda u: _laguerre_nodes(nodes, 0.0) / u.rate,
        Gamma: lambda u: _laguerre_nodes(nodes, float(u.shape[0]) - 1) / u.rate,
        Beta: lambda u: 0.5 * (1 + roots_jacobi(nodes, float(u.b[0]) - 1, float(u.a[0]) - 1)[0]),
    }
    if isinstance(measure, DiscreteFamily) or not isinstance(measure, Family):
        raise ValueError(
            f"tensor_grid needs continuous independent coordinates, not {type(measure).__name__}; "
            "use sobol or iid"
        )
    image = lambda u: u.from_uniform(0.5 * (1 + roots_legendre(nodes)[0])[:, None])  # noqa: E731
    axis = np.ravel(rule.get(type(measure), image)(measure))
    if not np.isfinite(axis).all():
        name = type(measure).__name__
        raise ValueError(f"nodes = {nodes} Gauss nodes of {name} overflow; take fewer nodes")
    return axis


def _laguerre_nodes(nodes: int, power: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        refined = roots_genlaguerre(nodes, power)[0]
    # scipy's polynomials overflow beyond 350 nodes, the recurrence does not.
    k = np.arange(1, nodes)
    recurrence = 2 * np.arange(nodes) + power + 1, np.sqrt(k * (k + power))
    return refined if np.isfinite(refined).all() else scipy.linalg.eigvalsh_tridiagonal(*recurrence)


@lru_cache
def _generating_vector(m: int, dim: int) -> np.ndarray:
    """Each entry in turn is the best of several candidates by the P_2 criterion, given the others.

    P_2 is the squared worst-case error for Korobov(alpha=1); the weights 1/j² of the coordinates
    keep it finite in many dimensions.
    """
    residues = np.arange(m)
    korobov = 2 * np.pi**2 * ((residues / m) ** 2 - residues / m + 1 / 6)
    rng = np.random.default_rng(m)
    count = max(8, _LATTICE_EFFORT // (m * dim))
    vector, product = np.ones(dim, int), np.ones(m)
    for j in range(dim):
        tried = rng.integers(1, m, count) if j and m > 2 else np.ones(1, int)
        tried = np.unique(np.append(tried[np.gcd(tried, m) == 1], 1))
        factors = (1 + korobov[residues * int(z) % m] / (j + 1) ** 2 for z in tried)
        scored = ((float(product @ f), int(z), f) for z, f in zip(tried, factors, strict=True))
        _, vector[j], best = min(scored, key=lambda entry: entry[0])
        product = product * best
    return vector
