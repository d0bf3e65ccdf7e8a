"""What was observed, from arrays, data frames or files of comma-separated values."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from jaxtyping import Array, Float

from owlfi._tools.checks import as_names, as_path, as_rows, brief
from owlfi.problem.tables import read_table


def observe(value: Any) -> tuple[Float[Array, "n d"], tuple[str, ...] | None]:
    """Rows (n, d) of an array or data frame, or of all columns of a CSV file, and their names.

    None for names where the columns have none.
    """
    if isinstance(value, str | PathLike):
        return _read_columns(value, None)
    names = getattr(value, "columns", None)
    return as_rows("observed", value), None if names is None else tuple(map(str, names))


def name_columns(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """A name for each of so many columns; numbers where none are given.

    Raises ValueError for another number of names.
    """
    if names is None:
        return tuple(f"column_{i}" for i in range(count))
    found = as_names("columns", names)
    if len(found) != count:
        raise ValueError(f"columns must be {count} names, one for each column, got {brief(found)}")
    return found


def read_csv(path: Any, columns: Sequence[str] | None = None) -> Float[Array, "n d"]:
    """Observations (n, d) from a file of numbers, a row a line.

    columns: which to read, in this order, by the names in the first line; all where left out, and
        then a first line of numbers is data.

    Numbers are separated by commas, semicolons, tabs, bars or spaces; where not by commas, these
    may be decimal. Lines that begin with # are comments. Nothing else is left out.

    Raises ValueError, naming the line, for a file that is not there or empty, columns that it does
    not have, lines of different length, columns with text or gaps, a first line of which it is
    not clear whether it holds names, commas or points that may divide thousands, and a first column
    that has no name or only counts the rows, which may be an index, unless columns are chosen.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "rates.csv"
    >>> _ = file.write_text("day,rate\\n1,0.85\\n2,0.86\\n")
    >>> read_csv(file, ["rate"]).ravel()
    Array([0.85, 0.86], dtype=float64)
    """
    return _read_columns(path, columns)[0]


def _read_columns(
    path: Any, columns: Sequence[str] | None
) -> tuple[Float[Array, "n d"], tuple[str, ...] | None]:
    """Some columns of a file, or all, and their names where it has any."""
    columns = None if columns is None else as_names("columns", columns)
    table = read_table(as_path("observed", path))
    names = table.take_names(required=columns is not None)
    if not table.rows:
        raise ValueError(
            f"observed is {str(path)!r}, which has names of columns but no rows; "
            "write rows of numbers below them"
        )
    chosen = table.find_columns(names, columns)
    numbers = as_rows(f"observed ({path})", table.numbers(chosen, names))
    return numbers, None if names is None else tuple(names[j] for j in chosen)
