"""Files of results: rows of a CSV or NPZ file, as programs and job arrays write them."""

import csv
import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from owlfi._tools.files import open_arrays
from owlfi.campaign.outcome import DONE, EXCEPTION, NOT_FINITE, STATES, Outcome

_HOST = "imported"
# y is one cell, so that a failure needs no number of columns; the state comes last, so that a line
# that was cut off while it was written can be told from a whole one.
_HEADER = ["run", "seconds", "error", "y", "state"]


def read_results(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file by the names of their columns, each with where it stands.

    Raises ValueError for a file without runs or without y, and rows that do not fit.
    """
    if path.suffix == ".npz":
        names, y = read_arrays(path, ("run", "y"), remedy="save run and y with numpy.savez")
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or names.shape != y.shape[:1]:
            raise ValueError(
                f"{path}: run must have shape (n,) and y (n, d), got {names.shape} and {y.shape}"
            )
        columns = number_names("y", y.shape[1])
        for name, values in zip(names, y.tolist(), strict=True):
            yield str(path), {"run": str(name), **dict(zip(columns, values, strict=True))}
        return
    for number, row in _read_rows(path):
        if not _columns_of_y(row):
            raise ValueError(
                f"{path} has no column of results; its columns are {', '.join(row)}: call them "
                "y_1, y_2, ..., or y"
            )
        yield f"{path}, line {number}", row


def read_arrays(path: Path, names: Sequence[str], *, remedy: str) -> list[np.ndarray]:
    """Arrays of an NPZ file by their names.

    remedy: what to do about it, in the ValueError for another file and an array that is missing.
    """
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is no NPZ file; {remedy}")
    with open_arrays(path) as file:
        missing = [name for name in names if name not in file]
        if missing:
            there = ", ".join(file.files)
            raise ValueError(f"{path} has no array {missing[0]}; its arrays are {there}: {remedy}")
        return [file[name] for name in names]


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a CSV file with the numbers of their lines.

    A last one that was cut off while it was written is left out.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        text = file.read()
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = rows.fieldnames or []
    if text and "run" not in names:
        raise ValueError(
            f"{path} has no column run, but {', '.join(names)}; name the runs there as the export "
            "does"
        )
    ends = text.count("\n")
    for row in rows:
        surplus = row.get(None)  # where DictReader puts them
        if surplus:
            raise ValueError(
                f"{path}, line {rows.line_num} has {len(surplus)} more cells than the header, "
                f"which has {len(names)} ({', '.join(names)}); name all columns"
            )
        if rows.line_num <= ends or _is_whole(row):
            yield rows.line_num, row


def _is_whole(row: dict[str, Any]) -> bool:
    """Whether a line without an end has all that its file's others have."""
    whole = None not in row.values()
    return whole and (list(row) != _HEADER or row["state"] in STATES)


def read_outcome(where: str, row: dict[str, Any]) -> Outcome | None:
    """How a run ended, None where the row does not tell.

    Raises ValueError, beginning with where the row stands, for what cannot be understood.
    """
    y = _read_y(where, row)
    seconds = read_number(where, row["seconds"]) if row.get("seconds") else None
    state, error = row.get("state") or "", row.get("error") or ""
    if len(y) == 0:
        if state == DONE:
            raise ValueError(f"{where}: state is {DONE}, but y is empty; give y, or leave both out")
        if state and state not in STATES:
            raise ValueError(f"{where}: state must be one of {', '.join(STATES)}, got {state}")
        failed = state or error
        return Outcome(state or EXCEPTION, None, seconds, _HOST, error) if failed else None
    if not np.isfinite(y).all():
        return Outcome(NOT_FINITE, None, seconds, _HOST, f"y = {y}")
    return Outcome(DONE, y.tobytes(), seconds, _HOST)


def _read_y(where: str, row: dict[str, Any]) -> np.ndarray:
    """The numbers of a row, none where all its cells are empty."""
    cells = {name: str("" if row[name] is None else row[name]) for name in _columns_of_y(row)}
    empty = [name for name, cell in cells.items() if not cell.strip()]
    if empty and len(empty) < len(cells):
        raise ValueError(f"{where}: {empty[0]} is empty; give all of y, or nothing of it")
    return np.array([read_number(where, part) for cell in cells.values() for part in cell.split()])


def _columns_of_y(row: dict[str, Any]) -> list[str]:
    numbered = [name for name in row if re.fullmatch(r"y_\d+", name)]
    return sorted(numbered, key=lambda name: int(name[2:])) or [name for name in row if name == "y"]


def read_number(where: str, text: Any) -> float:
    """A number; ValueError, beginning with where it stands, for anything else."""
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: {text!r} is no number; write it as 1.5, or leave the row out"
        ) from error


def append_outcome(file: TextIO, name: str, outcome: Outcome) -> None:
    """Write how the run of a name ended to a CSV file; it is on the disk when this returns."""
    writer = csv.writer(file)
    if file.tell() == 0:
        writer.writerow(_HEADER)
    y = " ".join(map(repr, np.frombuffer(outcome.y or b"").tolist()))
    error = " ".join(outcome.error.split())
    writer.writerow([name, outcome.seconds, error, y, outcome.state])
    file.flush()
    os.fsync(file.fileno())


def resume_file(path: Path) -> set[str]:
    """Cut an unfinished line off a file of `append_outcome`; the names of the runs in it.

    Raises ValueError for a file of another kind, which cannot be continued.
    """
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    rows = [row for _, row in _read_rows(path)]
    if rows and list(rows[0]) != _HEADER:
        raise ValueError(
            f"{path} cannot be continued: its columns are {', '.join(rows[0])}, where "
            f"{', '.join(_HEADER)} are written; choose another file for results"
        )
    return {row["run"] for row in rows}


def number_names(name: str, count: int) -> list[str]:
    """The columns of an array with several: y_1, y_2, ..."""
    return [f"{name}_{j + 1}" for j in range(count)]
