"""The two-sample test keeps its level, sees differences, and its statistics are what they say."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import owlfi
from owlfi import Matern, SquaredExponential, two_sample
from owlfi.testing.p_values import check_level, decide, largest_studentised

KEY = jax.random.key(3)
CHOICES = [
    {},
    {"aggregate": True},
    {"null": "wild"},
    {"pairs": "blocks", "block": 12},
    {"pairs": "features", "frequencies": 20},
    {"pairs": "features", "frequencies": 20, "aggregate": True, "null": "wild"},
]


def samples(seed, n=24, m=24, shift=0.0, dim=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng.normal(size=(m, dim)) + shift


def u_statistic(k, x, y):
    """Written out: means over pairs of different rows."""

    def mean(a, b, same):
        pairs = [(i, j) for i in range(len(a)) for j in range(len(b)) if not (same and i == j)]
        return np.mean([k(jnp.asarray(a[i]), jnp.asarray(b[j])) for i, j in pairs])

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


# Calibration


def test_decision_by_the_critical_value_is_the_one_by_the_p_value():
    rng = np.random.default_rng(0)
    for resamples, level in itertools.product((19, 39, 200), (0.05, 0.1, 0.5)):
        for _ in range(50):
            statistics = rng.integers(0, 40, resamples + 1).astype(float)  # with ties
            found = decide(statistics, level)
            assert (found.p_value <= level + 1e-12) == (statistics[0] > found.critical_value)


def test_failed_null_statistics_are_conservative():
    statistics = np.arange(21.0)[::-1].copy()
    assert decide(statistics, 0.05).p_value == pytest.approx(1 / 21)
    statistics[5:8] = np.inf
    assert decide(statistics, 0.05).p_value == pytest.approx(4 / 21)
    assert decide(statistics, 0.05).critical_value == np.inf


def test_statistics_that_are_not_numbers_never_reject():
    statistics = np.arange(21.0)[::-1].copy()
    statistics[5:8] = np.nan
    assert decide(statistics, 0.05).p_value == pytest.approx(4 / 21)
    statistics[0] = np.nan
    with pytest.raises(ValueError, match="statistic of the data is NaN"):
        decide(statistics, 0.05)


def test_studentised_statistics_do_not_depend_on_units_and_keep_failures():
    values = np.random.default_rng(1).normal(size=(30, 3))
    assert_allclose(largest_studentised(values * [1.0, 5.0, 0.1] + 3), largest_studentised(values))
    values[4] = np.inf
    assert np.flatnonzero(np.isinf(largest_studentised(values))).tolist() == [4]


@pytest.mark.parametrize(("resamples", "level"), [(18, 0.05), (8, 0.1), (98, 0.01)])
def test_too_few_resamples_for_the_level_are_refused(resamples, level):
    with pytest.raises(ValueError, match=f"use at least {resamples + 1}"):
        check_level(resamples, level)
    check_level(resamples + 1, level)


def test_levels_that_no_resamples_reach_are_refused():
    with pytest.raises(ValueError, match="can never reject at level 5e-324"):
        check_level(99, 5e-324)


# The statistic


@pytest.mark.parametrize("kernel", [SquaredExponential(0.8), Matern(1.5, 1.2)])
@pytest.mark.parametrize(("n", "m"), [(7, 7), (6, 9)])
def test_statistic_is_the_u_statistic(kernel, n, m):
    x, y = samples(0, n, m, 0.5)
    test = two_sample(KEY, x, y, data_kernel=kernel)
    assert_allclose(test.statistic, u_statistic(kernel, x, y), atol=1e-12)


def test_statistic_in_tiles_is_the_one_of_the_mmd():
    x, y = samples(0, 900, 700)
    k = SquaredExponential(1.0)
    expected = owlfi.squared_mmd(k, x, y, unbiased=True)
    assert_allclose(
        two_sample(KEY, x, y, data_kernel=k, resamples=19).statistic, expected, atol=1e-12
    )


def test_features_come_near_the_v_statistic():
    x, y = samples(2, 300, 200, 0.3)
    k = SquaredExponential(1.0)
    test = two_sample(KEY, x, y, data_kernel=k, pairs="features", frequencies=20_000, resamples=19)
    assert_allclose(test.statistic, owlfi.squared_mmd(k, x, y), atol=5 / np.sqrt(20_000) * 0.1)


@pytest.mark.parametrize("null", ["permutation", "wild"])
def test_null_statistics_are_those_of_relabelled_rows(null):
    x, y = samples(4, 5, 5, 1.0, dim=1)
    k = SquaredExponential(1.0)
    test = two_sample(KEY, x, y, data_kernel=k, null=null, resamples=199)
    gram = np.asarray(k.gram(pooled := jnp.asarray(np.concatenate([x, y])), pooled))
    possible = set()
    for chosen in itertools.combinations(range(10), 5):
        sign = np.where(np.isin(range(10), chosen), 1, -1)
        same = np.outer(sign, sign) > 0
        within = (gram[same].sum() - np.trace(gram)) / 20
        possible.add(round(float(within - 2 * gram[~same].sum() / 50), 9))
    assert {round(float(value), 9) for value in test.null} <= possible


def test_equal_statistics_of_discrete_data_count_as_ties():
    """p is near that of all relabellings, by the number of ones that fall to x."""
    x, y = np.repeat([0.0, 1.0], [7, 3]), np.repeat([0.0, 1.0], [9, 1])
    split = scipy.stats.hypergeom(20, 4, 10)
    ones = np.arange(5)
    farther = np.abs(ones - 2) >= 1  # the statistic grows with the distance from an even split
    exact = split.pmf(ones)[farther].sum()
    test = two_sample(KEY, x, y, data_kernel=SquaredExponential(1.0), resamples=1999)
    assert_allclose(test.p_value, exact, atol=4 * np.sqrt(exact * (1 - exact) / 1999))


def test_wild_null_serves_pairs():
    """A shift of each pair, small beside what the pairs have in common."""
    rng = np.random.default_rng(5)
    common = 3 * rng.normal(size=100)
    x, y = common + 0.1 * rng.normal(size=100), common + 0.3 + 0.1 * rng.normal(size=100)
    assert two_sample(KEY, x, y, null="wild").p_value == 0.002
    assert two_sample(KEY, x, y).p_value > 0.05


def test_same_key_gives_the_same_test():
    x, y = samples(0)
    first, second = two_sample(KEY, x, y), two_sample(KEY, x, y)
    assert first.p_value == second.p_value
    assert jnp.array_equal(first.null, second.null)


# Level and power


@pytest.mark.slow
@pytest.mark.parametrize("options", CHOICES)
def test_level_is_exact(options):
    """p is uniform on {1/20, ..., 1}: with B = 19, P(p ≤ 0.05) = 0.05 but for ties."""
    repeats = 300
    p = [
        two_sample(jax.random.key(i), *samples(1000 + i), resamples=19, **options).p_value
        for i in range(repeats)
    ]
    counts = np.bincount(np.round(np.array(p) * 20).astype(int), minlength=21)[1:]
    assert scipy.stats.binomtest(int(counts[0]), repeats, 0.05).pvalue > 1e-3
    assert scipy.stats.chisquare(counts.reshape(4, 5).sum(1)).pvalue > 1e-3


@pytest.mark.slow
def test_level_is_exact_for_samples_of_different_size():
    p = [
        two_sample(jax.random.key(i), *samples(i, 9, 30), resamples=19).p_value for i in range(300)
    ]
    assert scipy.stats.binomtest(sum(v <= 0.05 for v in p), 300, 0.05).pvalue > 1e-3


@pytest.mark.parametrize("options", CHOICES)
def test_sees_a_shift(options):
    x, y = samples(5, 150, 150, 0.8)
    assert two_sample(KEY, x, y, **options).rejected


def test_aggregate_sees_differences_finer_than_the_median():
    """A mixture of narrow peaks against a normal of the same mean and variance."""
    rng = np.random.default_rng(0)
    peaks = rng.choice([-1.5, -0.5, 0.5, 1.5], 300) * 0.88 + 0.05 * rng.normal(size=300)
    smooth = rng.normal(size=300)
    aggregated = two_sample(KEY, peaks, smooth, aggregate=True)
    assert aggregated.rejected
    assert aggregated.p_value <= two_sample(KEY, peaks, smooth).p_value


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["features", "blocks"])
def test_a_hundred_thousand_rows(pairs):
    x, y = samples(0, 100_000, 100_000, 0.05, dim=5)
    assert two_sample(KEY, x, y, pairs=pairs).rejected


# Bad input


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.zeros(4), np.ones(30)), {}, "x has 4 rows"),
        ((np.zeros((9, 2)), np.zeros((9, 3))), {}, "same number of columns"),
        ((np.zeros(9), np.zeros(9)), {}, "the pooled sample of x and y has 18 rows that are all"),
        (
            (pd.DataFrame({"a": range(9), "b": 0}), pd.DataFrame({"b": 0, "a": range(9)})),
            {},
            "give both in one order",
        ),
        (
            (np.ones((9, 3)), np.ones((9, 3))),
            {"pairs": "features", "data_kernel": SquaredExponential(np.ones(2))},
            "has 2 entries",
        ),
        ((np.arange(9.0), np.arange(8.0)), {"null": "wild"}, "one size, got 9 and 8"),
        ((np.arange(9.0), np.arange(8.0)), {"null": "signs"}, "null must be one of permutation"),
        ((np.arange(9.0), np.arange(8.0)), {"pairs": "some"}, "pairs must be one of all"),
        ((np.arange(9.0), np.arange(8.0)), {"data_kernel": "mean"}, "kernel must be"),
        ((np.arange(9.0), np.arange(8.0)), {"resamples": 10}, "use at least 19"),
        ((np.arange(9.0), np.arange(8.0)), {"level": 5}, "level must lie between"),
        (
            (np.arange(9.0), np.arange(8.0)),
            {"pairs": "features", "data_kernel": Matern(1.5, 1.0)},
            "needs a SquaredExponential",
        ),
        ((np.array([1.0, np.nan] * 5), np.arange(8.0)), {}, "x has a value that is NaN"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        two_sample(KEY, *arguments, **options)


@pytest.mark.parametrize("options", [{}, {"level": np.float32(0.1), "resamples": 99.0}])
def test_test_survives_a_file(tmp_path, options):
    test = two_sample(KEY, *samples(0), **options)
    again = owlfi.load(test.save(tmp_path / "test"))
    assert again.summary() == test.summary()
    assert jnp.array_equal(again.null, test.null)
    assert again.about == test.about
