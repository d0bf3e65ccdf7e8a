"""Kernel mean embeddings by brute force: composite Gauss-Legendre in extended precision.

Nothing here comes from owlfi. A density is a function of the signed distances to its anchors, the
points where it bends, jumps or blows up. A rule cuts the line into cells, one around each anchor
(those of the density and the point u), and each cell into panels that double in length away from
the anchor. A node is known by its distance from the anchor of its cell, the nearest one, so that no
distance to any anchor cancels.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import mpmath
import numpy as np
from scipy.special import kve

mp = mpmath.MPContext()
mp.dps = 40
Extended = np.longdouble
Values = np.ndarray
Formula = Callable[[Values, float], Values]  # the kernel at distance r, for a lengthscale

_NEGLIGIBLE = 1e-45
_POWER = 10  # x = y^10 in the innermost panel makes x^-0.5, x^0.7 and log x smooth


class Fineness(NamedTuple):
    """Nodes in a panel, the ratio of its ends, and the end of the innermost one."""

    nodes: int = 20
    ratio: float = 2.0
    innermost: float = 2.0**-20


FINE = Fineness()


class Rule(NamedTuple):
    """Nodes, each as an anchor and a signed distance from it, and weights."""

    anchor: Values
    distance: Values
    weight: Values

    def minus(self, point: Any) -> Values:
        """The signed distances of the nodes from a point."""
        return self.distance + (self.anchor - point)


def rule(
    anchors: Sequence[Any],
    low: Any,
    high: Any,
    farthest: float,
    cuts: Sequence[Any] = (),
    fine: Fineness = FINE,
) -> Rule:
    """A rule for integrals from low to high, that far from the last anchor where one is infinite.

    Anchors outside have no cell, but panels stay small against the distance from them.
    """
    points = np.unique(np.array([*anchors, low, high], Extended))
    points = points[np.isfinite(points)]
    gaps = np.concatenate([[Extended(farthest)], np.diff(points), [Extended(farthest)]])
    reach = np.concatenate([gaps[:1], gaps[1:-1] / 2, gaps[-1:]])
    sides = [np.zeros((3, 0), Extended)]
    for i in np.flatnonzero((points >= low) & (points <= high)):
        innermost = min(Extended(fine.innermost), gaps[i] / 256, gaps[i + 1] / 256)
        for sign, end, extent in ((-1, low, reach[i]), (1, high, reach[i + 1])):
            if points[i] == end:
                continue
            own = [sign * (cut - points[i]) for cut in cuts]
            distance, weight = _side(innermost, extent, own, fine)
            sides.append((np.full_like(distance, points[i]), sign * distance, weight))
    return Rule(*np.concatenate(sides, axis=1))


def _side(innermost: Any, extent: Any, cuts: Sequence[Any], fine: Fineness) -> tuple[Any, Any]:
    """Distances and weights on one side of an anchor."""
    doublings = np.arange(int(np.log(extent / innermost) / np.log(fine.ratio)) + 1)
    edges = np.unique([*(innermost * Extended(fine.ratio) ** doublings), *cuts, extent])
    edges = edges[(edges > 0) & (edges <= extent)]
    t, w = _gauss(fine.nodes)
    low, width = edges[:-1, None], np.diff(edges)[:, None]
    return (
        np.concatenate([edges[0] * t**_POWER, (low + width * t).ravel()]),
        np.concatenate([edges[0] * _POWER * t ** (_POWER - 1) * w, (width * w).ravel()]),
    )


@lru_cache
def _gauss(nodes: int) -> tuple[Values, Values]:
    """Gauss-Legendre on (0, 1)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x.astype(Extended) + 1) / 2, w.astype(Extended) / 2


class Line:
    """A density on an interval, a function of the distances from each of its anchors."""

    def __init__(
        self,
        density: Callable[..., Values],
        *anchors: float,
        low: float = -np.inf,
        high: float = np.inf,
    ):
        self.density, self.anchors, self.low, self.high = density, anchors, low, high
        self.farthest = self._farthest()

    def _farthest(self) -> float:
        """How far from its anchors the density still counts."""
        if np.isfinite(self.high - self.low):
            return self.high - self.low
        distance = 2.0 ** np.arange(111, dtype=Extended)
        signs = [sign for sign, end in ((-1, self.low), (1, self.high)) if np.isinf(end)]
        masses = [distance * self.density(*[sign * distance] * len(self.anchors)) for sign in signs]
        return 2 * distance[np.max(masses, axis=0) > _NEGLIGIBLE][-1]

    @lru_cache(maxsize=2048)  # noqa: B019
    def around(self, u: float, cuts: tuple = (), fine: Fineness = FINE) -> tuple[Values, Values]:
        """Distances from u, and weights that include the density."""
        nodes = rule((*self.anchors, u), self.low, self.high, self.farthest, cuts, fine)
        weight = nodes.weight * self.density(*(nodes.minus(a) for a in self.anchors))
        kept = weight > _NEGLIGIBLE
        return np.abs(nodes.minus(u))[kept], weight[kept]

    @lru_cache(maxsize=2048)  # noqa: B019
    def differences(self, cuts: tuple = (), fine: Fineness = FINE) -> tuple[Values, Values]:
        """Distances between two independent draws, and weights that include their density."""
        gaps = {abs(Extended(a) - b) for a in self.anchors for b in self.anchors}
        width = Extended(self.high) - self.low
        nodes = rule([*gaps], 0, width, self.farthest, cuts, fine)
        density = [2 * self._overlap(*node, fine) for node in zip(*nodes[:2], strict=True)]
        return nodes.minus(0), nodes.weight * density

    def _overlap(self, anchor: Any, distance: Any, fine: Fineness) -> Any:
        """∫ p(v) p(v + s) dv at s = anchor + distance."""
        shift = anchor + distance
        shifted = [a - shift for a in self.anchors]
        high = self.high - shift
        nodes = rule((*self.anchors, *shifted), self.low, high, self.farthest, fine=fine)
        first = self.density(*(nodes.minus(a) for a in self.anchors))
        second = self.density(
            *(
                np.where(nodes.anchor == b, nodes.distance, nodes.minus(a - anchor) + distance)
                for a, b in zip(self.anchors, shifted, strict=True)
            )
        )
        return (nodes.weight * first * second).sum()

    def mean(self, formula: Formula, lengthscale: float, u: float, periodic: bool = False) -> Any:
        """∫ c(u, v) p(v) dv."""
        kinks = self._kinks(lengthscale) if periodic else []
        distance, weight = self.around(u, tuple(u + kink for kink in kinks))
        return (weight * formula(distance, lengthscale)).sum()

    def norm2(self, formula: Formula, lengthscale: float, periodic: bool = False) -> Any:
        """∬ c(u, v) p(u) p(v) du dv."""
        kinks = self._kinks(lengthscale) if periodic else []
        distance, weight = self.differences(tuple(kinks))
        return (weight * formula(distance, lengthscale)).sum()

    def _kinks(self, period: float) -> Values:
        """Whole periods, both ways."""
        count = int(self.farthest / period) + 1
        return Extended(period) * np.arange(-count, count + 1)


class Atoms:
    """A discrete measure."""

    def __init__(self, values: Any, probabilities: Any):
        self.values = np.asarray(values, Extended)
        self.probabilities = np.asarray(probabilities, Extended)

    def mean(self, formula: Formula, lengthscale: float, u: float, periodic: bool = False) -> Any:
        return self.probabilities @ formula(np.abs(self.values - u), lengthscale)

    def norm2(self, formula: Formula, lengthscale: float, periodic: bool = False) -> Any:
        return self.probabilities @ [self.mean(formula, lengthscale, v) for v in self.values]


def number(value: Any) -> Any:
    """An mpmath number in extended precision."""
    return Extended(mp.nstr(value, 25))


def uniform(low: float, high: float) -> Line:
    height = 1 / (Extended(high) - low)
    return Line(lambda x: np.full_like(x, height), low, low=low, high=high)


def normal(mean: float, sd: float) -> Line:
    scale = sd * number(mp.sqrt(2 * mp.pi))
    return Line(lambda x: np.exp(-((x / sd) ** 2) / 2) / scale, mean)


def truncated_normal(mean: float, sd: float, low: float, high: float) -> Line:
    ends = [(mp.mpf(end) - mean) / mp.mpf(sd) for end in (low, high)]
    mass = number(mp.ncdf(ends[1]) - mp.ncdf(ends[0]))
    whole = normal(mean, sd)
    shift = [Extended(end) - mean for end in (low, high)]
    anchor, from_mean = (low, shift[0]) if np.isfinite(low) else (high, shift[1])
    return Line(lambda x: whole.density(x + from_mean) / mass, anchor, low=low, high=high)


def half_normal(sd: float) -> Line:
    return Line(lambda x: 2 * normal(0, sd).density(x), 0, low=0)


def log_normal(mean: float, sd: float) -> Line:
    return Line(lambda x: normal(0, sd).density(np.log(x) - mean) / x, 0, low=0)


def exponential(rate: float) -> Line:
    return Line(lambda x: rate * np.exp(-rate * x), 0, low=0)


def laplace(loc: float, scale: float) -> Line:
    return Line(lambda x: np.exp(-np.abs(x) / scale) / (2 * Extended(scale)), loc)


def gamma(shape: float, rate: float) -> Line:
    constant = Extended(rate) ** shape / number(mp.gamma(shape))
    return Line(lambda x: constant * x ** (Extended(shape) - 1) * np.exp(-rate * x), 0, low=0)


def beta(a: float, b: float) -> Line:
    constant = 1 / number(mp.beta(a, b))
    powers = Extended(a) - 1, Extended(b) - 1

    def density(x: Values, y: Values) -> Values:
        return constant * x ** powers[0] * (-y) ** powers[1]

    return Line(density, 0, 1, low=0, high=1)


def student_t(df: float, loc: float, scale: float) -> Line:
    constant = 1 / (number(mp.beta(0.5, mp.mpf(df) / 2)) * np.sqrt(Extended(df)) * scale)
    power = -(Extended(df) + 1) / 2
    return Line(lambda x: constant * (1 + (x / scale) ** 2 / df) ** power, loc)


def logistic(loc: float, scale: float) -> Line:
    def density(x: Values) -> Values:
        fall = np.exp(-np.abs(x) / scale)
        return fall / (scale * (1 + fall) ** 2)

    return Line(density, loc)


def gumbel(loc: float, scale: float) -> Line:
    def density(x: Values) -> Values:
        z = np.maximum(x / scale, -20)
        return np.exp(-z - np.exp(-z)) / scale

    return Line(density, loc)


def weibull(shape: float, scale: float) -> Line:
    def density(x: Values) -> Values:
        z = x / Extended(scale)
        return shape / scale * z ** (Extended(shape) - 1) * np.exp(-(z ** Extended(shape)))

    return Line(density, 0, low=0)


def symmetric(line: Line) -> Line:
    """A variable on the half line with a random sign."""
    return Line(lambda x: line.density(np.abs(x)) / 2, 0)


def extreme(shape: float) -> Line:
    """The generalized extreme value distribution that begins at 1 / shape < 0, in scipy's signs."""
    power = 1 / Extended(shape)

    def density(x: Values) -> Values:
        log = np.log(-Extended(shape) * x)
        return np.exp((power - 1) * log - np.exp(power * log))

    return Line(density, 1 / shape, low=1 / shape)


def moved(line: Line, loc: float, scale: float) -> Line:
    """loc + scale · a variable."""
    return Line(
        lambda *x: line.density(*(y / Extended(scale) for y in x)) / scale,
        *(loc + scale * anchor for anchor in line.anchors),
        low=loc + scale * line.low,
        high=loc + scale * line.high,
    )


def mirrored(line: Line) -> Line:
    """Minus a variable."""
    anchors = [-anchor for anchor in line.anchors]
    return Line(lambda *x: line.density(*(-y for y in x)), *anchors, low=-line.high, high=-line.low)


def triangular(mode: float) -> Line:
    """On [0, 1]."""

    def density(x: Values, side: Values, y: Values) -> Values:
        return 2 * np.where(side < 0, x / Extended(mode), -y / (1 - Extended(mode)))

    return Line(density, 0, mode, 1, low=0, high=1)


def asymmetric_laplace(kappa: float) -> Line:
    height = 1 / (Extended(kappa) + 1 / Extended(kappa))
    slope = Extended(kappa), 1 / Extended(kappa)
    return Line(lambda x: height * np.exp(-np.abs(x) * np.where(x > 0, *slope)), 0)


def mixture(weights: Sequence[float], lines: Sequence[Line]) -> Line:
    """Of lines with one anchor each."""

    def density(*offsets: Values) -> Values:
        parts = zip(weights, lines, offsets, strict=True)
        return sum(Extended(w) * line.density(x) for w, line, x in parts)

    return Line(density, *(line.anchors[0] for line in lines))


def poisson(rate: float) -> Atoms:
    counts = range(100)
    masses = [mp.mpf(rate) ** k * mp.exp(-rate) / mp.factorial(k) for k in counts]
    return Atoms(counts, [number(mass) for mass in masses])


def binomial(n: int, p: float) -> Atoms:
    counts = range(n + 1)
    masses = [mp.binomial(n, k) * mp.mpf(p) ** k * (1 - p) ** (n - k) for k in counts]
    return Atoms(counts, [number(mass) for mass in masses])


def squared_exponential(r: Values, lengthscale: float) -> Values:
    return np.exp(-((r / lengthscale) ** 2) / 2)


def matern(nu: float) -> Formula:
    """A polynomial times an exponential, or by the Bessel function of scipy (14 digits)."""
    polynomials = {0.5: [1], 1.5: [1, 1], 2.5: [1, 1, "1/3"], 3.5: [1, 1, "2/5", "1/15"]}

    def closed(r: Values, lengthscale: float) -> Values:
        t = np.sqrt(r.dtype.type(2 * nu)) * r / lengthscale
        return np.exp(-t) * np.polynomial.polynomial.polyval(t, coefficients.astype(r.dtype))

    def bessel(r: Values, lengthscale: float) -> Values:
        t = np.clip(np.sqrt(r.dtype.type(2 * nu)) * r / lengthscale, 1e-100, 1e4)
        return 2 * (t / 2) ** nu * kve(nu, t.astype(float)) * np.exp(-t) / at_zero

    if nu not in polynomials:
        at_zero = float(mp.gamma(nu))
        return bessel
    coefficients = np.array([number(mp.mpmathify(c)) for c in polynomials[nu]])
    return closed


def inverse_multiquadric(r: Values, lengthscale: float) -> Values:
    return 1 / np.sqrt(1 + (r / lengthscale) ** 2)


def rational_quadratic(alpha: float) -> Formula:
    return lambda r, lengthscale: (1 + (r / lengthscale) ** 2 / (2 * alpha)) ** -alpha


def korobov(alpha: int, weight: float) -> Formula:
    """With the Bernoulli polynomial of degree 2 alpha, lowest power first."""
    thirds = Extended(1) / 3
    bernoulli = {
        1: [thirds / 2, -1, 1],
        2: [-thirds / 10, 0, 1, -2, 1],
        3: [thirds / 14, 0, -0.5, 0, 2.5, -3, 1],
        4: [-thirds / 10, 0, 2 * thirds, 0, -7 * thirds, 0, 14 * thirds, -4, 1],
    }[alpha]
    factor = number((2 * mp.pi) ** (2 * alpha) / mp.factorial(2 * alpha))

    def formula(r: Values, period: float) -> Values:
        phase = (r / period) % 1
        series = (-1) ** (alpha + 1) * factor * np.polynomial.polynomial.polyval(phase, bernoulli)
        return 1 + weight * series

    return formula


_BOX = {2: Fineness(14, 2.5, 2.0**-12), 3: Fineness(10, 3.0, 2.0**-6)}


def box_mean(
    lines: Sequence[Line], formula: Formula, lengthscales: Sequence[float], u: Sequence[float]
) -> float:
    """∫ c(u, v) p(v) dv for a radial kernel and two or three independent coordinates.

    In three, a coarser rule has 10 digits.
    """
    fine = _BOX[len(lines)]
    rules = [line.around(float(x), (), fine) for line, x in zip(lines, u, strict=True)]
    return _tensor(rules, formula, lengthscales)


def box_norm2(lines: Sequence[Line], formula: Formula, lengthscales: Sequence[float]) -> float:
    """∬ c(u, v) p(u) p(v) du dv."""
    rules = [line.differences((), _BOX[len(lines)]) for line in lines]
    return _tensor(rules, formula, lengthscales)


def _tensor(rules: Any, formula: Formula, lengthscales: Sequence[float]) -> float:
    scaled = zip(rules, lengthscales, strict=True)
    squares = [((distance / ell) ** 2).astype(float) for (distance, _), ell in scaled]
    values = formula(np.sqrt(sum(np.ix_(*squares))), 1.0)
    for _, weight in reversed(rules):
        values = values @ weight.astype(float)
    return values


def normal_ball(dim: int, sd: float, formula: Formula, lengthscale: float) -> Any:
    """The expectation of a radial kernel at the length of a normal vector of any dimension."""
    nodes = rule([0], 0, np.inf, 64 * dim**0.5 * sd, fine=Fineness(nodes=80))
    r = nodes.distance / sd
    constant = number(mp.mpf(2) ** (1 - mp.mpf(dim) / 2) / mp.gamma(mp.mpf(dim) / 2)) / sd
    density = constant * r ** (dim - 1) * np.exp(-(r**2) / 2)
    return (nodes.weight * density * formula(nodes.distance, lengthscale)).sum()
