"""Measures: their quantiles and densities against scipy.stats, and how they combine."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import MEASURES
from owlfi import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    HalfNormal,
    Laplace,
    LogNormal,
    Mixture,
    Normal,
    Poisson,
    Product,
    StudentT,
    TruncatedNormal,
    Uniform,
    as_measure,
)
from owlfi.measures import FrozenContinuous, FrozenDiscrete, coordinate

KEY = jax.random.key(0)
LEVELS = np.array([2.0**-60, 1e-12, 1e-6, 0.01, 0.3, 0.77, 1 - 2.0**-30, 1 - 2.0**-53])
DISCRETE = ("poisson", "scipy-binomial", "empirical")
TWINS = {name: row for name, row in MEASURES.items() if row.twin is not None}
CONTINUOUS = {name: row for name, row in MEASURES.items() if name not in DISCRETE}
OWN = {name: row for name, row in MEASURES.items() if not name.startswith("scipy")}


def over(rows):
    return pytest.mark.parametrize("row", rows.values(), ids=rows)


def column(values):
    return jnp.asarray(values, float)[:, None]


def log_density_of(twin, u):
    return twin.logpdf(u) if hasattr(twin, "pdf") else twin.logpmf(u)


def quantiles_of(twin, levels):
    """scipy's, from the nearer tail where it is exact there."""
    if twin.dist.name == "halfnorm":  # ppf rounds small levels away
        return twin.std() / np.sqrt(1 - 2 / np.pi) * np.sqrt(2) * scipy.special.erfinv(levels)
    if twin.dist.name == "truncnorm":  # isf loses digits in the tail
        return twin.ppf(levels)
    return np.where(levels > 0.5, twin.isf(1 - levels), twin.ppf(levels))


@jax.jit
def compiled_log_density(measure, u):
    return measure.log_density(u)


def log_density(measure, u):
    """At a multiple of eight points of the line, eight at a time: one shape to compile."""
    call = compiled_log_density if measure.traceable_density else type(measure).log_density
    blocks = np.reshape(u, (-1, 8, 1))
    return np.concatenate([call(measure, block) for block in blocks])


@over(TWINS)
def test_uniform_points_become_quantiles(row):
    actual = row.measure.from_uniform(column(LEVELS))[1:-1, 0]
    assert_allclose(actual, quantiles_of(row.twin, LEVELS[1:-1]), rtol=1e-11)


@over(MEASURES)
def test_points_lie_in_the_support(row):
    low, high = (np.asarray(end) for end in row.measure.support)
    points = np.asarray(row.measure.from_uniform(column(LEVELS)))
    assert ((points >= low) & (points <= high)).all()


@over(TWINS)
def test_log_density(row):
    u = row.twin.ppf(LEVELS)
    u = np.where(np.isfinite(u), u, row.twin.median())
    expected = log_density_of(row.twin, u)
    assert_allclose(log_density(row.measure, u), expected, rtol=1e-12, atol=1e-12)


@over(MEASURES)
def test_log_density_outside_the_support_is_minus_infinity(row):
    low, high = (np.asarray(end) for end in row.measure.support)
    steps = np.linspace(0.1, 10, 8)[:, None]
    for outside in (low - steps, high + steps):
        if np.isfinite(outside).all():
            assert np.all(log_density(row.measure, outside) == -np.inf)


@pytest.mark.parametrize("name", DISCRETE)
def test_log_density_between_the_atoms_is_minus_infinity(name):
    between = np.linspace(0.6, 0.7, 8)[:, None]
    assert np.all(log_density(MEASURES[name].measure, between) == -np.inf)


@over(CONTINUOUS)
def test_density_integrates_to_the_probability_between_two_quantiles(row):
    levels = scipy.special.expit(np.linspace(-7, 7, 64))
    ends = np.asarray(row.measure.from_uniform(column(levels)))[:, 0]
    kinks = [x for x in row.line.anchors if ends[0] < x < ends[-1]]
    ends = np.sort([*ends, *kinks])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    low, half = ends[:-1, None], np.diff(ends)[:, None] / 2
    density = np.exp(log_density(row.measure, low + half * (1 + nodes))).reshape(-1, 16)
    assert_allclose((half * weights * density).sum(), levels[-1] - levels[0], rtol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one(name):
    atoms = np.append(np.arange(-5.0, 57.0), [0.5, 0.75])
    assert_allclose(np.exp(log_density(MEASURES[name].measure, atoms)).sum(), 1.0, rtol=1e-13)


@pytest.mark.parametrize("name", ["normal", "gamma-0.5", "student-t-4", "poisson"])
def test_sample_mean_is_within_five_standard_errors(name):
    measure, _, twin = MEASURES[name]
    sample = measure.sample(KEY, 4096)
    assert sample.shape == (4096, 1)
    assert abs(np.mean(sample) - twin.mean()) < 5 * twin.std() / np.sqrt(4096)


def test_key_decides_the_sample():
    measure = Uniform(0, 1)
    first, again, other = (measure.sample(jax.random.key(seed), 4096) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@over(MEASURES)
def test_measure_survives_a_pytree_round_trip(row):
    leaves, tree = jax.tree.flatten(row.measure)
    rebuilt = jax.tree.unflatten(tree, leaves)
    u = np.linspace(0.1, 1, 8)
    assert np.array_equal(log_density(rebuilt, u), log_density(row.measure, u))


@over(OWN)
def test_log_density_is_the_same_without_jit(row):
    u = np.array([-9.0, 0.1, 0.3, 0.5, 0.75, 1.0, 4.5, 9.0])
    expected = log_density(row.measure, u)
    assert_allclose(row.measure.log_density(column(u)), expected, rtol=1e-14, atol=1e-14)


@over({name: row for name, row in OWN.items() if name not in DISCRETE})
def test_slopes_of_the_log_density_are_finite(row):
    def total(measure, u):
        values = measure.log_density(u)
        return jnp.where(jnp.isfinite(values), values, 0.0).sum()

    u = column([-9.0, 0.1, 0.3, 0.5, 0.75, 1.0, 4.5, 9.0])
    assert np.isfinite(jax.jit(jax.grad(total, 1))(row.measure, u)).all()


# Tails and corners


@pytest.mark.parametrize("rate", [40.0, 1e3, 1e6])
def test_poisson_probabilities_keep_their_digits_with_many_counts(rate):
    counts = np.round(rate + np.sqrt(rate) * np.array([-5.0, -0.3, 0.0, 6.0]))
    with mpmath.workdps(30):
        logs = [k * mpmath.log(rate) - rate - mpmath.loggamma(k + 1) for k in counts]
    assert_allclose(Poisson(rate).log_density(column(counts)), np.array(logs, float), rtol=3e-14)


@pytest.mark.parametrize("low", [2.0, 4.0, 30.0])
def test_quantiles_of_a_truncated_normal_are_exact_in_the_tail(low):
    levels = 1 - 2.0 ** -np.arange(10, 50, 5)
    points = TruncatedNormal(0, 1, low=low).from_uniform(column(levels))[:, 0]
    log_survival = scipy.special.log_ndtr(-np.asarray(points)) - scipy.special.log_ndtr(-low)
    assert_allclose(log_survival, np.log(1 - levels), rtol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 1.0), (0.5, np.inf), (-1.0, 2.0)])
def test_last_quantiles_of_a_truncated_normal_are_its_ends(low, high):
    points = TruncatedNormal(0.3, 1.5, low, high).from_uniform(column([0.0, 1.0]))
    assert_allclose(points[:, 0], [low, high], rtol=1e-14)


def test_truncated_normal_in_the_far_tail_has_a_density():
    u = np.array([[30.0], [30.05], [31.0]])
    expected = scipy.stats.truncnorm(30, np.inf).logpdf(u[:, 0])
    assert_allclose(TruncatedNormal(0, 1, low=30).log_density(u), expected, rtol=1e-12)


@pytest.mark.parametrize("u", [-9.9999999999, -9.99, -5.0, 0.0, 30.0])
def test_density_that_vanishes_exponentially_at_an_end_is_scipys(u):
    frozen = scipy.stats.genextreme(-0.1)
    assert_allclose(as_measure(frozen).log_density([u]), frozen.logpdf(u), rtol=1e-14)


def test_density_of_a_singular_end_is_infinite_there():
    assert Gamma(0.5).log_density([0.0]) == np.inf
    assert Beta(0.5, 2.0).log_density([0.0]) == np.inf


def test_density_of_a_vanishing_end_is_zero_there():
    assert Gamma(2.0).log_density([0.0]) == -np.inf
    assert LogNormal().log_density([0.0]) == -np.inf


def test_density_of_a_finite_end_is_finite_there():
    assert_allclose(Gamma(1.0, 2.0).log_density([0.0]), np.log(2))
    assert_allclose(Beta(1.0, 1.0).log_density(column([0.0, 1.0])), [0.0, 0.0])


# Dimensions


@pytest.mark.parametrize(
    ("measure", "dim"),
    [
        (Normal(), 1),
        (Normal(dim=3), 3),
        (Normal([0.0, 1.0], 2.0), 2),
        (Normal(0.0, [1.0, 2.0, 3.0]), 3),
        (Normal([0.0], [1.0, 2.0]), 2),
        (Uniform([0, 0], 1), 2),
        (TruncatedNormal(low=[0.0, 1.0]), 2),
        (TruncatedNormal(mean=[0.0, 1.0], low=-1.0), 2),
        (TruncatedNormal(low=0.0, dim=3), 3),
        (Poisson([1.0, 2.0]), 2),
        (Empirical([1.0, 2.0, 3.0]), 1),
        (Empirical(np.zeros((3, 2))), 2),
        (Product(Normal(dim=2), Uniform(), scipy.stats.gumbel_r()), 4),
        (Mixture([Normal(dim=2), Uniform(dim=2)], [0.5, 0.5]), 2),
    ],
)
def test_dimension_is_read_from_the_parameters(measure, dim):
    assert measure.dim == dim
    assert all(end.shape == (dim,) for end in measure.support)


def test_each_coordinate_has_its_parameters():
    measure = Gamma([0.5, 2.5], [1.0, 2.0])
    v = np.array([[0.3, 0.6]])
    expected = [scipy.stats.gamma(0.5).ppf(0.3), scipy.stats.gamma(2.5, scale=0.5).ppf(0.6)]
    assert_allclose(measure.from_uniform(v), [expected], rtol=1e-12)


def test_log_density_sums_over_coordinates():
    measure = Normal([0.0, 1.0], [1.0, 2.0])
    expected = scipy.stats.norm.logpdf(0.3) + scipy.stats.norm.logpdf(0.6, 1, 2)
    assert_allclose(measure.log_density([0.3, 0.6]), expected, rtol=1e-14)


# Product


def test_product_keeps_its_parts_side_by_side():
    measure = Product(Normal(dim=2), Product(Uniform(), Exponential()), scipy.stats.norm())
    assert [type(part) for part in measure.parts] == [Normal, Uniform, Exponential, Normal]
    assert measure.slices == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 5)]


def test_product_maps_each_part_from_its_own_coordinates():
    measure = Product(Normal(dim=2), Exponential(2.0))
    v = np.array([[0.3, 0.6, 0.9]])
    expected = [*scipy.stats.norm.ppf([0.3, 0.6]), scipy.stats.expon.ppf(0.9) / 2]
    assert_allclose(measure.from_uniform(v), [expected], rtol=1e-12)


def test_product_adds_log_densities():
    measure = Product(Normal(dim=2), Exponential(2.0))
    expected = scipy.stats.norm.logpdf([0.1, 0.2]).sum() + scipy.stats.expon.logpdf(0.3, scale=0.5)
    assert_allclose(measure.log_density([0.1, 0.2, 0.3]), expected, rtol=1e-14)


def test_product_has_the_support_of_its_parts():
    low, high = Product(Uniform(-1, 2), Exponential(), Normal()).support
    assert np.array_equal(low, [-1, 0, -np.inf])
    assert np.array_equal(high, [2, np.inf, np.inf])


def test_coordinate_of_a_product_is_a_measure_on_the_line():
    measure = Product(Normal([0.0, 5.0]), Uniform(1, 2))
    assert coordinate(measure, 1).log_density([5.0]) == Normal(5.0).log_density([5.0])
    assert coordinate(measure, 2).log_density([1.5]) == 0.0


# Mixture

COMPONENTS, WEIGHTS = [Normal(-2, 0.5), Laplace(1, 2)], np.array([0.25, 0.75])


def mixture_cdf(x):
    return 0.25 * scipy.stats.norm(-2, 0.5).cdf(x) + 0.75 * scipy.stats.laplace(1, 2).cdf(x)


def test_mixture_inverts_its_distribution_function():
    v = np.array([1e-9, 0.01, 0.2, 0.5, 0.77, 0.999])
    x = Mixture(COMPONENTS, WEIGHTS).from_uniform(column(v))[:, 0]
    assert_allclose(mixture_cdf(x), v, rtol=1e-12)


def test_mixture_density_is_the_weighted_sum():
    u = np.array([[-2.0], [0.3], [4.0]])
    densities = [np.exp(component.log_density(u)) for component in COMPONENTS]
    expected = np.log(WEIGHTS @ np.stack(densities))
    assert_allclose(Mixture(COMPONENTS, WEIGHTS).log_density(u), expected, rtol=1e-14)


def test_mixture_of_uniforms_with_a_gap_leaves_it_empty():
    x = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]).from_uniform(column([0.25, 0.4, 0.75]))
    assert_allclose(x[:, 0], [0.5, 0.8, 2.5], rtol=1e-12)


def test_mixture_of_counts_has_whole_points():
    x = Mixture([Poisson(1.0), Poisson(20.0)], [0.5, 0.5]).from_uniform(column([0.1, 0.5, 0.9]))
    assert np.array_equal(x, np.round(x))


def test_mixture_of_shifted_counts_keeps_to_their_atoms():
    shifted = as_measure(scipy.stats.binom(5, 0.5, loc=0.5))
    for other in (shifted, Poisson(3.0)):
        mixture = Mixture([shifted, other], [0.5, 0.5])
        points = mixture.from_uniform(column(np.linspace(0.01, 0.99, 30)))
        assert np.isfinite(mixture.log_density(points)).all()
    expected = shifted.from_uniform(column([0.2, 0.5, 0.9]))
    assert_array_equal(
        Mixture([shifted, shifted], [0.5, 0.5]).from_uniform(column([0.2, 0.5, 0.9])), expected
    )


def test_mixture_quantiles_have_the_digits_of_both_tails():
    mixture = Mixture([Normal(-2, 1), Normal(2, 1)], [0.5, 0.5])
    lower, upper = mixture.from_uniform(column([2.0**-45, 1 - 2.0**-45]))[:, 0]
    assert_allclose(upper, -lower, rtol=1e-14)
    plane = Mixture([Normal([-2, -2], 1), Normal([2, 2], 1)], [0.5, 0.5])
    ends = plane.from_uniform(jnp.array([[0.0, 0.5], [1.0, 0.5]]))
    assert_allclose(ends, [[-np.inf, -2], [np.inf, 2]], rtol=1e-6)


def test_mixture_in_two_dimensions_has_the_right_marginals():
    first = [scipy.stats.norm(-2, 0.5), scipy.stats.expon(scale=0.5)]
    second = [scipy.stats.laplace(1, 2), scipy.stats.norm(3, 0.25)]
    measure = Mixture(
        [Product(Normal(-2, 0.5), Laplace(1, 2)), Product(Exponential(2), Normal(3, 0.25))],
        WEIGHTS,
    )
    v = scipy.stats.qmc.Sobol(2, rng=0).random(4096)
    points = np.asarray(measure.from_uniform(v))
    for j, parts in enumerate((first, second)):

        def cdf(x, parts=parts):
            return sum(w * part.cdf(x) for w, part in zip(WEIGHTS, parts, strict=True))

        assert scipy.stats.kstest(points[:, j], cdf).statistic < 0.005


def test_mixture_in_two_dimensions_keeps_the_dependence():
    measure = Mixture([Normal([-3, -3], 0.1), Normal([3, 3], 0.1)], [0.5, 0.5])
    points = measure.from_uniform(scipy.stats.qmc.Sobol(2, rng=0).random(256))
    assert np.array_equal(points[:, 0] > 0, points[:, 1] > 0)


def test_mixture_of_one_component_is_that_component():
    v = column([0.1, 0.5, 0.9])
    measure = Gamma(2.5, 2.0)
    assert_allclose(Mixture([measure], [1.0]).from_uniform(v), measure.from_uniform(v), rtol=1e-14)


# Empirical


def test_empirical_picks_its_rows_in_order():
    measure = Empirical([3.0, -1.0, 0.5], [0.25, 0.5, 0.25])
    v = column([0.1, 0.49, 0.51, 0.74, 0.76, 1 - 2.0**-53])
    assert np.array_equal(measure.from_uniform(v)[:, 0], [-1, -1, 0.5, 0.5, 3, 3])


def test_empirical_gives_each_row_its_weight():
    measure = Empirical([[0.0, 1.0], [2.0, 3.0]], [0.25, 0.75])
    assert_allclose(np.exp(measure.log_density(np.array([[0.0, 1.0], [2.0, 3.0]]))), [0.25, 0.75])
    assert measure.log_density([0.0, 3.0]) == -np.inf


def test_empirical_adds_the_weights_of_equal_rows():
    assert_allclose(np.exp(Empirical([1.0, 1.0, 2.0]).log_density([1.0])), 2 / 3)


def test_empirical_draws_whole_rows():
    rows = np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]])
    sample = Empirical(rows).from_uniform(scipy.stats.qmc.Sobol(2, rng=0).random(256))
    assert np.array_equal(sample[:, 1], sample[:, 0] + 10)
    assert np.isin([0, 1, 2], sample[:, 0]).all()


# Frozen scipy distributions


@pytest.mark.parametrize(
    ("frozen", "kind"),
    [
        (scipy.stats.norm(1, 2), Normal),
        (scipy.stats.norm(loc=1, scale=2), Normal),
        (scipy.stats.uniform(-1, 3), Uniform),
        (scipy.stats.laplace(1, 2), Laplace),
        (scipy.stats.t(4, 1, 2), StudentT),
        (scipy.stats.cauchy(1, 2), StudentT),
        (scipy.stats.truncnorm(-1, 2, 0.5, 3), TruncatedNormal),
        (scipy.stats.expon(scale=0.5), Exponential),
        (scipy.stats.gamma(2.5, scale=0.5), Gamma),
        (scipy.stats.chi2(3), Gamma),
        (scipy.stats.chi2(3, scale=2), Gamma),
        (scipy.stats.halfnorm(scale=2), HalfNormal),
        (scipy.stats.lognorm(0.8, scale=2), LogNormal),
        (scipy.stats.beta(2.5, 0.7), Beta),
        (scipy.stats.arcsine(), Beta),
        (scipy.stats.poisson(3.5), Poisson),
        (scipy.stats.expon(1, 0.5), FrozenContinuous),
        (scipy.stats.gamma(2.5, loc=-1), FrozenContinuous),
        (scipy.stats.halfnorm(1, 2), FrozenContinuous),
        (scipy.stats.lognorm(0.8, loc=1), FrozenContinuous),
        (scipy.stats.beta(2.5, 0.7, loc=-1, scale=2), FrozenContinuous),
        (scipy.stats.arcsine(1, 3), FrozenContinuous),
        (scipy.stats.gumbel_r(0.3, 2), FrozenContinuous),
        (scipy.stats.weibull_min(0.7, scale=1.5), FrozenContinuous),
        (scipy.stats.logistic(0.3, 0.7), FrozenContinuous),
        (scipy.stats.poisson(3.5, loc=1), FrozenDiscrete),
        (scipy.stats.binom(7, 0.4), FrozenDiscrete),
        (scipy.stats.geom(0.3), FrozenDiscrete),
    ],
    ids=lambda value: getattr(getattr(value, "dist", value), "name", None),
)
def test_frozen_distribution_becomes_a_measure(frozen, kind):
    measure, v = as_measure(frozen), np.linspace(0.1, 0.94, 8)
    u = frozen.ppf(v)
    assert type(measure) is kind
    assert_allclose(measure.from_uniform(column(v))[:, 0], u, rtol=1e-12)
    assert_allclose(log_density(measure, u), log_density_of(frozen, u), rtol=1e-12)


def test_frozen_distribution_of_arrays_becomes_several_coordinates():
    measure = as_measure(scipy.stats.norm([0.0, 1.0], 2.0))
    assert measure.dim == 2


def test_frozen_distribution_of_arrays_that_is_not_owlfis_own_is_refused():
    with pytest.raises(ValueError, match="gumbel_r with array parameters"):
        as_measure(scipy.stats.gumbel_r([0.0, 1.0], 2.0))


@pytest.mark.parametrize(
    "bad",
    [None, 1.0, "normal", scipy.stats.norm, Normal, np.zeros(3), scipy.stats.multivariate_normal()],
)
def test_what_is_no_measure_is_refused(bad):
    with pytest.raises(ValueError, match="measure must be"):
        as_measure(bad)


# Errors


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Normal(sd=0.0), "sd"),
        (lambda: Normal(sd=-1.0), "sd"),
        (lambda: Normal(mean=np.nan), "mean"),
        (lambda: Normal(mean="zero"), "mean"),
        (lambda: Normal(mean=[[0.0]]), "mean"),
        (lambda: Normal(mean=[0.0, 1.0, 2.0], sd=[1.0, 2.0]), "sd"),
        (lambda: Normal(mean=[0.0, 1.0], dim=3), "mean"),
        (lambda: Normal(dim=0), "dim"),
        (lambda: Normal(sd=[]), "sd"),
        (lambda: Normal(dim=1.5), "dim"),
        (lambda: LogNormal(sd=0.0), "sd"),
        (lambda: HalfNormal(-1.0), "sd"),
        (lambda: Uniform(1, 1), "low"),
        (lambda: Uniform(2, 1), "low"),
        (lambda: Uniform(0, np.inf), "high"),
        (lambda: TruncatedNormal(low=1.0, high=0.0), "low"),
        (lambda: TruncatedNormal(low=np.nan), "low"),
        (lambda: TruncatedNormal(low="a"), "low"),
        (lambda: TruncatedNormal(low=[]), "low"),
        (lambda: TruncatedNormal(low=np.inf), "low"),
        (lambda: TruncatedNormal(sd=0.0, low=0.0), "sd"),
        (lambda: TruncatedNormal(low=[0.0, 1.0], high=[2.0, 3.0, 4.0]), "high"),
        (lambda: TruncatedNormal(low=[0.0, 1.0], dim=3), "low"),
        (lambda: Exponential(0.0), "rate"),
        (lambda: Gamma(shape=-1.0), "shape"),
        (lambda: Gamma(rate=0.0), "rate"),
        (lambda: Beta(a=0.0), "a"),
        (lambda: Beta(b=-1.0), "b"),
        (lambda: Laplace(scale=0.0), "scale"),
        (lambda: Laplace(loc=np.inf), "loc"),
        (lambda: StudentT(df=0.0), "df"),
        (lambda: StudentT(scale=-1.0), "scale"),
        (lambda: Poisson(rate=0.0), "rate"),
        (lambda: Poisson(rate=[1.0, 1e12]), "rate must be at most"),
        (lambda: Poisson(rate=[1.0, 2.0], dim=3), "rate"),
        (lambda: Empirical([]), "data"),
        (lambda: Empirical([1.0, np.nan]), "data"),
        (lambda: Empirical([1.0, 2.0], [0.5]), "weights"),
        (lambda: Empirical([1.0, 2.0], [0.5, 0.6]), "weights"),
        (lambda: Empirical([1.0, 2.0], [-0.5, 1.5]), "weights must be at least 0, got -0.5"),
        (lambda: Mixture([Normal(), Normal()], [0.5, 0.6]), "weights"),
        (lambda: Mixture([Normal(), Normal()], [1.0]), "weights"),
        (lambda: Mixture([Normal(), Normal()], [-0.5, 1.5]), "weights"),
        (lambda: Mixture([Normal(), Normal(dim=2)], [0.5, 0.5]), "components"),
        (lambda: Mixture([], []), "components"),
        (lambda: Mixture(Normal(), [1.0]), "components"),
        (lambda: Product(), "measure"),
        (lambda: Normal().sample(KEY, 0), "m"),
        (lambda: Normal().log_density([np.nan]), "u"),
    ],
)
def test_bad_parameter_is_refused(make, name):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        make()


@pytest.mark.parametrize(
    "measure",
    [
        Normal(dim=2),
        Product(Normal(), scipy.stats.gumbel_r()),
        Mixture([Normal(dim=2)], [1.0]),
        Empirical(np.zeros((3, 2))),
    ],
)
@pytest.mark.parametrize("columns", [1, 3])
def test_points_of_the_wrong_dimension_have_no_density(measure, columns):
    with pytest.raises(ValueError, match=f"u has {columns} columns where 2 are expected"):
        measure.log_density(np.full(columns, 0.5))


@pytest.mark.parametrize(
    "measure",
    [
        Product(Normal(), Normal()),
        Normal(dim=2),
        Gamma(2.0, dim=2),
        Mixture([Normal(dim=2)], [1.0]),
        Empirical(np.zeros((3, 2))),
    ],
)
def test_uniform_points_of_the_wrong_dimension_or_outside_are_refused(measure):
    with pytest.raises(ValueError, match="v has 1 columns where 2 are expected"):
        measure.from_uniform([[0.5], [0.2]])
    with pytest.raises(ValueError, match=r"v must hold levels between 0 and 1, got 2\.0"):
        measure.from_uniform([0.5, 2.0])


@pytest.mark.parametrize("measure", [Uniform(), Normal(), Gamma(), Empirical([1.0, 2.0])])
def test_uniform_points_may_be_a_number_or_a_list(measure):
    assert_array_equal(measure.from_uniform(0.3), measure.from_uniform(jnp.array([0.3])))
    assert_array_equal(measure.from_uniform([0.3]), measure.from_uniform(jnp.array([0.3])))


def test_a_distribution_of_your_own_is_not_known_by_its_name():
    class Rising(scipy.stats.rv_continuous):
        def _pdf(self, x):
            return 2 * x

    assert not isinstance(as_measure(Rising(a=0, b=1, name="uniform")()), Uniform)


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (scipy.stats.gumbel_r(scale=-1), "gumbel_r .*scale=-1"),
        (scipy.stats.binom(10, 1.5), r"binom .*10, 1\.5"),
        (scipy.stats.beta(-1, 2, loc=3), "beta .*-1, 2, loc=3"),
    ],
)
def test_frozen_distribution_with_parameters_outside_its_domain_is_refused(frozen, message):
    with pytest.raises(ValueError, match=message):
        as_measure(frozen)


def test_quantiles_on_the_host_say_so_inside_jit():
    with pytest.raises(ValueError, match=r"Gamma.*host"):
        jax.jit(lambda v: Gamma(2.0).from_uniform(v))(jnp.ones(1) / 2)
