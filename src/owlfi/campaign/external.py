"""Programs in any language as generators: a command, numbers in, numbers out."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from owlfi._tools.checks import brief, plain_number

_PLACES = ("theta", "u", "in.json", "in.npy", "out.json", "out.npy", "out.txt")
_PLACE = re.compile(r"\{([a-z.]*)\}")
_RUNNING: set[subprocess.Popen] = set()


class TimeLimitError(Exception):
    """A run that took longer than its time limit."""


class CrashError(Exception):
    """A run whose process was killed."""


@dataclass(frozen=True, init=False)
class Command:
    """A program that simulates one row, as a generator for `Simulator`.

    template: the command, as text or a list of arguments; it goes to no shell. Places in it:
        {theta}, {u}: the numbers, an argument each; inside a longer argument with commas between.
        {in.json}: a file {"theta": [...], "u": [...]}; {in.npy}: theta, then u, in one array.
        {out.json}, {out.npy}, {out.txt}: a file that the program writes y to; without one, all
        numbers of its standard output are y.
    time_limit: seconds after which the program and its children are killed.

    Each run has an empty working directory of its own; files of the command that exist when it is
    made are named in full. A program that ends with another status than 0 has failed, and its
    standard error is kept.

    Raises ValueError for an empty command, one without theta and u, and places it does not know.

    >>> Command("echo {theta} {u}")(np.array([1.5]), np.array([[2.0], [3.0]]))
    array([[1.5, 2. ],
           [1.5, 3. ]])
    """

    arguments: tuple[str, ...]
    time_limit: float | None

    def __init__(self, template: str | Iterable[str], *, time_limit: float | None = None):
        arguments = shlex.split(template) if isinstance(template, str) else list(template)
        _check_template(template, arguments)
        check_time_limit(time_limit)
        object.__setattr__(self, "arguments", tuple(map(_complete_path, arguments)))
        object.__setattr__(self, "time_limit", time_limit)

    def check_program(self) -> None:
        """ValueError where the program cannot be started here."""
        program = self.arguments[0]
        if _PLACE.search(program) or shutil.which(program):
            return
        if Path(program).is_file():
            raise ValueError(f"{program} is no program that can be started; chmod +x {program}")
        raise ValueError(
            f"there is no program {program!r} (in {os.getcwd()} and on the PATH); build or install "
            "it, or give its full path. One that only the workers have can be started by sh -c"
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the command names, the program itself among them."""
        return tuple(argument for argument in self.arguments if Path(argument).is_file())

    def __call__(self, theta: Any, u: Any) -> np.ndarray:
        """y (m, d), a run of the program for each row of u (m, s)."""
        theta, u = np.asarray(theta), np.asarray(u)
        return np.stack([self._run_row(theta, row) for row in u])

    def _run_row(self, theta: np.ndarray, u: np.ndarray) -> np.ndarray:
        with tempfile.TemporaryDirectory(prefix="owlfi-") as folder:
            places = _write_inputs(Path(folder), theta, u)
            arguments = [part for given in self.arguments for part in _fill_places(given, places)]
            output = self._run_program(arguments, folder)
            return _read_y(Path(folder), self._out_file(), output)

    def _out_file(self) -> str:
        """The file that the program writes y to; empty for its standard output."""
        found = (place for given in self.arguments for place in _PLACE.findall(given))
        return next((place for place in found if place.startswith("out.")), "")

    def _run_program(self, arguments: list[str], folder: str) -> str:
        with subprocess.Popen(
            arguments,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its children can be killed with it
        ) as process:
            _RUNNING.add(process)
            try:
                output, errors = process.communicate(timeout=self.time_limit)
            except subprocess.TimeoutExpired:
                _kill(process)
                _, errors = process.communicate()
                raise TimeLimitError(
                    f"longer than {self.time_limit} s; standard error: {errors}"
                ) from None
            except BaseException:
                _kill(process)
                raise
            finally:
                _RUNNING.discard(process)
        if process.returncode < 0:
            raise CrashError(f"killed by signal {-process.returncode}; standard error: {errors}")
        if process.returncode:
            raise RuntimeError(f"exit status {process.returncode}; standard error: {errors}")
        return output


def check_time_limit(time_limit: Any) -> None:
    """ValueError for anything but None and positive seconds."""
    if time_limit is not None and not plain_number("time_limit", time_limit) > 0:
        raise ValueError(f"time_limit must be positive seconds, got {time_limit!r}")


def kill_programs() -> None:
    """End the programs that this process has started, with their children."""
    for process in list(_RUNNING):
        _kill(process)


def _kill(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself


def _check_template(template: Any, arguments: list[str]) -> None:
    places = {place for argument in arguments for place in _PLACE.findall(argument)}
    unknown = sorted(places - set(_PLACES))
    if unknown:
        known = ", ".join(f"{{{place}}}" for place in _PLACES)
        raise ValueError(f"the command has {{{unknown[0]}}}; the places are {known}")
    if len([place for place in places if place.startswith("out.")]) > 1:
        raise ValueError(f"the command must write one file of y, got {brief(template)}")
    if not arguments or not ({"in.json", "in.npy"} & places or {"theta", "u"} <= places):
        raise ValueError(
            "the command must be given theta and u: {theta} and {u}, {in.json} or {in.npy}, "
            f"got {brief(template)}"
        )


def _complete_path(argument: str) -> str:
    return os.path.abspath(argument) if argument and Path(argument).is_file() else argument


def _write_inputs(folder: Path, theta: np.ndarray, u: np.ndarray) -> dict[str, list[str]]:
    """What stands for each place; files are written."""
    (folder / "in.json").write_text(json.dumps({"theta": theta.tolist(), "u": u.tolist()}))
    np.save(folder / "in.npy", np.concatenate([theta, u]), allow_pickle=False)
    numbers = {"theta": theta, "u": u}
    files = {place: [place] for place in _PLACES if "." in place}
    return files | {name: [repr(float(x)) for x in value] for name, value in numbers.items()}


def _fill_places(argument: str, places: dict[str, list[str]]) -> list[str]:
    alone = _PLACE.fullmatch(argument)
    if alone:
        return places[alone[1]]
    return [_PLACE.sub(lambda place: ",".join(places[place[1]]), argument)]


def _read_y(folder: Path, out: str, output: str) -> np.ndarray:
    """y (d,) from the file that the program was to write, or from its standard output."""
    file = folder / out
    if out and not file.exists():
        raise RuntimeError(f"the program ended, but did not write the file {{{out}}}")
    if out == "out.npy":
        return np.load(file, allow_pickle=False).astype(float).ravel()
    if out == "out.json":
        return np.asarray(json.loads(file.read_text()), float).ravel()
    text = file.read_text() if out else output
    y = [float(word) for word in re.split(r"[\s,;]+", text.strip()) if word]
    if not y:
        where = f"wrote nothing to {{{out}}}" if out else "printed nothing"
        raise RuntimeError(f"the program {where}, where the numbers of y are expected")
    return np.array(y)
