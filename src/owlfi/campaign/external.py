"""Programs in any language as generators: a command, numbers in, numbers out."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from owlfi._tools.checks import as_names, brief, plain_number
from owlfi.campaign.programs import MOST_OUTPUT, own_folder, run_program

_PLACES = ("theta", "u", "seed", "in.json", "in.npy", "out.json", "out.npy", "out.txt")
_PLACE = re.compile(r"\{([a-z.]*)\}")


@dataclass(frozen=True, init=False)
class Command:
    """A program that simulates one row, as a generator for `Simulator`.

    template: the command, as text or a list of arguments; it goes to no shell. Places in it:
        {theta}, {u}: the numbers, an argument each; inside a longer argument with commas between.
        {seed}: in the place of u, for programs that only take a seed: the measure is `Seed()`.
        {in.json}: a file {"theta": [...], "u": [...]}; {in.npy}: theta, then u, in one array.
        {out.json}, {out.npy}, {out.txt}: a file that the program writes y to; without one, all
        numbers of its standard output are y.
    time_limit: seconds after which the program and its children are killed.

    Each run has an empty working directory of its own. A run ends with its program: children and
    daemons that it leaves are killed, and the directory is removed. Files of the command that exist
    when it is made are named in full. A program that ends with another status than 0, or writes
    more than 64 MB, has failed, and its standard error is kept.

    Raises ValueError for an empty command, one without theta and u, and places it does not know.

    >>> Command("echo {theta} {u}")(np.array([1.5]), np.array([[2.0], [3.0]]))
    array([[1.5, 2. ],
           [1.5, 3. ]])
    """

    arguments: tuple[str, ...]
    time_limit: float | None

    def __init__(self, template: str | Iterable[str], *, time_limit: float | None = None):
        words = shlex.split(template) if isinstance(template, str) else template
        arguments = list(as_names("template", words))
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
    def takes_seed(self) -> bool:
        """Whether all that it takes of its noise is a seed."""
        return "seed" in _find_places(self.arguments)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the command names, the program itself among them."""
        return tuple(argument for argument in self.arguments if Path(argument).is_file())

    def __call__(self, theta: Any, u: Any) -> np.ndarray:
        """y (m, d), a run of the program for each row of u (m, s)."""
        theta, u = np.asarray(theta), np.asarray(u)
        return np.stack([self._run_row(theta, row) for row in u])

    def _run_row(self, theta: np.ndarray, u: np.ndarray) -> np.ndarray:
        with own_folder() as folder:
            places = _write_inputs(folder, theta, u)
            if self.takes_seed:
                places["seed"] = [_write_seed(u)]
            arguments = [part for given in self.arguments for part in _fill_places(given, places)]
            output = run_program(arguments, folder, self.time_limit)
            return _read_y(folder, self._out_file(), output)

    def _out_file(self) -> str:
        """The file that the program writes y to; empty for its standard output."""
        found = (place for place in _find_places(self.arguments) if place.startswith("out."))
        return next(found, "")


def check_time_limit(time_limit: Any) -> None:
    """ValueError for anything but None and positive seconds."""
    if time_limit is not None and not plain_number("time_limit", time_limit) > 0:
        raise ValueError(f"time_limit must be positive seconds, got {brief(time_limit)}")


def _check_template(template: Any, arguments: list[str]) -> None:
    places = _find_places(arguments)
    unknown = sorted(places - set(_PLACES))
    if unknown:
        known = ", ".join(f"{{{place}}}" for place in _PLACES)
        raise ValueError(f"the command has {{{unknown[0]}}}; the places are {known}")
    if len([place for place in places if place.startswith("out.")]) > 1:
        raise ValueError(f"the command must write one file of y, got {brief(template)}")
    theta_and_u = {"in.json", "in.npy"} & places or ("theta" in places and {"u", "seed"} & places)
    if not arguments or not theta_and_u:
        raise ValueError(
            "the command must be given theta and u: {theta} and {u} (or {seed}), {in.json} or "
            f"{{in.npy}}, got {brief(template)}"
        )


def _find_places(arguments: Iterable[str]) -> set[str]:
    return {place for argument in arguments for place in _PLACE.findall(argument)}


def _complete_path(argument: str) -> str:
    return os.path.abspath(argument) if argument and Path(argument).is_file() else argument


def _write_inputs(folder: Path, theta: np.ndarray, u: np.ndarray) -> dict[str, list[str]]:
    """What stands for each place; files are written."""
    (folder / "in.json").write_text(json.dumps({"theta": theta.tolist(), "u": u.tolist()}))
    np.save(folder / "in.npy", np.concatenate([theta, u]), allow_pickle=False)
    numbers = {"theta": theta, "u": u}
    files = {place: [place] for place in _PLACES if "." in place}
    return files | {name: [repr(float(x)) for x in value] for name, value in numbers.items()}


def _write_seed(u: np.ndarray) -> str:
    if u.shape != (1,) or u[0] < 0 or u[0] != np.floor(u[0]):
        raise ValueError(f"the command takes a {{seed}}, but u is {u}; the measure is owlfi.Seed()")
    return str(int(u[0]))


def _fill_places(argument: str, places: dict[str, list[str]]) -> list[str]:
    alone = _PLACE.fullmatch(argument)
    if alone:
        return places[alone[1]]
    return [_PLACE.sub(lambda place: ",".join(places[place[1]]), argument)]


def _read_y(folder: Path, out: str, output: str) -> np.ndarray:
    """y (d,) from the file that the program was to write, or from its standard output."""
    file = folder / out
    if out and not file.is_file():  # a pipe or a device would never end
        raise RuntimeError(
            f"the program ended, but did not write the file {{{out}}}; let it "
            "write y there, or leave that out and print y"
        )
    if out and file.stat().st_size > MOST_OUTPUT:
        raise RuntimeError(
            f"the program wrote more than {MOST_OUTPUT:,} bytes to {{{out}}}; write y alone"
        )
    if out == "out.npy":
        return np.load(file, allow_pickle=False).astype(float).ravel()
    if out == "out.json":
        return np.asarray(json.loads(file.read_text()), float).ravel()
    text = file.read_text() if out else output
    y = [float(word) for word in re.split(r"[\s,;]+", text.strip()) if word]
    if not y:
        where = f"wrote nothing to {{{out}}}" if out else "printed nothing"
        raise RuntimeError(
            f"the program {where}, where the numbers of y are expected; print "
            "them with spaces between"
        )
    return np.array(y)
