"""How much chains say: effective draws and R-hat, in NumPy since nothing is worth compiling for it.

The formulas are those of Stan and BlackJAX (Gelman et al., Bayesian Data Analysis, 11.4 and 11.5).
"""

import numpy as np
from jaxtyping import Float


def count_effective(v: Float[np.ndarray, "chains n p"]) -> Float[np.ndarray, " p"]:
    """Independent draws that say as much of the mean, by Geyer's initial monotone sequence.

    0 for a coordinate that never moves, nan for one that has nan.

    >>> rng = np.random.default_rng(0)
    >>> count_effective(np.repeat(rng.normal(size=(2, 500, 1)), 4, axis=1)).round()
    array([992.])
    """
    chains, n, _ = v.shape
    covariances = _autocovariances(v)
    still = (v == v[:, :1]).all((0, 1)) | (covariances[0] <= 0)
    total = covariances[0] + (v.mean(1).var(0, ddof=1) if chains > 1 else 0)
    rho = 1 - (covariances[0] * n / (n - 1) - covariances) / np.where(still, 1, total)
    rho[0] = 1
    tau = np.maximum(_sum_geyer(rho[: n - n % 2]), 1 / np.log10(chains * n))
    found = np.where(still, 0.0, chains * n / tau)
    return np.where(np.isnan(v).any((0, 1)), np.nan, found)


def measure_r_hat(v: Float[np.ndarray, "chains n p"]) -> Float[np.ndarray, " p"]:
    """The root of how much wider all chains are than each of them, 1 where they agree.

    >>> measure_r_hat(np.random.default_rng(0).normal(size=(4, 500, 1))).round(2)
    array([1.])
    """
    n = v.shape[1]
    between, within = n * v.mean(1).var(0, ddof=1), v.var(1, ddof=1).mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never move
        return np.sqrt((between / within + n - 1) / n)


def _autocovariances(v: np.ndarray) -> Float[np.ndarray, "n p"]:
    """The mean of all chains, at every lag."""
    n = v.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(v - v.mean(1, keepdims=True), size, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n].mean(0) / n


def _sum_geyer(rho: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " p"]:
    """Twice the sum of the autocorrelations, less 1, while sums of pairs are positive and fall."""
    even, odd = rho[::2], rho[1::2]
    kept = np.logical_and.accumulate(even + odd > 0)
    end = kept.sum(0).clip(1, len(kept) - 1), np.arange(rho.shape[1])
    pairs = np.where(kept, even + odd, 0)
    first = np.where(kept[end], even[end], even[end].clip(0))  # of the pair that ends the sum
    pairs[end] = np.where(kept[end], pairs[end], first)
    falling = np.minimum.accumulate(pairs)
    half = np.where(pairs[end] > falling[end], falling[end] / 2, first)
    return -1 + 2 * falling.sum(0) - half
