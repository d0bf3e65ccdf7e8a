"""What was observed, from arrays, data frames or files of comma-separated values."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows


def as_observed(value: Any) -> Float[Array, "n d"]:
    """Rows (n, d) of an array or data frame, or of all columns of a CSV file."""
    if isinstance(value, str | PathLike):
        return read_csv(value)
    return as_rows("observed", value)


def name_columns(value: Any, given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The given names, or those of a data frame, where they are as many as columns; or numbers."""
    names = getattr(value, "columns", ()) if given is None else given
    if len(names) == count:
        return tuple(str(name) for name in names)
    return tuple(f"column_{i}" for i in range(count))


def read_csv(path: Any, columns: Sequence[str] | None = None) -> Float[Array, "n d"]:
    """Observations (n, d) from a CSV file.

    columns: which to read, in this order, by the names in the first line; all where left out, and
        then a first line of numbers is data.

    Raises ValueError for a file that is not there or empty, columns that it does not have, and
    columns with text or gaps.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "rates.csv"
    >>> _ = file.write_text("day,rate\\n1,0.85\\n2,0.86\\n")
    >>> read_csv(file, ["rate"]).ravel()
    Array([0.85, 0.86], dtype=float64)
    """
    import pandas as pd  # half a second that only files need

    if not Path(path).is_file():
        raise ValueError(f"observed is {str(path)!r}, but there is no such file")
    try:
        first = pd.read_csv(path, header=None, nrows=1)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"observed is {str(path)!r}, which is empty") from error
    named = not all(pd.api.types.is_numeric_dtype(first[name]) for name in first.columns)
    frame = pd.read_csv(path, header=0 if named or columns is not None else None)
    if frame.empty:
        raise ValueError(f"observed is {str(path)!r}, which has names of columns but no rows")
    wanted = list(frame.columns) if columns is None else list(columns)
    unknown = [name for name in wanted if name not in frame.columns]
    if unknown:
        raise ValueError(
            f"columns has {unknown}, but {path} has {list(frame.columns)}; name some of these"
        )
    texts = [name for name in wanted if not pd.api.types.is_numeric_dtype(frame[name])]
    if texts:
        numbers = [name for name in wanted if name not in texts]
        raise ValueError(
            f"{path} has text in the columns {texts}; separate numbers by commas, and choose "
            f"columns of numbers with read_csv(path, columns={numbers})"
        )
    return as_rows(f"observed ({path})", frame[wanted].to_numpy(float))
