"""Runs made anywhere: a design written to a file, a job array for SLURM, results read back."""

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from owlfi._tools.checks import as_count, as_kind, as_path, as_truth
from owlfi._tools.files import write_whole
from owlfi.campaign.campaign import Campaign
from owlfi.campaign.outcome import Outcome, is_same_y
from owlfi.campaign.result_files import (
    append_outcome,
    number_names,
    read_arrays,
    read_number,
    read_outcome,
    read_results,
    resume_file,
)
from owlfi.campaign.rows import run_row
from owlfi.campaign.store import Run, Store
from owlfi.campaign.trust import check_trust
from owlfi.problem.simulations import Simulations

_COLUMN = re.compile(r"run|weight|seconds|state|error|y|[uy]_\d+")  # of files of runs
_SLURM = """\
#!/bin/sh
#SBATCH --job-name=owlfi
#SBATCH --array=0-{last}
#SBATCH --output=owlfi-%a.log
# Submit with `sbatch {script}` where owlfi and the simulator are installed. A task that is run
# again goes on where it stopped. Then, beside the store:
#   owlfi campaign import {store} results-*.csv
exec owlfi campaign work {design} --task "$SLURM_ARRAY_TASK_ID" --tasks {tasks} --trust \\
    --out "results-$SLURM_ARRAY_TASK_ID.csv"
"""


def export_design(campaign: Campaign, file: str | os.PathLike[str]) -> int:
    """Write the runs that have not ended to a CSV or NPZ file; returns how many.

    Each has the number `run` by which its result is known, its theta and its u (u_1, u_2, ...).
    NPZ holds the arrays run, theta and u, and the simulator for `owlfi campaign work`.

    Raises ValueError for another kind of file, and for CSV where parameters have the names of other
    columns, as u_1 or y.
    """
    path = as_path("file", file)
    with _as_campaign(campaign).reading() as store:
        runs = [run for run, _ in campaign.design.pending(store.endings(), retries=0)]
    theta = np.array([np.frombuffer(run.theta) for run in runs])
    u = np.array([np.frombuffer(run.u) for run in runs])
    names = [run.digest.hex() for run in runs]
    if path.suffix == ".npz":
        with campaign.reading() as store:
            signature = np.array(store.fact("signature") or "")
        recipe = np.array(campaign.recipe)
        with write_whole(path) as opened:
            np.savez(
                opened, run=np.array(names), theta=theta, u=u, recipe=recipe, signature=signature
            )
    elif path.suffix == ".csv":
        _refuse_clashes(campaign.outline.parameters)
        header = ["run", *_input_names(campaign)]
        numbers = np.hstack([theta, u]).tolist() if runs else []
        _write_csv(path, header, ([n, *row] for n, row in zip(names, numbers, strict=True)))
    else:
        raise ValueError(f"the file of a design must end in .csv or .npz, got {path.name}")
    return len(runs)


def make_slurm_script(*, store: str, design: str, script: str, tasks: int) -> str:
    """The text of a job array that makes all runs of an exported design (.npz) in `tasks` tasks.

    Raises ValueError for another kind of design.

    >>> text = make_slurm_script(
    ...     store="runs.sqlite", design="design.npz", script="job.sh", tasks=10
    ... )
    >>> print(text.splitlines()[2])
    #SBATCH --array=0-9
    """
    if not design.endswith(".npz"):
        raise ValueError(
            f"a job array needs a design that ends in .npz, got {design}; export it as that"
        )
    tasks = as_count("tasks", tasks)
    return _SLURM.format(store=store, design=design, script=script, tasks=tasks, last=tasks - 1)


def work(
    design: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    task: int = 0,
    tasks: int = 1,
    trust: bool = False,
) -> int:
    """Make every `tasks`-th run of a design (.npz), from number `task` on; returns how many.

    Each result is on the disk before the next run starts; those in the file `out` already are
    not made again.

    trust: import or execute the simulator that the design names although it was not exported on
        this account.

    Raises ValueError for a file that is no exported design, and for a stranger's.
    """
    path = Path(out)
    wanted = ("recipe", "signature", "run", "theta", "u")
    texts = read_arrays(Path(design), wanted, remedy="export the design as .npz")
    (recipe, signature), columns = map(str, texts[:2]), texts[2:]
    if not as_truth("trust", trust):
        check_trust(Path(design), recipe, signature)
    inputs = list(zip(*(column[task::tasks] for column in columns), strict=True))
    known = resume_file(path) if path.exists() else set()
    todo = [(str(name), *rest) for name, *rest in inputs if str(name) not in known]
    with path.open("a", newline="", encoding="utf-8") as file:
        for name, theta, u in todo:
            outcome = run_row(recipe, theta.tobytes(), u.tobytes())
            append_outcome(file, name, outcome)
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
        u, w = np.asarray(q.points), np.asarray(q.weights)
        with write_whole(path) as opened:
            np.savez(opened, thetas=thetas, u=u, weights=w, y=y)
        return
    if path.suffix != ".csv":
        raise ValueError(f"the file of results must end in .csv or .npz, got {path.name}")
    _refuse_clashes(names)
    t, m, d = y.shape
    u = np.broadcast_to(q.points, (t, *q.points.shape[-2:]))
    w = np.broadcast_to(q.weights, (t, m))[..., None]
    columns = np.concatenate([np.broadcast_to(thetas[:, None], (t, m, len(names))), u, w, y], -1)
    header = [*names, *number_names("u", u.shape[-1]), "weight", *number_names("y", d)]
    _write_csv(path, header, columns.reshape(t * m, -1).tolist())


def import_results(campaign: Campaign, files: Sequence[str | os.PathLike[str]]) -> int:
    """Read results from CSV or NPZ files into the store, all or none; returns how many are new.

    CSV: columns run and y_1, y_2, ..., or y with spaces between; seconds, state and error where
    known; theta and u are compared where they are there. NPZ: arrays run (n,) and y (n, d). A row
    without y has failed where it has a state or an error, and is still to be made where it has not.

    Raises ValueError, naming the file and the row, for a run that is not in the design, one whose
    theta, u or y differs from what is known, numbers that cannot be read, and files without y.
    """
    design = {run.digest.hex(): run for run in _as_campaign(campaign).design.distinct()}
    found = _find_outcomes(campaign, design, files)
    with campaign.writing() as store:
        known = store.fact("columns")
        new = [(design[n], end, 1) for n, end in found.items() if _is_news(store, design[n], end)]
        sizes = {len(end.y) // 8 for _, end, _ in new if end.y is not None}
        if len(sizes | ({known} - {None})) > 1:
            raise ValueError(f"y must have one number of columns, got {sorted(sizes)} and {known}")
        store.record(new, columns=next(iter(sizes), known))
    return len(new)


def _as_campaign(campaign: Any) -> Campaign:
    return as_kind("campaign", campaign, Campaign, "a Campaign")


def _find_outcomes(
    campaign: Campaign, design: dict[str, Run], files: Sequence[str | os.PathLike[str]]
) -> dict[str, Outcome]:
    """How the runs in the files ended, by name."""
    clashes = _find_clashes(campaign.outline.parameters)
    inputs = ["" if name in clashes else name for name in _input_names(campaign)]
    found: dict[str, Outcome] = {}
    as_kind("files", files, list | tuple, "a list of paths")
    for file in files:
        for where, row in read_results(as_path("files", file)):
            name = row["run"]
            if name not in design:
                raise ValueError(
                    f"{where}: there is no run {name!r} in {campaign.path}; import "
                    "results of its own export"
                )
            _check_inputs(where, row, design[name], inputs)
            outcome = read_outcome(where, row)
            if outcome is not None and found.setdefault(name, outcome).y != outcome.y:
                raise ValueError(
                    f"{where}: run {name} has two different results; leave one of them out"
                )
    return found


def _find_clashes(parameters: Iterable[str]) -> list[str]:
    """Parameters with names that columns of other things have."""
    return [name for name in parameters if _COLUMN.fullmatch(name)]


def _refuse_clashes(parameters: Iterable[str]) -> None:
    clashes = _find_clashes(parameters)
    if clashes:
        raise ValueError(
            f"the parameter {clashes[0]!r} has the name of another column of a CSV file; write .npz"
        )


def _input_names(campaign: Campaign) -> list[str]:
    simulator = campaign.outline
    return [*simulator.parameters, *number_names("u", simulator.measure.dim)]


def _check_inputs(where: str, row: dict[str, Any], run: Run, names: Iterable[str]) -> None:
    values = (*np.frombuffer(run.theta), *np.frombuffer(run.u))
    for name, value in zip(names, values, strict=True):
        if name in row and not math.isclose(read_number(where, row[name]), value, rel_tol=1e-9):
            raise ValueError(
                f"{where}: {name} is {row[name]}, in the design it is {value}; "
                "import results of an export of this campaign"
            )


def _is_news(store: Store, run: Run, outcome: Outcome) -> bool:
    """Whether a result adds to what is known; a failure never replaces a result."""
    known = store.outcome(run.digest)
    if known is None or (known.y is None and outcome.y is not None):
        return True
    if known.y is not None and outcome.y is not None and not is_same_y(known.y, outcome.y):
        raise ValueError(
            f"run {run.digest.hex()} is known with y = {np.frombuffer(known.y)}, and comes with "
            f"y = {np.frombuffer(outcome.y)}; import results of the "
            "campaign's own simulator"
        )
    return False


def _write_csv(path: Path, header: list[str], rows: Iterable[list[Any]]) -> None:
    with (
        write_whole(path) as opened,
        io.TextIOWrapper(opened, encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
