"""Observations come from arrays, data frames and files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Problem, read_csv

MODEL = owlfi.models.g_and_k()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text("day,rate,other\nMonday,0.85,1\nTuesday,0.86,2\nFriday,0.9,3\n")
    return path


def test_columns_of_a_file_in_the_order_asked_for(file):
    assert_allclose(read_csv(file, ["other", "rate"]), [[1, 0.85], [2, 0.86], [3, 0.9]])


def test_problem_reads_files_and_data_frames(tmp_path):
    frame = pd.DataFrame({"rate": [0.85, 0.86, 0.9]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    for observed in (tmp_path / "x.csv", str(tmp_path / "x.csv"), frame, frame["rate"]):
        assert_allclose(Problem(MODEL, observed).observed.ravel(), [0.85, 0.86, 0.9])


def test_text_columns_are_named_with_the_remedy(file):
    with pytest.raises(ValueError, match=r"text in the columns \['day'\].*\['rate', 'other'\]"):
        Problem(MODEL, file)


def test_unknown_columns_and_files_are_refused(file):
    with pytest.raises(ValueError, match=r"columns has \['price'\]"):
        read_csv(file, ["price"])
    with pytest.raises(ValueError, match="there is no such file"):
        Problem(MODEL, "nowhere.csv")


def test_gaps_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("rate\n0.85\n\n0.9\nnan\n")
    with pytest.raises(ValueError, match="NaN or infinite"):
        read_csv(tmp_path / "x.csv")


def test_exchange_rates_are_shipped():
    x = np.asarray(owlfi.models.exchange_rates())
    assert x.shape == (501, 1)
    assert x[0, 0] == 0.8547


def test_whitened_kernel_does_not_see_linear_changes_of_the_data():
    x = np.random.default_rng(0).normal(size=(40, 3))
    mixing = np.array([[1.0, 0, 0], [0.9, 0.1, 0], [5, 0, 30]])
    y = x @ mixing.T
    assert_allclose(
        owlfi.whitening_kernel(y).gram(y, y), owlfi.whitening_kernel(x).gram(x, x), rtol=1e-8
    )


def test_whitening_knows_no_units():
    x = np.random.default_rng(1).normal(size=(40, 2))
    units = np.array([1.0, 1e12])
    one, other = owlfi.whitening_kernel(x), owlfi.whitening_kernel(x * units)
    assert_allclose(other.gram(x * units, x * units), one.gram(x, x), rtol=1e-8)


def test_whitening_refuses_dependent_columns():
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="depend linearly"):
        owlfi.whitening_kernel(np.column_stack([x, x.sum(1)]))


def test_a_first_line_of_numbers_is_data(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("1,2\n2,3\n3,4\n")
    assert_allclose(read_csv(path), [[1, 2], [2, 3], [3, 4]])


@pytest.mark.parametrize(("text", "told"), [("", "empty"), ("a,b\n", "no rows")])
def test_files_without_data_are_refused(tmp_path, text, told):
    path = tmp_path / "none.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_csv(path)
