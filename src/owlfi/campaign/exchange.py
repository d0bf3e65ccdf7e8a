"""Runs made anywhere: a design written to a file, a job array for SLURM, results read back."""

import csv
import io
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from owlfi._tools.checks import as_count
from owlfi.campaign.campaign import Campaign
from owlfi.campaign.outcome import DONE, EXCEPTION, NOT_FINITE, STATES, Outcome, run_row
from owlfi.campaign.store import Run, Store
from owlfi.problem.simulations import Simulations

_HOST = "imported"
# y is one cell, so that a failure needs no number of columns; the state comes last, so that a line
# that was cut off while it was written can be told from a whole one.
_HEADER = ["run", "seconds", "error", "y", "state"]
_SLURM = """\
#!/bin/sh
#SBATCH --job-name=owlfi
#SBATCH --array=0-{last}
#SBATCH --output=owlfi-%a.log
# Submit with `sbatch {script}` where owlfi and the simulator are installed. A task that is run
# again goes on where it stopped. Then, beside the store:
#   owlfi campaign import {store} results-*.csv
exec owlfi campaign work {design} --task "$SLURM_ARRAY_TASK_ID" --tasks {tasks} \\
    --out "results-$SLURM_ARRAY_TASK_ID.csv"
"""


def export_design(campaign: Campaign, file: str | os.PathLike[str]) -> int:
    """Write the runs that have not ended to a CSV or NPZ file; returns how many.

    Each has the number `run` by which its result is known, its theta and its u (u_1, u_2, ...).
    NPZ holds the arrays run, theta and u, and the simulator for `owlfi campaign work`.

    Raises ValueError for another kind of file.
    """
    path = Path(file)
    runs = campaign.pending()
    theta = np.array([np.frombuffer(run.theta) for run in runs])
    u = np.array([np.frombuffer(run.u) for run in runs])
    names = [run.digest.hex() for run in runs]
    if path.suffix == ".npz":
        np.savez(path, run=np.array(names), theta=theta, u=u, recipe=np.array(campaign.recipe))
    elif path.suffix == ".csv":
        dim = campaign.original.measure.dim
        header = ["run", *campaign.original.parameters, *(f"u_{j + 1}" for j in range(dim))]
        numbers = np.hstack([theta, u]).tolist() if runs else []
        _write_csv(path, header, ([n, *row] for n, row in zip(names, numbers, strict=True)))
    else:
        raise ValueError(f"the file of a design must end in .csv or .npz, got {path.name}")
    return len(runs)


def slurm_script(store: str, design: str, script: str, tasks: int) -> str:
    """The text of a job array that makes all runs of an exported design (.npz) in `tasks` tasks.

    Raises ValueError for another kind of design.

    >>> print(slurm_script("runs.sqlite", "design.npz", "job.sh", 10).splitlines()[2])
    #SBATCH --array=0-9
    """
    if not design.endswith(".npz"):
        raise ValueError(f"a job array reads the design as .npz, got {design}")
    tasks = as_count("tasks", tasks)
    return _SLURM.format(store=store, design=design, script=script, tasks=tasks, last=tasks - 1)


def work(design: str | os.PathLike[str], out: str | os.PathLike[str], task: int, tasks: int) -> int:
    """Make every `tasks`-th run of a design (.npz), from number `task` on; returns how many.

    Each result is on the disk before the next run starts; those in the file `out` already are
    not made again.

    Raises ValueError for a file that is no exported design.
    """
    path = Path(out)
    wanted = ("recipe", "run", "theta", "u")
    recipe, *columns = _arrays(Path(design), wanted, "export the design as .npz")
    inputs = list(zip(*(column[task::tasks] for column in columns), strict=True))
    known = _made_before(path) if path.exists() else set()
    todo = [(str(name), *rest) for name, *rest in inputs if str(name) not in known]
    with path.open("a", newline="", encoding="utf-8") as file:
        for name, theta, u in todo:
            outcome = run_row(str(recipe), theta.tobytes(), u.tobytes())
            _append(file, name, outcome)
    return len(todo)


def write_simulations(
    runs: Simulations, names: Sequence[str], file: str | os.PathLike[str]
) -> None:
    """Write thetas (t, p), u, weights and y (t, m, d) as NPZ, or a row a run as CSV.

    Raises ValueError for another kind of file.
    """
    path, q = Path(file), runs.quadrature
    thetas, y = np.asarray(runs.thetas), np.asarray(runs.y)
    if path.suffix == ".npz":
        np.savez(path, thetas=thetas, u=np.asarray(q.points), weights=np.asarray(q.weights), y=y)
        return
    if path.suffix != ".csv":
        raise ValueError(f"the file of results must end in .csv or .npz, got {path.name}")
    t, m, d = y.shape
    u = np.broadcast_to(q.points, (t, *q.points.shape[-2:]))
    w = np.broadcast_to(q.weights, (t, m))[..., None]
    columns = np.concatenate([np.broadcast_to(thetas[:, None], (t, m, len(names))), u, w, y], -1)
    header = [*names, *_numbered("u", u.shape[-1]), "weight", *_numbered("y", d)]
    _write_csv(path, header, columns.reshape(t * m, -1).tolist())


def import_results(campaign: Campaign, files: Sequence[str | os.PathLike[str]]) -> int:
    """Read results from CSV or NPZ files into the store, all or none; returns how many are new.

    CSV: columns run and y_1, y_2, ..., or y with spaces between; seconds, state and error where
    known; theta and u are compared where they are there. NPZ: arrays run (n,) and y (n, d). A row
    without y has failed where it has a state or an error, and is still to be made where it has not.

    Raises ValueError, naming the file and the row, for a run that is not in the design, one whose
    theta, u or y differs from what is known, numbers that cannot be read, and files without y.
    """
    design = {run.digest.hex(): run for run in campaign.design.distinct()}
    names = (*campaign.original.parameters, *_numbered("u", campaign.original.measure.dim))
    found: dict[str, Outcome] = {}
    for file in files:
        for where, row in _results(Path(file)):
            run = design.get(row["run"])
            if run is None:
                raise ValueError(f"{where}: there is no run {row['run']!r} in {campaign.path}")
            _check_inputs(where, row, run, names)
            outcome = _outcome(where, row)
            if outcome is None:
                continue
            if found.setdefault(run.digest.hex(), outcome).y != outcome.y:
                raise ValueError(f"{where}: run {row['run']} has two different results")
    with campaign.driving() as store:
        known = store.fact("columns")
        new = [(design[n], end, 1) for n, end in found.items() if _is_news(store, design[n], end)]
        sizes = {len(end.y) // 8 for _, end, _ in new if end.y is not None}
        if len(sizes | ({known} - {None})) > 1:
            raise ValueError(f"y must have one number of columns, got {sorted(sizes)} and {known}")
        store.record(new, columns=next(iter(sizes), known))
    return len(new)


def _results(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix == ".npz":
        names, y = _arrays(path, ("run", "y"), "save run and y with numpy.savez")
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or names.shape != y.shape[:1]:
            raise ValueError(
                f"{path}: run must have shape (n,) and y (n, d), got {names.shape} and {y.shape}"
            )
        for name, row in zip(names, y, strict=True):
            yield str(path), {"run": str(name), **_named("y", row)}
        return
    for number, row in _rows(path):
        if not _columns_of_y(row):
            raise ValueError(
                f"{path} has no column of results; its columns are {', '.join(row)}: call them "
                "y_1, y_2, ..., or y"
            )
        yield f"{path}, line {number}", row


def _arrays(path: Path, names: Sequence[str], remedy: str) -> list[np.ndarray]:
    """Arrays of an NPZ file by their names."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is no NPZ file; {remedy}")
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in names if name not in file]
        if missing:
            there = ", ".join(file.files)
            raise ValueError(f"{path} has no array {missing[0]}; its arrays are {there}: {remedy}")
        return [file[name] for name in names]


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a CSV file with the numbers of their lines.

    A last one that was cut off while it was written is left out.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        text = file.read()
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = rows.fieldnames or []
    if text and "run" not in names:
        raise ValueError(f"{path} has no column run; its columns are {', '.join(names)}")
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


def _check_inputs(where: str, row: dict[str, Any], run: Run, names: Iterable[str]) -> None:
    values = (*np.frombuffer(run.theta), *np.frombuffer(run.u))
    for name, value in zip(names, values, strict=True):
        if name in row and not math.isclose(_number(where, row[name]), value, rel_tol=1e-9):
            raise ValueError(f"{where}: {name} is {row[name]}, in the design it is {value}")


def _outcome(where: str, row: dict[str, Any]) -> Outcome | None:
    """How a run ended, None where the row does not tell."""
    y = _y(where, row)
    seconds = _number(where, row["seconds"]) if row.get("seconds") else None
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


def _y(where: str, row: dict[str, Any]) -> np.ndarray:
    """The numbers of a row, none where all its cells are empty."""
    cells = {name: str("" if row[name] is None else row[name]) for name in _columns_of_y(row)}
    empty = [name for name, cell in cells.items() if not cell.strip()]
    if empty and len(empty) < len(cells):
        raise ValueError(f"{where}: {empty[0]} is empty; give all of y, or nothing of it")
    return np.array([_number(where, part) for cell in cells.values() for part in cell.split()])


def _columns_of_y(row: dict[str, Any]) -> list[str]:
    numbered = [name for name in row if re.fullmatch(r"y_\d+", name)]
    return sorted(numbered, key=lambda name: int(name[2:])) or [name for name in row if name == "y"]


def _is_news(store: Store, run: Run, outcome: Outcome) -> bool:
    """Whether a result adds to what is known; a failure never replaces a result."""
    known = store.output(run.digest)
    if known is None or (known[1] is None and outcome.y is not None):
        return True
    if None not in (known[1], outcome.y) and not _agree(known[1], outcome.y):
        raise ValueError(
            f"run {run.digest.hex()} is known with y = {np.frombuffer(known[1] or b'')}, and comes "
            f"with y = {np.frombuffer(outcome.y or b'')}; it was made with another simulator"
        )
    return False


def _agree(known: bytes | None, y: bytes | None) -> bool:
    a, b = np.frombuffer(known or b""), np.frombuffer(y or b"")
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9)


def _number(where: str, text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {text!r} is no number") from error


def _append(file: Any, name: str, outcome: Outcome) -> None:
    writer = csv.writer(file)
    if file.tell() == 0:
        writer.writerow(_HEADER)
    y = " ".join(map(repr, np.frombuffer(outcome.y or b"").tolist()))
    error = " ".join(outcome.error.split())
    writer.writerow([name, outcome.seconds, error, y, outcome.state])
    file.flush()
    os.fsync(file.fileno())


def _made_before(path: Path) -> set[str]:
    """The runs in a file of results that is to be continued, once an unfinished line is cut off."""
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    rows = [row for _, row in _rows(path)]
    if rows and list(rows[0]) != _HEADER:
        raise ValueError(
            f"{path} cannot be continued: its columns are {', '.join(rows[0])}, where "
            f"{', '.join(_HEADER)} are written; choose another file for results"
        )
    return {row["run"] for row in rows}


def _write_csv(path: Path, header: list[str], rows: Iterable[list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}_{j + 1}" for j in range(count)]


def _named(name: str, values: np.ndarray) -> dict[str, float]:
    return dict(zip(_numbered(name, len(values)), values.tolist(), strict=True))
