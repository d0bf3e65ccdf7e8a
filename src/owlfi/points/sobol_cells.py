"""Scrambled Sobol sequences, bit for bit those of `scipy.stats.qmc`.

That takes a second to load, and is only asked where there are many coordinates.
"""

from functools import cache
from importlib.resources import files

import numpy as np
import scipy
from jaxtyping import Float

_BITS = 52
_MANY, _FEWER_BITS = 2000, 32  # coordinates whose scrambling would take gigabytes
_TABLED = 256
_LAST = 21201  # coordinate that has Sobol numbers


def draw_sobol(rng: np.random.Generator, m: int, dim: int) -> Float[np.ndarray, "m s"]:
    """The first m points of a scrambled sequence, inside of their cells and never at 0.

    Coordinates beyond those that have Sobol numbers are independent draws.

    >>> draw_sobol(np.random.default_rng(0), 4, 2).shape
    (4, 2)
    """
    leading = min(dim, _LAST)
    bits = _BITS if leading <= _MANY else _FEWER_BITS
    levels = (m - 1).bit_length()
    if leading <= _TABLED:
        cells = _draw_tabled(rng.spawn(1)[0], levels, leading)
    else:
        cells = scipy.stats.qmc.Sobol(leading, bits=bits, rng=rng).random_base2(levels)
    rest = rng.random((m, dim - leading))
    return np.concatenate([cells[:m] + 0.5 ** (bits + 1), rest], 1)


def _draw_tabled(rng: np.random.Generator, levels: int, dim: int) -> np.ndarray:
    """2^levels points: a random shift, and a random lower triangular matrix of bits."""
    powers = np.uint64(1) << np.arange(_BITS, dtype=np.uint64)
    shift = rng.integers(2, size=(dim, _BITS), dtype=np.uint64) @ powers
    lower = np.tril(rng.integers(2, size=(dim, _BITS, _BITS), dtype=np.uint64), -1)
    masks = (lower + np.eye(_BITS, dtype=np.uint64)) @ powers[::-1]
    plain = _direction_numbers(levels)[:dim]
    parities = np.bitwise_count(plain[:, :, None] & masks[:, None]) & 1
    directions = parities @ powers[::-1]
    points = np.empty((1 << levels, dim), np.uint64)
    points[0] = shift
    for level in range(levels):  # in the order of Gray's code, which is reflected
        half = points[: 1 << level]
        np.bitwise_xor(half[::-1], directions[:, level], out=points[len(half) : 2 * len(half)])
    return points * 0.5**_BITS


@cache
def _direction_numbers(levels: int) -> np.ndarray:
    """(256, levels), by the recurrence of P. Bratley and B. L. Fox, ACM TOMS 14 (1988)."""
    polynomials, first = _read_table()
    degrees = np.array([int(polynomial).bit_length() - 1 for polynomial in polynomials])
    v = np.ones((_TABLED, levels), np.uint64)
    for j in range(levels):
        new = v[np.arange(_TABLED), (j - degrees).clip(0)]
        for k in range(min(j, first.shape[1])):
            used = (polynomials >> (degrees - 1 - k).clip(0)) & (k < degrees)
            new ^= used.astype(np.uint64) * (v[:, j - k - 1] << np.uint64(k + 1))
        v[1:, j] = np.where(j < degrees, first[:, min(j, first.shape[1] - 1)], new)[1:]
    return v << np.arange(_BITS - 1, _BITS - 1 - levels, -1, dtype=np.uint64)


@cache
def _read_table() -> tuple[np.ndarray, np.ndarray]:
    """Polynomials (256,) and first direction numbers (256, degree), 0 beyond the degree."""
    text = (files("owlfi") / "data" / "sobol_numbers" / "joe_kuo.txt").read_text(encoding="utf-8")
    rows = [[1], *([int(word) for word in line.split()] for line in text.splitlines())]
    first = np.zeros((len(rows), max(map(len, rows)) - 1), np.uint64)
    for row, numbers in zip(first, rows, strict=True):
        row[: len(numbers) - 1] = numbers[1:]
    return np.array([row[0] for row in rows]), first
