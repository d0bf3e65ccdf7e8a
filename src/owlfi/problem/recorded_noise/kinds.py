"""The standard coordinates that draws are made of, and the measure of a sequence of them."""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from owlfi.measures import Exponential, Laplace, Measure, Normal, Product, Uniform

UNIFORM, NORMAL, EXPONENTIAL, LAPLACE = "uniform", "normal", "exponential", "laplace"
BELOW_ONE = 1 - 2.0**-53
_TINY = np.finfo(float).tiny

Block = tuple[str, int]
"""A kind, and how many draws of it follow each other."""


class Kind(NamedTuple):
    """A standard distribution on the line."""

    measure: Callable[..., Measure]
    level: Callable[[Any], Any]
    """Its distribution function."""
    quantile: Callable[[Any], Any]
    draw: Callable[[np.random.Generator, int | None], Any]


def _laplace_level(x: Any) -> Any:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, half, 1 - half)


def _laplace_quantile(v: Any) -> Any:
    tail = np.log(2 * np.minimum(v, 1 - v))
    return np.where(v < 0.5, tail, -tail)


def _keep(v: Any) -> Any:
    return v


KINDS = {
    UNIFORM: Kind(Uniform, _keep, _keep, np.random.Generator.random),
    NORMAL: Kind(Normal, ndtr, ndtri, np.random.Generator.standard_normal),
    EXPONENTIAL: Kind(
        Exponential,
        lambda e: -np.expm1(-e),
        lambda v: -np.log1p(-v),
        np.random.Generator.standard_exponential,
    ),
    LAPLACE: Kind(Laplace, _laplace_level, _laplace_quantile, lambda rng, n: rng.laplace(size=n)),
}


def convert(values: np.ndarray, given: str, wanted: str) -> np.ndarray:
    """Values of one kind as those of another, by their levels."""
    if given == wanted:
        return values
    levels = np.clip(KINDS[given].level(values), _TINY, BELOW_ONE)
    return KINDS[wanted].quantile(levels)


def convert_one(value: float, given: str, wanted: str) -> float:
    """The same for one value, without arrays."""
    level = min(max(float(KINDS[given].level(value)), _TINY), BELOW_ONE)
    return float(KINDS[wanted].quantile(level))


def as_blocks(kinds: Iterable[str]) -> tuple[Block, ...]:
    """A sequence of kinds, each with how often it follows itself.

    >>> as_blocks(["normal", "normal", "uniform"])
    (('normal', 2), ('uniform', 1))
    """
    return tuple((kind, len(list(same))) for kind, same in groupby(kinds))


def measure_of(blocks: tuple[Block, ...]) -> Any:
    """The distribution of u, in the order of the draws."""
    parts = [KINDS[kind].measure(dim=count) for kind, count in blocks]
    return parts[0] if len(parts) == 1 else Product(*parts)
