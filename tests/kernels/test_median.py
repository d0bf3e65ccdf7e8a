"""The median heuristic equals its definition to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import owlfi.kernels.median_heuristic
from owlfi import median_heuristic

RNG = np.random.default_rng(0)  # for tables of data only


def normal(*shape):
    """Normal numbers, always the same."""
    return np.random.default_rng(1).normal(size=shape)


def squared_distances(data):
    """All n² of them; coordinates are added up in order."""
    x = np.asarray(data, float).reshape(len(data), -1)
    return sum(np.square(column[:, None] - column) for column in x.T)


def definition(data):
    return np.sqrt(np.median(squared_distances(data)) / 2)


DATA = {
    "two rows": [0.0, 3.0],
    "three rows": [0.0, 1.0, 3.0],
    "two pairs of equal rows": [0.0, 0.0, 1.0, 1.0],
    "four rows": RNG.normal(size=(4, 6)),
    "even": RNG.normal(size=(10, 3)),
    "odd": RNG.normal(size=(11, 3)),
    "many coordinates": RNG.normal(size=(30, 40)),
    "many rows": RNG.normal(size=(1501, 2)),
    "even and many": RNG.normal(size=(1500, 1)),
    "integers": RNG.integers(0, 4, (50, 2)),
    "many ties": RNG.integers(0, 2, (201, 3)),
    "rounded": np.round(RNG.normal(size=(300, 2)), 1),
    "heavy tails": RNG.standard_cauchy((101, 2)) ** 3,
    "far from zero": 1e3 + 1e-8 * RNG.normal(size=(40, 2)),
    "list of lists": RNG.normal(size=(9, 2)).tolist(),
    "data frame": pd.DataFrame(RNG.normal(size=(9, 2))),
    "series": pd.Series(RNG.normal(size=9)),
    "single precision": RNG.normal(size=(9, 2)).astype(np.float32),
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_it_equals_the_definition_bit_for_bit(data):
    assert float(median_heuristic(data)) == definition(data)


@pytest.mark.parametrize("n", range(2, 13))
def test_it_equals_the_definition_for_every_small_sample_size(n):
    rng = np.random.default_rng(n)
    for data in (rng.normal(size=(n, 1)), rng.normal(size=(n, 2)), rng.integers(0, 99, (n, 2))):
        assert float(median_heuristic(data)) == definition(data)


def test_the_order_of_rows_does_not_matter():
    data = normal(100, 2)
    assert float(median_heuristic(data)) == float(median_heuristic(data[::-1]))


SEVERAL_ROUNDS = {
    "normal": RNG.normal(size=(701, 2)),
    "heavy tails": RNG.standard_cauchy((700, 2)) ** 3,
    "ties": np.round(RNG.normal(size=(700, 2)), 1),
}


@pytest.mark.parametrize("data", SEVERAL_ROUNDS.values(), ids=SEVERAL_ROUNDS)
def test_it_equals_the_definition_where_few_distances_can_be_held(monkeypatch, data):
    monkeypatch.setattr(owlfi.kernels.median_heuristic, "_KEPT", 2_000)
    monkeypatch.setattr(owlfi.kernels.median_heuristic, "_SAMPLE", 256)
    scans = []
    scan = owlfi.kernels.median_heuristic._scan

    def count_scan(*arguments):
        assert len(scans) < 50
        scans.append(scan(*arguments))
        return scans[-1]

    monkeypatch.setattr(owlfi.kernels.median_heuristic, "_scan", count_scan)
    assert float(median_heuristic(data)) == definition(data)
    assert len(scans) > 2
    assert max(len(found.kept) for found in scans) <= 2_000


@pytest.mark.parametrize("shape", [(2, 1), (10, 3)])
def test_inside_jit_it_is_the_same_up_to_one_unit_in_the_last_place(shape):
    compiled = jax.jit(median_heuristic)
    for data in (normal(*shape), np.round(normal(*shape), 1)):
        np.testing.assert_array_max_ulp(float(compiled(data)), definition(data), maxulp=1)


def test_vmap_gives_each_samples_own_value():
    data = normal(4, 10, 3)
    each = [definition(sample) for sample in data]
    np.testing.assert_array_max_ulp(np.asarray(jax.vmap(median_heuristic)(data)), each, maxulp=1)


def test_the_gradient_agrees_with_finite_differences():
    data, direction = normal(2, 10, 3)
    slope = jnp.vdot(jax.jit(jax.grad(median_heuristic))(data), direction)
    step = 1e-6
    ahead, behind = (definition(data + sign * step * direction) for sign in (1, -1))
    assert np.isclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("shape", [(10, 3), (2500, 1), (2500, 2)])
@pytest.mark.parametrize("exponent", [-1000, -530, 505, 1000])
def test_data_whose_squares_are_no_doubles_scale_exactly(shape, exponent):
    data = normal(*shape)
    scaled = float(median_heuristic(np.ldexp(data, exponent)))
    assert scaled == np.ldexp(float(median_heuristic(data)), exponent)


def test_values_of_any_size_go_together():
    data = normal(40, 2)
    data[:4] *= 1e300
    assert float(median_heuristic(data)) < 2
    assert np.isclose(float(median_heuristic(data * 1e-200)), 1e-200 * median_heuristic(data))


def test_the_gradient_is_zero_where_the_median_is():
    value, gradient = jax.jit(jax.value_and_grad(median_heuristic))(np.ones((5, 2)))
    assert value == 0
    assert np.array_equal(gradient, np.zeros((5, 2)))


def test_inside_jit_memory_does_not_grow_with_all_pairs():
    data = jax.ShapeDtypeStruct((20_000, 2), float)
    compiled = jax.jit(jax.grad(median_heuristic)).lower(data).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 1e7


def test_one_row_has_no_distances():
    with pytest.raises(ValueError, match="data must have at least 2 rows, got 1"):
        median_heuristic([1.0])


DEGENERATE = {
    "equal rows": np.ones((5, 2)),
    "more than half of all pairs are equal": [0.0, 0.0, 0.0, 0.0, 1.0],
}


@pytest.mark.parametrize("data", DEGENERATE.values(), ids=DEGENERATE)
def test_a_median_of_zero_is_an_error_that_says_what_to_do(data):
    with pytest.raises(ValueError, match=r"data has a median distance of 0.*give.*lengthscale"):
        median_heuristic(data)
