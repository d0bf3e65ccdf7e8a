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


# Dialects: read as they were written, or refused; never silently without a row or a column

X = np.array([[1.5, -2.25], [3.0, 4e-3], [0.1, 12345.678]])


def written(*lines):
    return "\n".join(lines) + "\n"


READ = {
    "pandas": written("a,b", "1.5,-2.25", "3.0,0.004", "0.1,12345.678"),
    "pandas without names": written("1.5,-2.25", "3.0,0.004", "0.1,12345.678"),
    "R, without row names": written('"a","b"', "1.5,-2.25", "3,0.004", "0.1,12345.678"),
    "R's csv2": written('"a";"b"', "1,5;-2,25", "3;0,004", "0,1;12345,678"),
    "R's table": written('"a" "b"', "1.5 -2.25", "3 0.004", "0.1 12345.678"),
    "decimal commas without names": written("1,5;-2,25", "3,0;0,004", "0,1;12345,678"),
    "decimal commas and tabs": written("a\tb", "1,5\t-2,25", "3\t4e-3", "0,1\t12345,678"),
    "semicolons": written("a;b", "1.5;-2.25", "3;0.004", "0.1;12345.678"),
    "bars": written("a|b", "1.5|-2.25", "3|0.004", "0.1|12345.678"),
    "tabs": written("1.5\t-2.25", "3\t0.004", "0.1\t12345.678"),
    "numpy": written("1.5e+00 -2.25e+00", "3.0e+00 4.0e-03", "1.0e-01 1.2345678e+04"),
    "numpy with a header": written("# a b", "1.5 -2.25", "3 4e-3", "0.1 12345.678"),
    "comments": written("# made", "a,b", "1.5,-2.25", "# more", "3,0.004", "0.1,12345.678"),
    "aligned": written("   a       b", " 1.5   -2.25", " 3.0   0.004", " 0.1   12345.678"),
    "spaces after commas": written("a, b", "1.5, -2.25", "3, 0.004", "0.1, 12345.678"),
    "Windows": "a,b\r\n1.5,-2.25\r\n3,0.004\r\n0.1,12345.678\r\n",
    "a byte order mark": "\ufeffa,b\n1.5,-2.25\n3,0.004\n0.1,12345.678\n",
    "no last end": "a,b\n1.5,-2.25\n3,0.004\n0.1,12345.678",
    "empty lines around": written("", "a,b", "1.5,-2.25", "3,0.004", "0.1,12345.678", "", ""),
    "quoted numbers": written('"a","b"', '"1.5","-2.25"', '"3","0.004"', '"0.1","12345.678"'),
    "names with spaces": written("a,b (units)", "1.5,-2.25", "3,0.004", "0.1,12345.678"),
    "names with numbers": written("x1,x2", "1.5,-2.25", "3,0.004", "0.1,12345.678"),
    "short numbers": written("+1.5,-2.25", "3.,4e-3", ".1,12345.678"),
}
REFUSED = {
    "a year above one column": "2001\n-2.82\n1.5\n0.98\n3.75\n",
    "years above a whole number": "2001,2002,2003\n" + "1.5,2.5,3.5\n" * 6 + "1.5,2.5,99999\n",
    "points between thousands": "1.869,58,68,13\n-776,96,1.663,89\n-450,86,2.311,15\n",
    "the same with zeros": "1.869,58,68,1\n776,96,1.663,089\n450,86,2.311,15\n",
    "pandas with an index": ",a,b\n0,1,2\n1,3,4\n",
    "R with row names": '"","a","b"\n"1",1,2\n"2",3,4\n',
    "R's table with row names": '"a" "b"\n"1" 1 2\n"2" 3 4\n',
    "one name for two columns": "a\n1,5\n2,5\n",
    "a gap in the first row": "1,NA\n2,3\n",
    "a first row with NaN": "nan,1\n2,3\n",
    "an infinite first row": "inf,1\n2,3\n",
    "a first row of Fortran": "1.0d0,2.0d0\n1.0,2.0\n",
    "a first row with a unit": "5%,6\n7,8\n",
    "a first row of money": "$5,$6\n7,8\n",
    "a first row with underscores": "1_000,2\n3,4\n",
    "underscores": "a,b\n1_000,2\n3,4\n",
    "hexadecimal": "a,b\n0x10,2\n3,4\n",
    "a first row half text": "a,2\n3,4\n",
    "a name that is missing": "a,\n1,2\n",
    "thousands": "a;b\n1.234,5;2\n3;4\n",
    "quoted thousands": 'a,b\n"1,234.5",2\n3,4\n',
    "quoted decimal commas": 'a,b\n"1,5","2,5"\n"3,5","4,5"\n',
    "a short row": "a,b\n1,2\n3\n",
    "a long row": "a,b\n1,2\n3,4,5\n",
    "a long first row": "1,2,3\n4,5\n",
    "a trailing comma": "a,b\n1,2,\n3,4,\n",
    "trailing commas in all": "a,b,\n1,2,\n3,4,\n",
    "an empty line inside": "a,b\n1,2\n\n3,4\n",
    "an empty line in one column": "a\n1\n\n3\n",
    "a gap": "a,b\n1,\n3,4\n",
    "R's gap": "a,b\n1,NA\n3,4\n",
    "a gap as a dash": "a,b\n1,-\n3,4\n",
    "a gap as a question": "a,b\n1,?\n3,4\n",
    "NaN": "a,b\n1,NaN\n3,4\n",
    "infinity": "a,b\n1,inf\n3,4\n",
    "text": "a,b\n1,x\n3,4\n",
    "dates": "a,b\n2020-01-01,1\n2020-01-02,2\n",
    "a note after a row": "a,b\n1,2 # first\n3,4\n",
    "Matlab's comments": "% made\n1,2\n3,4\n",
    "two equal names": "a,a\n1,2\n3,4\n",
    "two separators": "a;b\n1,2\n3,4\n",
    "units below the names": "a,b\nm,s\n1,2\n",
    "two lines of names": "a,b\nc,d\n1,2\n",
    "a total below": "a,b\n1,2\ntotal,2\n",
    "complex numbers": "a,b\n1+2j,2\n3,4\n",
    "a list": "a\n[1, 2]\n[3, 4]\n",
    "JSON": '{"a": [1, 2]}\n',
    "nothing but comments": "# a\n# b\n",
    "names alone": "a,b\n",
    "pandas with an index and no names": "0,1.5,2\n1,3.5,4\n2,5,6\n3,7,8\n",
    "R with row names and no names": '"1" 1.5 2\n"2" 3.5 4\n"3" 5 6\n"4" 7 8\n',
    "an index with a name": "Unnamed: 0,a,b\n0,1.5,2\n1,3.5,4\n2,5,6\n3,7,8\n",
    "pandas with numbers for names": "0,1\n1.5,2.25\n3.0,0.5\n",
    "pandas with a number for a name": "0\n1.5\n2.25\n",
    "pandas with more of them": "0,1,2\n3,4,5\n6,7,8\n",
    "years for names": "2019,2020\n1.5,2.25\n3.0,0.5\n",
    "an index of decimals": "a,b\n0.0,1.5\n1.0,3.5\n2.0,5.5\n3.0,7.5\n",
    "an index of one width": "001 1.5\n002 3.5\n003 5.5\n004 7.5\n",
    "commas that may divide thousands": "a\tb\n999\t2\n1,234\t4\n",
    "points among decimal commas": "a;b\n1.234;2,5\n3;4\n",
    "another end of lines": "a,b\n1,2\x0c3,4\n5,6\n",
    "a cell beyond all size": f"a\n{'1' * 200_000}\n",
    "pandas with numbers for names of whole numbers": "0,1\n15,25\n35,45\n",
    "pandas with a number for a name of whole numbers": "0\n15\n35\n",
    "years in quotes for names": '"2019","2020"\n15,25\n35,45\n',
    "an error of Excel in the first column": "a,b\n1,2\n#N/A,3\n4,5\n",
    "an error of Excel in German": "a;b\n1,5;2\n#WERT!;3\n4;5\n",
    "a division by zero": "a\n1.5\n#DIV/0!\n4\n",
    "a first row in words": "-Infinity,Infinity\n1,2\n3,4\n",
    "a first row of C's NaN": "-nan\n1.5\n2.5\n",
    "a first row of pandas's NA": "<NA>\n1.5\n2.5\n",
    "an index of NumPy": "0.0e+00 1.5\n1.0e+00 3.5\n2.0e+00 5.5\n3.0e+00 7.5\n",
    "decimal commas in one column": "1,5\n2,05\n3,25\n",
    "decimal commas below 0": "1,5\n-0,5\n3,25\n",
    "decimal commas between commas": "1,5,2,5\n3,5,4,05\n",
    "a cell of two lines": 'a,b\n"1\n",2\n3,4\n',
}


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_dialects_that_are_read(tmp_path, text):
    (tmp_path / "x.csv").write_text(text, newline="")
    assert np.array_equal(read_csv(tmp_path / "x.csv"), X)


@pytest.mark.parametrize(
    "text", ["3\n1.5\n", "1,0\n0,1\n1.5,2\n", "5,4\n", "a;b\n1,250;2\n0,5;4\n"]
)
def test_numbers_that_can_only_be_data_are_read(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    assert len(read_csv(tmp_path / "x.csv")) == len(
        [line for line in text.split() if "a" not in line]
    )


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_dialects_that_are_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=r"x.csv"):
        read_csv(tmp_path / "x.csv")


def test_index_and_text_are_left_out_where_columns_are_chosen(tmp_path):
    (tmp_path / "x.csv").write_text(",a,day\n0,1.5,Monday\n1,2.5,Tuesday\n")
    assert_allclose(read_csv(tmp_path / "x.csv", ["a"]), [[1.5], [2.5]])
    (tmp_path / "weeks.csv").write_text("week,a\n1,2.5\n2,3.5\n3,2\n4,5\n")
    assert_allclose(read_csv(tmp_path / "weeks.csv", ["week", "a"])[:, 0], [1, 2, 3, 4])
    (tmp_path / "years.csv").write_text("1990,1991\n1.5,2.5\n")
    assert_allclose(read_csv(tmp_path / "years.csv", ["1991"]), [[2.5]])


def test_files_in_another_encoding_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"x.csv', which is not UTF-8"):
        read_csv(tmp_path / "x.csv")
