"""Ranks are those of scipy."""

import numpy as np
import pytest
import scipy.stats

from owlfi._tools.rank_columns import rank_columns


@pytest.mark.parametrize("values", [2, 7, 10**6], ids=["many ties", "some ties", "hardly any"])
def test_ranks_are_those_of_scipy(values):
    rows = np.random.default_rng(values).integers(values, size=(40, 3)).astype(float)
    np.testing.assert_array_equal(rank_columns(rows), scipy.stats.rankdata(rows, axis=0))


def test_few_rows_have_ranks():
    assert rank_columns(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(rank_columns(np.ones((1, 2))), np.ones((1, 2)))
