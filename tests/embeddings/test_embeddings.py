"""Embeddings are integrals: checked for every pair against integration in extended precision."""

from functools import lru_cache, partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import reference
from catalogue import CLOSED_PAIRS, KERNELS, MEASURES, PAIRS, QUICK_PAIRS, SPACES
from owlfi import (
    Beta,
    Constant,
    Empirical,
    Exponential,
    FunctionKernel,
    Gamma,
    InverseMultiquadric,
    Korobov,
    Laplace,
    Matern,
    Mixture,
    Normal,
    Poisson,
    Product,
    RationalQuadratic,
    Separable,
    SquaredExponential,
    TruncatedNormal,
    Uniform,
    embed,
)

DOCUMENTED = 1e-12
LENGTHSCALES = (0.01, 0.3, 20.0)  # in interquartile ranges of the measure
QUANTILES = [1e-12, 0.01, 0.37, 0.9, 1 - 1e-12]
ISOTROPIC = [
    "matern-1/2",
    "matern-5/2",
    "matern-1.2",
    "inverse-multiquadric",
    "rational-quadratic-0.7",
]


@lru_cache
def quantiles(measure):
    return np.asarray(
        MEASURES[measure].measure.from_uniform(jnp.array([*QUANTILES, 0.25, 0.75])[:, None])
    )


def lengthscales(kernel, measure):
    """Short, middling and long; a period is not short where it has to cross an infinite line."""
    low, high = quantiles(measure)[-2:, 0]
    shortest = 1.0 if KERNELS[kernel].periodic and measure == "normal" else 0.0
    return [float(max(factor, shortest) * (high - low)) for factor in LENGTHSCALES]


def mean_error(kernel, measure, lengthscale):
    row, line, u = KERNELS[kernel], MEASURES[measure].line, quantiles(measure)[:-2]
    expected = [line.mean(row.formula, lengthscale, float(x), row.periodic) for x in u.ravel()]
    actual = embed(row.make(lengthscale), MEASURES[measure].measure).mean(u)
    return np.abs(np.asarray(actual) / np.array(expected) - 1).max()


def norm2_error(kernel, measure, lengthscale):
    row = KERNELS[kernel]
    expected = MEASURES[measure].line.norm2(row.formula, lengthscale, row.periodic)
    actual = embed(row.make(lengthscale), MEASURES[measure].measure).norm2
    return abs(float(actual) / expected - 1)


def is_crossed(pair):
    """Every measure with kernels of three kinds, every kernel with one measure of each kind.

    Panels depend on the kernel's kind alone, and each program to compile takes seconds.
    """
    kernel, measure = pair
    rows = kernel in ("squared-exponential", "matern-1/2", "rational-quadratic-0.7")
    return rows or measure in ("gamma-0.5", "poisson")


closed_pairs = pytest.mark.parametrize(("kernel", "measure"), CLOSED_PAIRS)


# The reference


@pytest.mark.parametrize(
    ("measure", "density", "ends"),
    [
        ("beta-2.5-0.7", lambda x, y: x**1.5 * y ** (mpmath.mpf(0.7) - 1), (0, 1)),
        ("gamma-0.5", lambda x, y: x**-0.5 * mpmath.exp(-2 * x), (0, 60)),
    ],
)
def test_reference_agrees_with_mpmath_to_16_digits(measure, density, ends):
    u, lengthscale = 0.0625, 0.03125
    with mpmath.workdps(30):
        splits = [ends[0], u / 2, u, 2 * u, 4 * u, 0.5, 0.75, *([] if ends[1] == 1 else [2, 8, 20])]

        def piece(function):
            inner = mpmath.quad(lambda x: function(x, ends[1] - x), splits)
            outer = mpmath.quad(lambda y: function(ends[1] - y, y), [0, ends[1] - splits[-1]])
            return inner + outer

        kernel = lambda x: mpmath.exp(-abs(x - u) / lengthscale)  # noqa: E731
        expected = piece(lambda x, y: density(x, y) * kernel(x)) / piece(density)
    actual = MEASURES[measure].line.mean(reference.matern(0.5), lengthscale, u)
    assert abs(actual / reference.number(expected) - 1) < 1e-15


@pytest.mark.parametrize("lengthscale", [0.03, 1.0, 40.0])
def test_reference_norm_of_a_normal_is_known(lengthscale):
    expected = 1 / np.sqrt(1 + 2 * (2 / np.longdouble(lengthscale)) ** 2)
    actual = MEASURES["normal"].line.norm2(reference.squared_exponential, lengthscale)
    assert abs(actual / expected - 1) < 1e-15


# One dimension


def assert_mean_is_the_integral(kernel, measure):
    for lengthscale in lengthscales(kernel, measure):
        assert mean_error(kernel, measure, lengthscale) <= DOCUMENTED


@pytest.mark.parametrize(("kernel", "measure"), QUICK_PAIRS)
def test_mean_is_the_integral(kernel, measure):
    assert_mean_is_the_integral(kernel, measure)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "measure"), [pair for pair in PAIRS if pair not in QUICK_PAIRS])
def test_every_other_mean_is_the_integral(kernel, measure):
    assert_mean_is_the_integral(kernel, measure)


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        *product(["squared-exponential", "matern-1/2", "matern-7/2"], ["uniform", "exponential"]),
        *product(["inverse-multiquadric", "rational-quadratic-1"], ["uniform"]),
        ("squared-exponential", "truncated-normal"),
        ("matern-5/2", "gamma-0.5"),
    ],
)
def test_mean_of_a_component_is_the_integral_outside_its_support(kernel, measure):
    """Where a mixture has other components."""
    row, line = KERNELS[kernel], MEASURES[measure].line
    component = MEASURES[measure].measure
    mixture = Mixture([component, Normal(0.0, 20.0)], [1.0, 0.0])
    (low,), (high,) = (np.asarray(end) for end in component.support)
    ends = [(low, -1.0)] if np.isinf(high) else [(low, -1.0), (high, 1.0)]
    u = np.array([end + sign * d for end, sign in ends for d in (1e-9, 0.1, 1.0, 5.0)])
    for lengthscale in (0.2, 0.5, 30.0):
        expected = [line.mean(row.formula, lengthscale, x, row.periodic) for x in u]
        actual = embed(row.make(lengthscale), mixture).mean(u)
        assert_allclose(actual, np.array(expected, float), rtol=DOCUMENTED)


def test_mean_of_a_component_is_periodic_outside_its_support():
    mixture = Mixture([Gamma(2.5, 2.0), Normal(0.0, 2.0)], [1.0, 0.0])
    for kernel in (Korobov(1, 0.5, period=0.7), Korobov(2, 0.5, period=0.7)):
        inside, outside = embed(kernel, mixture).mean([0.1, 0.1 - 8 * 0.7])
        assert_allclose(outside, inside, rtol=DOCUMENTED)


@pytest.mark.parametrize("kernel", ["matern-1/2", "matern-3/2", "inverse-multiquadric"])
def test_norm2_of_a_mixture_of_intervals_is_the_double_integral(kernel):
    row = KERNELS[kernel]
    mixture, interval = (
        Mixture([Uniform(0, 1), Uniform(2, 3)], [0.25, 0.75]),
        reference.uniform(0, 1),
    )
    within = float(interval.norm2(row.formula, 0.7))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    means = [float(interval.mean(row.formula, 0.7, 2.5 + 0.5 * x)) for x in nodes]
    expected = (0.25**2 + 0.75**2) * within + 2 * 0.25 * 0.75 * (0.5 * weights @ means)
    assert_allclose(embed(row.make(0.7), mixture).norm2, expected, rtol=DOCUMENTED)


def test_norm2_of_a_mixture_of_products_with_a_dependent_part():
    rows = np.array([[0.1, 0.2], [0.5, -0.3], [1.0, 0.7]])
    kernel, first = SquaredExponential(0.8), Product(Empirical(rows), Uniform(0, 1))
    second = Product(Normal(0.3, 0.5, dim=2), Uniform(0.5, 2))
    actual = embed(kernel, Mixture([first, second], [0.4, 0.6])).norm2
    nodes, weights = np.polynomial.legendre.leggauss(40)
    interval = partial(reference.uniform(0, 1).mean, reference.squared_exponential, 0.8)
    line = 0.5 * weights @ [float(interval(1.25 + 0.75 * x)) for x in nodes]
    plane = embed(kernel, second.parts[0]).mean(rows)
    own = [embed(kernel, measure).norm2 for measure in (first, second)]
    expected = 0.16 * own[0] + 0.36 * own[1] + 2 * 0.4 * 0.6 * line * plane.mean()
    assert_allclose(actual, expected, rtol=1e-13)
    turned = Product(Uniform(0, 1), Empirical(rows))
    with pytest.raises(ValueError, match="dependent parts"):
        _ = embed(kernel, Mixture([first, turned], [0.5, 0.5])).norm2


def test_scattered_atoms_of_scipy_are_summed_or_refused():
    table = scipy.stats.rv_discrete(values=([0.5, 1.7, 2.2], [0.2, 0.3, 0.5]))
    expected = 0.2 * np.exp(-0.125) + 0.3 * np.exp(-0.245) + 0.5 * np.exp(-0.72)
    assert_allclose(embed(SquaredExponential(1.0), table()).mean([1.0]), expected, rtol=1e-14)

    class Halves(scipy.stats.rv_discrete):
        def _pmf(self, k):
            return np.full(np.shape(k), 0.25)

    with pytest.raises(ValueError, match="halves, whose atoms are not a step of 1 apart"):
        embed(SquaredExponential(1.0), Halves(a=0, b=1, inc=0.25, name="halves")()).mean([0.5])


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        *product(["squared-exponential", "matern-5/2"], ["uniform", "normal", "exponential"]),
        *product(["inverse-multiquadric", "rational-quadratic-1"], ["uniform"]),
        *product(["squared-exponential"], ["laplace", "gamma-0.5", "poisson", "empirical"]),
        ("rational-quadratic-0.7", "normal"),
    ],
)
def test_norm2_is_the_double_integral(kernel, measure):
    for lengthscale in lengthscales(kernel, measure):
        assert norm2_error(kernel, measure, lengthscale) <= DOCUMENTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        pair
        for pair in PAIRS
        if pair in CLOSED_PAIRS or is_crossed(pair) or KERNELS[pair[0]].periodic
    ],
)
def test_every_norm2_is_the_double_integral(kernel, measure):
    for lengthscale in lengthscales(kernel, measure):
        assert norm2_error(kernel, measure, lengthscale) <= DOCUMENTED


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_norm2_of_a_uniform_measure_keeps_its_digits(lengthscale):
    for kernel in ["squared-exponential", "inverse-multiquadric", "rational-quadratic-1"]:
        assert norm2_error(kernel, "uniform", lengthscale) <= DOCUMENTED


def test_constant_kernel_embeds_as_itself():
    embedding = embed(Constant(0.3), Gamma(2.0))
    assert np.array_equal(embedding.mean([1.0, 2.0]), [0.3, 0.3])
    assert embedding.norm2 == 0.3


def test_korobov_kernel_embeds_as_one_over_a_whole_period():
    embedding = embed(Korobov(2, period=3.0), Uniform(-1, 2))
    assert_allclose(embedding.mean([-1.0, 0.3, 2.0]), np.ones(3), rtol=1e-14)
    assert_allclose(embedding.norm2, 1.0, rtol=1e-14)


def test_frozen_scipy_distribution_is_embedded():
    embedding = embed(SquaredExponential(0.7), scipy.stats.norm(0.5, 2))
    own = embed(SquaredExponential(0.7), Normal(0.5, 2))
    assert np.array_equal(embedding.mean([1.0]), own.mean([1.0]))


FROZEN = {  # singular at an upper end or inside, flat at an end, or with a kink inside
    "beta": (scipy.stats.beta(0.5, 0.5, 3, 2), reference.moved(reference.beta(0.5, 0.5), 3, 2)),
    "weibull_max": (
        scipy.stats.weibull_max(0.6, loc=5),
        reference.moved(reference.mirrored(reference.weibull(0.6, 1.0)), 5, 1),
    ),
    "genextreme": (scipy.stats.genextreme(-0.25), reference.extreme(-0.25)),
    "dgamma": (
        scipy.stats.dgamma(0.5, loc=10),
        reference.moved(reference.symmetric(reference.gamma(0.5, 1.0)), 10, 1),
    ),
    "dweibull": (
        scipy.stats.dweibull(0.7, loc=3, scale=2),
        reference.moved(reference.symmetric(reference.weibull(0.7, 1.0)), 3, 2),
    ),
    "triang": (scipy.stats.triang(0.375), reference.triangular(0.375)),
    "laplace_asymmetric": (
        scipy.stats.laplace_asymmetric(1.25),
        reference.asymmetric_laplace(1.25),
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_density_that_bends_is_integrated(name):
    frozen, line = FROZEN[name]
    u = frozen.ppf([1e-9, 0.3, 0.9, 1 - 1e-9])
    for lengthscale in np.diff(frozen.ppf([0.25, 0.75]))[0] * np.array(LENGTHSCALES):
        expected = [line.mean(reference.matern(1.5), lengthscale, float(x)) for x in u]
        actual = embed(Matern(1.5, lengthscale), frozen).mean(u)
        assert_allclose(actual, np.array(expected, float), rtol=DOCUMENTED)


@pytest.mark.slow
@pytest.mark.parametrize("name", FROZEN)
def test_norm2_of_a_frozen_density_that_bends_is_the_double_integral(name):
    frozen, line = FROZEN[name]
    for lengthscale in np.diff(frozen.ppf([0.25, 0.75]))[0] * np.array(LENGTHSCALES):
        expected = line.norm2(reference.matern(1.5), lengthscale)
        assert_allclose(
            embed(Matern(1.5, lengthscale), frozen).norm2, float(expected), rtol=DOCUMENTED
        )


def normal_kernel_of_a_power(log_density, power, lengthscale):
    """∫ exp(-x²/2l²) p(x) dx by x = y^power, which a density that goes as x^(1/power - 1) needs."""
    with mpmath.workdps(30):
        power = mpmath.mpf(power)

        def integrand(y):
            x = y**power
            return power * mpmath.exp(log_density(x) - (x / lengthscale) ** 2 / 2)

        cuts = [mpmath.mpf(10) ** (k / power) for k in range(-30, 0, 3)]
        return mpmath.quad(
            integrand, [0, *cuts, *(k ** (1 / power) for k in (0.3, 1, 2, 5, 20, 90))]
        )


@pytest.mark.parametrize("shape", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("make", [Gamma, lambda shape: scipy.stats.gamma(shape, loc=1.0)])
def test_probability_nearer_to_an_end_than_any_double_is_kept(make, shape):
    density = lambda x: -x - mpmath.loggamma(shape)  # noqa: E731
    expected = normal_kernel_of_a_power(density, 1 / mpmath.mpf(shape), 0.5)
    measure = make(shape)
    end = 0.0 if isinstance(measure, Gamma) else 1.0
    actual = embed(SquaredExponential(0.5), measure).mean([end])
    assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


def test_median_that_rounds_to_an_end_is_told_from_it():
    power = 1 / mpmath.mpf(0.02)
    with mpmath.workdps(30):
        expected = mpmath.quad(
            lambda y: (1 - y**power) * mpmath.exp(-(y ** (2 * power)) / 2),
            [0, 0.3, 0.6, 0.8, 0.9, 0.95, 1],
        )
        expected *= power / mpmath.beta(2, 0.02)
    for measure, end in ((Beta(2.0, 0.02), 1.0), (scipy.stats.beta(2.0, 0.02, loc=3.0), 4.0)):
        actual = embed(SquaredExponential(1.0), measure).mean([end])
        assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


@pytest.mark.parametrize(("shape", "loc"), [(0.5, 0.0), (0.5, 10.0), (0.05, -7.0)])
def test_point_where_the_density_is_infinite_inside_is_embedded(shape, loc):
    density = lambda x: -x - mpmath.loggamma(shape)  # noqa: E731
    expected = normal_kernel_of_a_power(density, 1 / mpmath.mpf(shape), 1.0)
    actual = embed(SquaredExponential(1.0), scipy.stats.dgamma(shape, loc=loc)).mean([loc])
    assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


class Cusp(scipy.stats.rv_continuous):
    """Infinite at 0.3, as an inverse square root."""

    def _pdf(self, x):
        with np.errstate(divide="ignore"):
            return np.abs(x - 0.3) ** -0.5 / (2 * (0.3**0.5 + 0.7**0.5))

    def _cdf(self, x):
        root = np.sign(x - 0.3) * np.abs(x - 0.3) ** 0.5
        return (root + 0.3**0.5) / (0.3**0.5 + 0.7**0.5)


def test_density_of_ones_own_that_is_infinite_inside_is_integrated():
    roots = np.sqrt(np.longdouble(0.3)) + np.sqrt(1 - np.longdouble(0.3))
    line = reference.Line(lambda x: np.abs(x) ** -0.5 / (2 * roots), 0.3, low=0, high=1)
    frozen = Cusp(a=0.0, b=1.0, name="cusp")()
    for u in (0.0, 0.2, 0.3, 1.0):
        expected = line.mean(reference.matern(1.5), 0.1, u)
        actual = embed(Matern(1.5, 0.1), frozen).mean([u])
        assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


@pytest.mark.parametrize("u", [1e15, 1e39])
def test_kernel_and_measure_that_both_fall_as_powers_are_integrated(u):
    """In log x below u/2 and above 2u, in the log of the distance from u between."""
    frozen, power = scipy.stats.pareto(0.3), mpmath.mpf(0.3)
    with mpmath.workdps(60):
        lengthscale = 0.01 * np.diff(frozen.ppf([0.25, 0.75]))[0]

        def weight(x, r):
            return power * x ** (-power - 1) / mpmath.sqrt(1 + (r / lengthscale) ** 2)

        def far(s):
            return mpmath.exp(s) * weight(mpmath.exp(s), mpmath.exp(s) - u)

        def near(s, sign):
            return mpmath.exp(s) * weight(u + sign * mpmath.exp(s), mpmath.exp(s))

        def integral(function, low, high):
            return mpmath.quad(function, mpmath.linspace(low, high, int((high - low) / 4) + 2))

        half, log = min(u / 2, u - 1), mpmath.log
        expected = integral(far, 0, log(u - half)) + integral(far, log(2 * u), log(u) + 250)
        expected += integral(partial(near, sign=1), -80, log(u))
        expected += integral(partial(near, sign=-1), -80, log(half))
    actual = embed(InverseMultiquadric(lengthscale), frozen).mean([u])
    assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


@pytest.mark.parametrize("nu", [0.01, 0.05])
def test_matern_kernel_that_is_nearly_singular_is_integrated(nu):
    lengthscale, u = 10.0, 0.3
    with mpmath.workdps(30):
        order = mpmath.mpf(nu)

        def kernel(s):
            t = mpmath.sqrt(2 * order) * mpmath.exp(s) / lengthscale
            value = 2 ** (1 - order) / mpmath.gamma(order) * t**order * mpmath.besselk(order, t)
            return mpmath.exp(s) * value

        sides = [mpmath.linspace(-60, mpmath.log(side), 8) for side in (u, 1 - u)]
        expected = sum(mpmath.quad(kernel, side) for side in sides)
    actual = embed(Matern(nu, lengthscale), Uniform(0, 1)).mean([u])
    assert_allclose(actual, [float(expected)], rtol=DOCUMENTED)


def histogram(bins):
    counts, edges = np.histogram(np.random.default_rng(0).normal(size=5000), bins=bins)
    parts = [Uniform(*ends) for ends in pairwise(edges)]
    frozen = scipy.stats.rv_histogram((counts, edges), density=False)()
    return frozen, Mixture(parts, counts / counts.sum())


@pytest.mark.parametrize("lengthscale", [0.0135, 0.4, 27.0])
def test_histogram_is_a_mixture_of_uniforms(lengthscale):
    frozen, mixture = histogram(bins=40)
    u, kernel = frozen.ppf([[1e-12], [0.4], [1.0]]), SquaredExponential(lengthscale)
    assert_allclose(embed(kernel, frozen).mean(u), embed(kernel, mixture).mean(u), rtol=DOCUMENTED)


@pytest.mark.slow
def test_norm2_of_a_histogram_is_that_of_a_mixture_of_uniforms():
    frozen, mixture = histogram(bins=[-4, 1, 4])
    kernel = Matern(0.5, 0.0135)
    assert_allclose(embed(kernel, frozen).norm2, embed(kernel, mixture).norm2, rtol=DOCUMENTED)


def test_norm2_of_a_mixture_of_a_narrow_and_a_wide_component_is_integrated():
    kernel, narrow, wide = SquaredExponential(0.0135), Normal(0, 1), Laplace(500, 1e4)
    x, weights = np.polynomial.hermite_e.hermegauss(40)
    cross = weights @ embed(kernel, wide).mean(x) / weights.sum()
    own = 0.81 * embed(kernel, narrow).norm2 + 0.01 * embed(kernel, wide).norm2
    for mixture in (Mixture([narrow, wide], [0.9, 0.1]), Mixture([wide, narrow], [0.1, 0.9])):
        actual = (embed(kernel, mixture).norm2 - own) / 0.18
        assert_allclose(actual, cross, rtol=1e-9)  # the other digits cancel


@pytest.mark.parametrize("period", [0.0135, 1.0, 30.0])
def test_periodic_kernel_on_a_normal_measure_is_its_fourier_series(period):
    h, u = np.arange(1.0, 200.0)[:, None], np.array([-7.0, 0.0, 0.3])
    decay = h**-2.0 * np.exp(-2 * (np.pi * h / period) ** 2)
    expected = 1 + 2 * (decay * np.cos(2 * np.pi * h * u / period)).sum(0)
    embedding = embed(Korobov(1, period=period), Normal())
    assert_allclose(embedding.mean(u), expected, rtol=DOCUMENTED)
    norm2 = 1 + 2 * (h**-2.0 * np.exp(-4 * (np.pi * h / period) ** 2)).sum()
    assert_allclose(embedding.norm2, norm2, rtol=DOCUMENTED)


def test_period_too_short_for_the_spread_of_a_measure_is_refused():
    with pytest.raises(ValueError, match=r"period 0\.001 .*too short for Exponential"):
        embed(Korobov(1, period=0.001), Exponential()).mean([0.5])


def test_norm2_of_many_equal_counts_is_known():
    n, lengthscale = 10**5, 1.3
    lags = np.arange(1, 20)
    expected = (n + 2 * (n - lags) @ np.exp(-((lags / lengthscale) ** 2) / 2)) / n**2
    actual = embed(SquaredExponential(lengthscale), scipy.stats.randint(0, n)).norm2
    assert_allclose(actual, expected, rtol=DOCUMENTED)


@pytest.mark.parametrize("frozen", [scipy.stats.nbinom(3, 0.05), scipy.stats.zipf(9.0)])
def test_norm2_of_many_counts_is_their_double_sum(frozen):
    counts = np.arange(2.0**14)
    weights = frozen.pmf(counts)
    expected = sum(
        (2 if lag else 1)
        * np.exp(-((lag / 2.5) ** 2) / 2)
        * (weights[lag:] @ weights[: 2**14 - lag])
        for lag in range(25)
    )
    actual = embed(SquaredExponential(2.5), frozen).norm2
    assert_allclose(actual, expected, rtol=DOCUMENTED)


@pytest.mark.slow
def test_norm2_of_a_mixture_of_counts_is_the_double_sum():
    counts = np.arange(100.0)
    weights = sum(0.5 * scipy.stats.poisson(rate).pmf(counts) for rate in (1.0, 20.0))
    matrix = np.exp(-(((counts[:, None] - counts) / 1.3) ** 2) / 2)
    mixture = Mixture([Poisson(1.0), Poisson(20.0)], [0.5, 0.5])
    actual = embed(SquaredExponential(1.3), mixture).norm2
    assert_allclose(actual, weights @ matrix @ weights, rtol=DOCUMENTED)


@pytest.mark.parametrize("frozen", [scipy.stats.zipf(1.5), scipy.stats.randint(0, 10**7)])
def test_too_many_counts_are_refused(frozen):
    with pytest.raises(ValueError, match=f"{frozen.dist.name} over more than .* whole numbers"):
        embed(SquaredExponential(1.0), frozen).mean([[1.0]])


# Several dimensions


def test_separable_kernel_multiplies_over_coordinates():
    measure = Product(Normal(0.5, 2), Exponential(1.7))
    ells, u = [0.5, 2.0], np.array([[1.0, 0.3]])
    parts = [embed(Matern(0.5, ell), part) for ell, part in zip(ells, measure.parts, strict=True)]
    embedding = embed(Separable(Matern(0.5, ells)), measure)
    expected = np.prod([part.mean(u[:, j]) for j, part in enumerate(parts)])
    assert_allclose(embedding.mean(u), [expected], rtol=1e-14)
    assert_allclose(embedding.norm2, np.prod([part.norm2 for part in parts]), rtol=1e-14)


def test_squared_exponential_kernel_multiplies_over_coordinates():
    embedding = embed(SquaredExponential([0.5, 3.0]), Normal([0.5, 1.0], [2.0, 1.0]))
    parts = [
        embed(SquaredExponential(0.5), Normal(0.5, 2.0)),
        embed(SquaredExponential(3.0), Normal(1.0, 1.0)),
    ]
    expected = parts[0].mean([0.1]) * parts[1].mean([1.7])
    assert_allclose(embedding.mean([[0.1, 1.7]]), expected, rtol=1e-14)
    assert_allclose(embedding.norm2, parts[0].norm2 * parts[1].norm2, rtol=1e-14)


def test_korobov_kernel_multiplies_over_coordinates():
    kernel = Korobov(2, weight=[0.5, 2.0], period=[1.0, 3.0])
    embedding = embed(kernel, Uniform([0, 1], [0.5, 2]))
    parts = [
        embed(Korobov(2, 0.5, 1.0), Uniform(0, 0.5)),
        embed(Korobov(2, 2.0, 3.0), Uniform(1, 2)),
    ]
    expected = parts[0].mean([0.1]) * parts[1].mean([1.7])
    assert_allclose(embedding.mean([[0.1, 1.7]]), expected, rtol=1e-14)
    assert_allclose(embedding.norm2, parts[0].norm2 * parts[1].norm2, rtol=1e-14)


def test_mixture_in_two_dimensions_is_linear_in_its_components():
    parts = [Normal([0, 1], 0.5), Product(Uniform(-1, 1), Laplace(0.3, 0.8))]
    kernel, u = SquaredExponential([0.7, 1.5]), np.array([[0.2, 0.5]])
    mixed = embed(kernel, Mixture(parts, [0.25, 0.75])).mean(u)
    expected = 0.25 * embed(kernel, parts[0]).mean(u) + 0.75 * embed(kernel, parts[1]).mean(u)
    assert_allclose(mixed, expected, rtol=1e-14)


def test_empirical_measure_in_two_dimensions_is_a_sum_over_its_rows():
    rows, weights = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]]), np.array([0.5, 0.25, 0.25])
    kernel = Matern(1.5, [0.7, 1.5])
    embedding = embed(kernel, Empirical(rows, weights))
    assert_allclose(embedding.mean(rows), kernel.gram(rows, rows) @ weights, rtol=1e-14)
    assert_allclose(embedding.norm2, weights @ kernel.gram(rows, rows) @ weights, rtol=1e-14)


def isotropic_errors(kernel, space, ell, levels):
    row, (measure, lines) = KERNELS[kernel], SPACES[space]
    embedding = embed(row.make(np.array(ell)), measure)
    u = np.asarray(measure.from_uniform(jnp.array(levels)))
    expected = [reference.box_mean(lines, row.formula, ell, x) for x in u]
    yield np.abs(np.asarray(embedding.mean(u)) / np.array(expected) - 1).max()
    yield abs(float(embedding.norm2) / reference.box_norm2(lines, row.formula, ell) - 1)


@pytest.mark.parametrize("kernel", ["matern-1/2", "matern-1.2", "rational-quadratic-0.7"])
def test_isotropic_kernel_in_two_dimensions_is_integrated(kernel):
    for error in isotropic_errors(kernel, "mixed-2", [0.4, 1.3], [[0.37, 0.9]]):
        assert error <= DOCUMENTED


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ISOTROPIC)
@pytest.mark.parametrize("space", ["uniform-2", "normal-2", "mixed-2"])
@pytest.mark.parametrize("ell", [[0.03, 0.04], [0.4, 1.3], [40.0, 20.0]])
def test_isotropic_kernel_in_two_dimensions_is_integrated_everywhere(kernel, space, ell):
    levels = [[0.37, 0.9], [0.5, 0.5], [1e-12, 0.5], [1e-12, 1 - 1e-12]]
    for error in isotropic_errors(kernel, space, ell, levels):
        assert error <= DOCUMENTED


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ISOTROPIC)
@pytest.mark.parametrize("space", ["uniform-3", "normal-3", "mixed-3"])
def test_isotropic_kernel_in_three_dimensions_is_integrated_to_nine_digits(kernel, space):
    for error in isotropic_errors(kernel, space, [0.6, 1.3, 0.9], [[0.37, 0.9, 0.1]]):
        assert error <= 1e-9  # the reference has no more


def many_dimensional_errors(kernel, formula, dim):
    """On standard normal noise, where a point and a difference of two are normal vectors."""
    embedding = embed(kernel, Normal(dim=dim))
    actual = embedding.mean(np.zeros((1, dim)))[0], embedding.norm2
    for value, sd in zip(actual, (1.0, np.sqrt(2.0)), strict=True):
        expected = reference.normal_ball(dim, sd, formula, float(kernel.lengthscale))
        yield abs(float(value) / expected - 1)


def assert_integrated_in_many_dimensions(kernel, formula, dim):
    assert max(many_dimensional_errors(kernel, formula, dim)) <= DOCUMENTED


@pytest.mark.parametrize(("nu", "dim", "lengthscale"), [(0.05, 60, 27.0), (2.5, 100, 0.135)])
def test_matern_kernel_in_many_dimensions_is_integrated(nu, dim, lengthscale):
    assert_integrated_in_many_dimensions(Matern(nu, lengthscale), reference.matern(nu), dim)


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.05, 0.5, 2.5])
@pytest.mark.parametrize("dim", [2, 7, 20, 60])
def test_matern_kernel_in_any_dimension_is_integrated(nu, dim):
    for lengthscale in (0.0135, 0.135, 1.35, 27.0):
        assert_integrated_in_many_dimensions(Matern(nu, lengthscale), reference.matern(nu), dim)


@pytest.mark.parametrize(("alpha", "dim"), [(0.05, 2), (0.01, 10)])
def test_rational_quadratic_kernel_with_heavy_tails_is_integrated(alpha, dim):
    kernel, formula = RationalQuadratic(1.349, alpha), reference.rational_quadratic(alpha)
    assert_integrated_in_many_dimensions(kernel, formula, dim)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.01, 0.7, 5.0, 100.0])
@pytest.mark.parametrize("dim", [2, 7, 60])
def test_rational_quadratic_kernel_in_any_dimension_is_integrated(alpha, dim):
    formula = reference.rational_quadratic(alpha)
    for lengthscale in (0.0135, 1.35, 27.0):
        assert_integrated_in_many_dimensions(RationalQuadratic(lengthscale, alpha), formula, dim)


def test_product_of_an_isotropic_and_a_separable_kernel_is_integrated():
    kernel = RationalQuadratic(0.7) * SquaredExponential([0.5, 2.0])
    measure, u = Normal([0.5, -1], [2, 1]), np.array([[0.3, 0.6]])
    lines = [reference.normal(0.5, 2), reference.normal(-1, 1)]
    weights = [line.around(float(x)) for line, x in zip(lines, u[0], strict=True)]
    (r1, w1), (r2, w2) = ((r.astype(float), w.astype(float)) for r, w in weights)
    values = 1 / (1 + (r1[:, None] ** 2 + r2**2) / (2 * 0.7**2))
    values *= np.exp(-((r1[:, None] / 0.5) ** 2 + (r2 / 2) ** 2) / 2)
    assert_allclose(embed(kernel, measure).mean(u), [w1 @ values @ w2], rtol=DOCUMENTED)


# Transformations

U = jnp.array([[0.4]])
QUICK_TO_COMPILE = [
    ("squared-exponential", "uniform"),
    ("squared-exponential", "normal"),
    ("inverse-multiquadric", "uniform"),
    ("korobov-2", "uniform"),
]
quick_pairs = pytest.mark.parametrize(("kernel", "measure"), QUICK_TO_COMPILE)


@jax.jit
def mean_of(tree):
    kernel, measure, u = tree
    return embed(kernel, measure).mean(u)[0]


@jax.jit
def norm2_of(tree):
    return embed(*tree).norm2


mean_gradient, norm2_gradient = jax.jit(jax.grad(mean_of)), jax.jit(jax.grad(norm2_of))


def numbers(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def central_differences(function, tree):
    """The derivative in every number of a tree, by differences of fourth order."""
    leaves, build = jax.tree.flatten(tree)

    def at(i, j, step):
        moved = leaves[i].reshape(-1).at[j].add(step).reshape(leaves[i].shape)
        return function(jax.tree.unflatten(build, [*leaves[:i], moved, *leaves[i + 1 :]]))

    def slope(i, j, h=1e-3):
        near, far = (at(i, j, step) - at(i, j, -step) for step in (h, 2 * h))
        return (8 * near - far) / (12 * h)

    return np.array([slope(i, j) for i, leaf in enumerate(leaves) for j in range(leaf.size)])


def assert_differentiable(kernel, measure):
    """In the point, the kernel and the measure; finite also at the ends of the support."""
    row = MEASURES[measure]
    tree = (KERNELS[kernel].make(jnp.array(0.85)), row.measure, U)
    expected = central_differences(mean_of, tree)
    assert_allclose(numbers(mean_gradient(tree)), expected, rtol=1e-7, atol=1e-9)
    for lengthscale, level in product([1e-3, 1e3], [0.0, 0.5, 1.0]):
        u = jnp.array(np.clip(row.twin.ppf([[level]]), -1e3, 1e3))
        tree = (KERNELS[kernel].make(jnp.array(lengthscale)), row.measure, u)
        assert np.isfinite(numbers(mean_gradient(tree))).all(), (lengthscale, level)


@quick_pairs
def test_closed_form_is_differentiable(kernel, measure):
    assert_differentiable(kernel, measure)


@pytest.mark.slow
@closed_pairs
def test_every_closed_form_is_differentiable(kernel, measure):
    assert_differentiable(kernel, measure)


@quick_pairs
def test_closed_form_of_norm2_is_differentiable(kernel, measure):
    tree = (KERNELS[kernel].make(jnp.array(0.85)), MEASURES[measure].measure)
    expected = central_differences(norm2_of, tree)
    assert_allclose(numbers(norm2_gradient(tree)), expected, rtol=1e-7, atol=1e-9)


@quick_pairs
def test_closed_form_is_the_same_inside_jit(kernel, measure):
    tree = (KERNELS[kernel].make(jnp.array(0.85)), MEASURES[measure].measure, U)
    assert_allclose(mean_of(tree), embed(*tree[:2]).mean(U)[0], rtol=1e-14)


WHERE_FORMULAS_SWITCH = {
    "matern on uniform": (Matern(0.5, 1.0), Uniform(0, 10), 5.0),
    "matern on normal below": (Matern(0.5, 1.0), Normal(0, 1), -1.0),
    "matern on normal above": (Matern(0.5, 1.0), Normal(0, 1), 2.0),
    "matern on exponential": (Matern(0.5, 1.0), Exponential(1.0), 0.7),
    "matern on laplace": (Matern(0.5, 1.0), Laplace(0, 1), 0.7),
    "matern on laplace at its centre": (Matern(1.5, 0.7), Laplace(0, 1), 0.0),
    "squared exponential on exponential": (SquaredExponential(1.0), Exponential(1.0), 1.0),
    "squared exponential on laplace": (SquaredExponential(1.0), Laplace(0, 1), -1.0),
    "squared exponential on truncated normal": (
        SquaredExponential(1.0),
        TruncatedNormal(0, 1, -1, 1),
        0.0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WHERE_FORMULAS_SWITCH.values(), ids=WHERE_FORMULAS_SWITCH)
def test_closed_form_is_differentiable_where_its_formula_switches(case):
    kernel, measure, u = case
    tree = (kernel, measure, jnp.array([[u]]))
    expected = central_differences(mean_of, tree)
    assert_allclose(numbers(mean_gradient(tree)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@closed_pairs
def test_every_closed_form_is_the_same_inside_jit(kernel, measure):
    tree = (KERNELS[kernel].make(jnp.array(0.85)), MEASURES[measure].measure)
    assert_allclose(mean_of((*tree, U)), embed(*tree).mean(U)[0], rtol=1e-13)
    if measure not in ("half-normal", "truncated-normal"):
        assert_allclose(norm2_of(tree), embed(*tree).norm2, rtol=1e-13)


def test_closed_form_is_mapped_over_points():
    kernel, measure, u = SquaredExponential(0.8), Laplace(0, 1), jnp.array([[0.1], [0.4], [1.3]])
    mapped = jax.vmap(lambda x: embed(kernel, measure).mean(x[None])[0])(u)
    assert_allclose(mapped, embed(kernel, measure).mean(u), rtol=1e-14)


def test_closed_form_is_mapped_over_measures():
    kernel, means = SquaredExponential(0.7), jnp.array([0.0, 0.5, 2.0])
    mapped = jax.vmap(lambda mean: embed(kernel, Normal(mean, 2.0)).mean(U)[0])(means)
    expected = [embed(kernel, Normal(mean, 2.0)).mean(U)[0] for mean in means]
    assert_allclose(mapped, expected, rtol=1e-14)


def assert_differentiable_in_point_and_lengthscale(kernel, measure):
    """At a point inside the support, and away from a period that puts a kink on an atom."""
    row = MEASURES[measure]
    atoms = isinstance(row.line, reference.Atoms)

    def function(tree):
        kernel, u = tree
        return embed(kernel, row.measure).mean(u)[0]

    u = jnp.clip(U, *row.measure.from_uniform(jnp.array([[[0.02]], [[0.98]]])))
    lengthscale = 8.5 if KERNELS[kernel].periodic and atoms else 0.85
    tree = (KERNELS[kernel].make(jnp.array(lengthscale)), u)
    expected = central_differences(function, tree)
    assert_allclose(numbers(jax.grad(function)(tree)), expected, rtol=1e-7, atol=1e-9)


def test_quadrature_is_differentiable_in_point_and_lengthscale():
    assert_differentiable_in_point_and_lengthscale("squared-exponential", "gamma-0.5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "measure"),
    [p for p in PAIRS if p not in CLOSED_PAIRS and p[1] != "empirical" and is_crossed(p)],
)
def test_every_quadrature_is_differentiable_in_point_and_lengthscale(kernel, measure):
    assert_differentiable_in_point_and_lengthscale(kernel, measure)


def test_quadrature_is_the_same_inside_jit_where_the_measure_is_a_constant():
    kernel, measure, u = Matern(1.5, 0.7), Gamma(0.5, 2.0), jnp.array([[0.1], [2.0]])
    compiled = jax.jit(lambda k, u: embed(k, measure).mean(u))(kernel, u)
    assert_allclose(compiled, embed(kernel, measure).mean(u), rtol=1e-14)


def test_embedding_survives_a_pytree_round_trip():
    embedding = embed(0.5 * Separable(Matern(1.5, 0.7)) + 0.1, Product(Normal(), Exponential(2.0)))
    leaves, tree = jax.tree.flatten(embedding)
    assert jax.tree.unflatten(tree, leaves).norm2 == embedding.norm2


# Errors


class Comb(scipy.stats.rv_continuous):
    """With more jumps than can be cornered."""

    def _pdf(self, x):
        return np.where(np.sin(1000 * x) > 0, 1.4, 0.6)

    def _cdf(self, x):
        return np.asarray(x)


@pytest.mark.parametrize(
    "frozen",
    [scipy.stats.kstwobign(), scipy.stats.vonmises(2.0), Comb(a=0.0, b=1.0, name="comb")()],
    ids=lambda frozen: frozen.dist.name,
)
def test_density_that_is_not_integrated_is_refused(frozen):
    with pytest.raises(ValueError, match=rf"{frozen.dist.name}\(.*cannot integrate.*Empirical"):
        embed(SquaredExponential(1.0), frozen).mean([0.5])


def test_frozen_density_inside_jit_is_refused():
    embedding = embed(SquaredExponential(1.0), scipy.stats.gumbel_r())
    with pytest.raises(ValueError, match=r"gumbel_r is evaluated on the host"):
        jax.jit(lambda u: embedding.mean(u))(U)


def test_embedding_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"embedding of Gamma .* is not finite"):
        embed(SquaredExponential(1.0), Gamma(1e-4)).mean([0.5])


def test_traced_measure_without_closed_form_is_refused():
    with pytest.raises(ValueError, match="Gamma"):
        jax.jit(lambda shape: embed(SquaredExponential(1.0), Gamma(shape)).mean(U))(2.0)


@pytest.mark.parametrize(
    ("measure", "u"),
    [(Uniform(0, 1), 1.5), (Exponential(1.0), -0.1), (Poisson(2.0), -1.0), (Beta(2, 2), 1.01)],
)
def test_point_outside_the_support_is_refused(measure, u):
    with pytest.raises(ValueError, match=r"u has a value outside the support.*row 1"):
        embed(SquaredExponential(1.0), measure).mean([0.5, u])


def test_point_of_the_wrong_dimension_is_refused():
    with pytest.raises(ValueError, match="u has 3 columns where 2 are expected"):
        embed(SquaredExponential(1.0), Normal(dim=2)).mean([[0.0, 0.0, 0.0]])


def test_nan_among_the_points_is_refused():
    with pytest.raises(ValueError, match="u has a value that is NaN"):
        embed(SquaredExponential(1.0), Normal()).mean([0.0, np.nan])


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (SquaredExponential([1.0, 2.0]), "lengthscale"),
        (0.5 * Matern(1.5, [1.0, 2.0]) + 0.1, "lengthscale"),
        (Korobov(1, period=[1.0, 2.0]), "period"),
        (Separable(Matern(1.5, [1.0, 2.0])), "lengthscale"),
    ],
)
def test_kernel_of_another_dimension_is_refused(kernel, name):
    with pytest.raises(ValueError, match=f"{name} .*2 entries.*3 coordinates"):
        embed(kernel, Normal(dim=3))


def test_function_of_ones_own_has_no_embedding():
    kernel = FunctionKernel(lambda a, b: jnp.exp(-jnp.abs(a - b).sum()))
    for combined in (kernel, 2.0 * kernel, kernel + 1.0, kernel * SquaredExponential(1.0)):
        with pytest.raises(ValueError, match="FunctionKernel has no embedding"):
            embed(combined, Normal())


def test_bare_function_is_not_a_kernel():
    with pytest.raises(ValueError, match="kernel must be a Kernel"):
        embed(lambda a, b: a @ b, Normal())


def test_bare_array_is_not_a_measure():
    with pytest.raises(ValueError, match="measure must be"):
        embed(SquaredExponential(1.0), np.zeros(3))
