"""Do two samples come from the same distribution? The MMD test of Gretton et al. (2012).

Under the null hypothesis the labels "x" and "y" of the pooled rows are exchangeable, so statistics
of relabelled rows calibrate the test exactly, for any sample sizes and any statistic.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt8

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_rows, as_truth, brief
from owlfi._tools.keys import numpy_generator, split_key
from owlfi._tools.progress import show_bars, track_steps
from owlfi.kernels import Kernel, as_kernel
from owlfi.kernels.default_kernel import default_kernel
from owlfi.problem.dependence import tell_dependence
from owlfi.results import HypothesisTest, announce
from owlfi.testing.health import tell_few_rows
from owlfi.testing.p_values import BANDWIDTHS, check_level, check_rows, decide, largest_studentised

_MEDIAN_ROWS = 2000  # of both samples, for the lengthscale
_TILE = 1024  # rows of the Gram matrix that are held at a time
_FEATURE_ROWS = 2048
_NULLS = ("permutation", "wild")
_PAIRS = ("all", "blocks", "features")


def two_sample(
    key: Key[Array, ""],
    x: Any,
    y: Any,
    *,
    data_kernel: Any = None,
    aggregate: bool = False,
    null: str = "permutation",
    pairs: str = "all",
    block: int = 128,
    frequencies: int = 100,
    resamples: int = 499,
    level: float = 0.05,
    progress: bool = False,
) -> HypothesisTest:
    """Test whether x (n, d) and y (m, d), or (n,) and (m,), have the same distribution.

    data_kernel: k; the `default_kernel` of the pooled rows (of 2,000 at most) where left out.
    aggregate: take the largest studentised statistic over lengthscales from 0.35 to 2 times that
        of k, in the manner of MMDAgg (Schrab et al. 2023) and MMD-FUSE (Biggs et al. 2023).
    null: "permutation" of the rows; or "wild", which exchanges x_i and y_i with probability 1/2
        (random signs), for samples of one size, and for pairs that depend on each other, too.
    pairs: "all" of them, at a cost of (n + m)² per kernel; "blocks" of `block` rows, whose
        U-statistics are averaged; or "features", where `frequencies` random Fourier frequencies
        stand for a squared exponential. The last two take time linear in n + m. A block has two
        rows of each sample at least: where sizes differ much, take features.
    resamples: B; p = (1 + k) / (1 + B).
    progress: show a bar.

    Every choice keeps the level exactly. With features the statistic is the V-statistic, else U.

    Raises ValueError for samples of different columns or fewer than 5 rows, a pooled sample whose
    rows are all equal, a B too small for the level, "wild" for different sizes, and features of
    another kernel than a squared exponential.

    >>> import owlfi
    >>> rows = jax.random.normal(jax.random.key(0), (60, 2))
    >>> owlfi.two_sample(jax.random.key(1), rows[:30], rows[30:] + 1.0).p_value
    0.002
    """
    resamples, level = check_level(resamples, level)
    _check_choice("null", null, _NULLS)
    _check_choice("pairs", pairs, _PAIRS)
    block, frequencies = as_count("block", block, 8), as_count("frequencies", frequencies)
    samples = _as_samples(x, y)
    n, m = (len(rows) for rows in samples)
    if null == "wild" and n != m:
        raise ValueError(f'null="wild" needs samples of one size, got {n} and {m}; permute instead')
    shuffle_key, label_key, feature_key = split_key(key, 3)
    shuffled = _shuffle(shuffle_key, samples, in_pairs=null == "wild")
    kernels = _choose_kernels(data_kernel, aggregate, shuffled)
    relabel = partial(_draw_labels, numpy_generator(label_key), null, resamples)
    with show_bars(progress):
        if pairs == "features":
            phases = _draw_frequencies(feature_key, kernels, frequencies, shuffled[0].shape[1])
            statistics = _by_features(phases, shuffled, relabel)
        else:
            statistics = _by_blocks(kernels, shuffled, relabel, n + m if pairs == "all" else block)
    chosen = largest_studentised(statistics) if aggregate else statistics[:, 0]
    about = {"method": "two-sample MMD", "null": null, "pairs": pairs, "n": n, "m": m}
    test = HypothesisTest(
        float(chosen[0]), *decide(chosen, level), level, as_jax(np.asarray(chosen)[1:]), about=about
    )
    return announce(replace(test, warnings=_tell(samples, test.rejected)))


def _tell(samples: tuple[np.ndarray, np.ndarray], rejected: bool) -> tuple[str, ...]:
    """Samples whose rows depend on each other, or of which the smaller one tells little."""
    named = dict(zip("xy", samples, strict=True))
    smaller = min(named, key=lambda name: len(named[name]))
    few = tell_few_rows(smaller, len(named[smaller]), rejected)
    return (*(told for name, rows in named.items() for told in tell_dependence(name, rows)), *few)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {brief(value)}")


def _as_samples(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(as_rows("x", x)), np.asarray(as_rows("y", y))
    names = [list(rows.columns) for rows in (x, y) if hasattr(rows, "columns")]
    if len(names) == 2 and names[0] != names[1] and set(names[0]) == set(names[1]):
        raise ValueError(f"x has the columns {names[0]}, y {names[1]}; give both in one order")
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"x and y must have the same number of columns, got {first.shape[1]} and "
            f"{second.shape[1]}"
        )
    check_rows("x", len(first))
    check_rows("y", len(second))
    return first, second


def _shuffle(
    key: Key[Array, ""], samples: tuple[np.ndarray, np.ndarray], in_pairs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both samples in random order: blocks of sorted data would not be alike."""
    rng = numpy_generator(key)
    first = rng.permutation(len(samples[0]))
    second = first if in_pairs else rng.permutation(len(samples[1]))
    return samples[0][first], samples[1][second]


def _choose_kernels(
    data_kernel: Any, aggregate: bool, samples: tuple[np.ndarray, np.ndarray]
) -> list[Kernel]:
    k = _kernel_of_pooled(samples) if data_kernel is None else as_kernel(data_kernel)
    factors = BANDWIDTHS if as_truth("aggregate", aggregate) else ()
    return [k.stretch(factor) for factor in factors] or [k]


def _kernel_of_pooled(samples: tuple[np.ndarray, np.ndarray]) -> Kernel:
    share = min(1.0, _MEDIAN_ROWS / sum(len(rows) for rows in samples))
    some = [rows[: max(1, round(share * len(rows)))] for rows in samples]
    return default_kernel(np.concatenate(some), name="the pooled sample of x and y")


def _draw_labels(
    rng: np.random.Generator, null: str, resamples: int, n: int, m: int
) -> UInt8[np.ndarray, "b rows"]:
    """1 for rows that count as x, as observed first, then relabelled."""
    observed = np.repeat(np.array([1, 0], np.uint8), (n, m))
    if null == "permutation":
        others = rng.permuted(np.tile(observed, (resamples, 1)), axis=1)
    else:
        kept = rng.integers(0, 2, (resamples, n), np.uint8)
        others = np.concatenate([kept, 1 - kept], 1)
    return np.concatenate([observed[None], others])


def _split(
    samples: tuple[np.ndarray, np.ndarray], rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of about so many rows, with both samples in proportion and two of each at least."""
    smaller = min(len(sample) for sample in samples)
    count = max(1, min(round(sum(map(len, samples)) / rows), smaller // 2))
    parts = (np.array_split(sample, count) for sample in samples)
    return zip(*parts, strict=True)


def _by_blocks(
    kernels: list[Kernel], samples: tuple[np.ndarray, np.ndarray], relabel: Any, rows: int
) -> Float[np.ndarray, "b l"]:
    """The mean of the U-statistics within blocks; rows are relabelled within their block."""
    totals, weight = np.zeros(()), 0
    parts = list(_split(samples, rows))
    for x, y in track_steps(parts, len(parts), "Two samples"):
        labels, z = as_jax(relabel(len(x), len(y))), as_jax(np.concatenate([x, y]))
        block = np.stack([_u_statistics(k, z, labels, len(x)) for k in kernels], 1)
        totals, weight = totals + len(z) * block, weight + len(z)
    return totals / weight


@eqx.filter_jit
def _u_statistics(kernel: Kernel, z: Array, labels: Array, n: int) -> Float[Array, " b"]:
    """For each labelling of the rows; each entry of the Gram matrix is computed once."""
    labels = labels.astype(float)
    size = min(_TILE, z.shape[0])
    count = -(-z.shape[0] // size)
    extra = count * size - z.shape[0]
    rows = jnp.concatenate([z, jnp.broadcast_to(z[:1], (extra, z.shape[1]))])
    marks = jnp.pad(labels, ((0, 0), (0, extra)))
    real = jnp.pad(jnp.ones(z.shape[0]), (0, extra))

    def add(sums: tuple[Array, Array, Array], j: Array) -> tuple[tuple[Array, Array, Array], None]:
        part = jax.lax.dynamic_slice_in_dim(marks, j * size, size, 1)
        gram = kernel.gram(z, jax.lax.dynamic_slice_in_dim(rows, j * size, size))
        columns = gram.sum(0) * jax.lax.dynamic_slice_in_dim(real, j * size, size)
        within = jnp.sum(part * (labels @ gram), 1)
        return (sums[0] + within, sums[1] + part @ columns, sums[2] + columns.sum()), None

    start = (jnp.zeros(len(labels)), jnp.zeros(len(labels)), jnp.zeros(()))
    (within, from_x, total), _ = jax.lax.scan(add, start, jnp.arange(count))
    diagonal = kernel.diagonal(z)
    own = labels @ diagonal
    xx, from_x, total = within - own, from_x - own, total - diagonal.sum()
    xy, yy, m = from_x - xx, total - 2 * from_x + xx, z.shape[0] - n
    return xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)


def _draw_frequencies(
    key: Key[Array, ""], kernels: list[Kernel], count: int, dim: int
) -> Float[Array, "l d f"]:
    """Of the spectral densities of the kernels, which are normal in Gaussian coordinates."""
    maps = [kernel.gaussian_coordinates() for kernel in kernels]
    if None in maps:
        raise ValueError(
            'pairs="features" needs a SquaredExponential kernel; use pairs="blocks" for others'
        )
    # Coordinates are linear in the data: their images of the axes are the matrix.
    axes = [to_gaussian(jnp.eye(dim)) for to_gaussian in maps if to_gaussian is not None]
    normal = jax.random.normal(key, (axes[0].shape[1], count))
    return jnp.stack([matrix @ normal for matrix in axes])


def _by_features(
    phases: Array, samples: tuple[np.ndarray, np.ndarray], relabel: Any
) -> Float[np.ndarray, "b l"]:
    """|mean φ(x) - mean φ(y)|² of random Fourier features (Rahimi and Recht 2007)."""
    n, m = (len(sample) for sample in samples)
    gaps = jnp.zeros(())
    parts = list(_split(samples, _FEATURE_ROWS))
    for x, y in track_steps(parts, len(parts), "Two samples"):
        z, labels = jnp.asarray(np.concatenate([x, y])), jnp.asarray(relabel(len(x), len(y)))
        gaps = gaps + _feature_sums(phases, z, labels, n, m)
    return np.asarray(jnp.sum(gaps**2, -1).T)


@eqx.filter_jit
def _feature_sums(phases: Array, z: Array, labels: Array, n: int, m: int) -> Float[Array, "l b f"]:
    shares = labels.astype(float) * (1 / n + 1 / m) - 1 / m

    def sums(phase: Array) -> Array:
        angles = z @ phase
        features = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], 1)
        return shares @ features / phase.shape[1] ** 0.5

    return jax.lax.map(sums, phases)
