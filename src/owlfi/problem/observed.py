"""What was observed, from arrays, data frames or files of comma-separated values."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows


def as_observed(value: Any) -> Float[Array, "n d"]:
    """Rows (n, d) of an array or data frame, or of all columns of a CSV file."""
    return observe(value)[0]


def observe(value: Any) -> tuple[Float[Array, "n d"], tuple[str, ...] | None]:
    """The same with the names of the columns, None where they have none."""
    if isinstance(value, str | PathLike):
        frame = _read_frame(value, None)
        named = any(isinstance(name, str) for name in frame.columns)
        return _as_rows_of(value, frame), tuple(map(str, frame.columns)) if named else None
    names = getattr(value, "columns", None)
    return as_rows("observed", value), None if names is None else tuple(map(str, names))


def name_columns(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """A name for each of so many columns; numbers where none are given.

    Raises ValueError for another number of names.
    """
    if names is None:
        return tuple(f"column_{i}" for i in range(count))
    if isinstance(names, str) or len(names) != count:
        raise ValueError(f"columns must be {count} names, one for each column, got {names!r}")
    return tuple(str(name) for name in names)


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
    return _as_rows_of(path, _read_frame(path, columns))


def _as_rows_of(path: Any, frame: Any) -> Float[Array, "n d"]:
    return as_rows(f"observed ({path})", frame.to_numpy(float))


def _read_frame(path: Any, columns: Sequence[str] | None) -> Any:
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
    return frame[wanted]
