"""What every experiment has: a name, a loop of steps, a table, a picture and a file of numbers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure

from owlfi.version import __version__

Record = dict[str, Any]
"""One finished step, as plain numbers, texts and lists."""
Choice = TypeVar("Choice")
_STYLE: dict[Any, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Plan:
    """How much to do: the repeats, and whether a coarse answer within a minute will do."""

    repeats: int
    quick: bool = False

    def choose(self, usual: Choice, quick: Choice) -> Choice:
        """What a coarse answer takes, or the usual."""
        return quick if self.quick else usual

    def chunks(self, size: int) -> list[range]:
        """The numbers of the repeats, `size` a step: more repeats leave full steps as they are."""
        starts = range(0, self.repeats, size)
        return [range(start, min(start + size, self.repeats)) for start in starts]


@dataclass(frozen=True)
class Table:
    """Headings and rows of text, and what to know when reading them."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure that can be made again.

    repeats: usually, and for a coarse answer.
    run: yields a record after each step, `steps` of them; the same key gives the same records.
    arrange: turns the records into what is written as `results` in the JSON file.
    resumable: whether `run` takes, after key and plan, how many steps to leave out. For hours of
        work: what is finished is then kept in OUT/NAME.partial.jsonl after each step, and a later
        call with the same seed goes on there.
    """

    name: str
    shows: str
    takes: str
    repeats: tuple[int, int]
    steps: Callable[[Plan], int]
    run: Callable[..., Iterator[Record]]
    table: Callable[[list[Record]], Table]
    picture: Callable[[list[Record]], Figure]
    arrange: Callable[[list[Record]], Any] = list
    resumable: bool = False

    def plan(self, repeats: int | None = None, quick: bool = False) -> Plan:
        """The repeats asked for, or the usual number."""
        return Plan(self.repeats[quick] if repeats is None else repeats, quick)

    def read_kept(self, out: Path, seed: int, plan: Plan) -> list[Record]:
        """The finished steps of earlier calls with the same seed and version."""
        path = self._partial_path(out)
        if not self.resumable or not path.exists():
            return []
        lines = [_parse(line) for line in path.read_text(encoding="utf-8").splitlines()]
        whole = [line for line in lines if line is not None]
        if not whole or whole[0] != _about(seed, plan):
            path.unlink()
            return []
        if len(whole) < len(lines):  # the next step begins a line of its own
            path.write_text("".join(json.dumps(line) + "\n" for line in whole), encoding="utf-8")
        return whole[1 : 1 + self.steps(plan)]

    def keep(self, out: Path, seed: int, plan: Plan, record: Record) -> None:
        """Add a finished step to those of earlier calls."""
        path = self._partial_path(out)
        out.mkdir(parents=True, exist_ok=True)
        lines = [record] if path.exists() else [_about(seed, plan), record]
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def _partial_path(self, out: Path) -> Path:
        return out / f"{self.name}.partial.jsonl"

    def write(self, out: Path, seed: int, plan: Plan, records: list[Record]) -> list[Path]:
        """Write OUT/NAME.json and OUT/NAME.png of what is finished."""
        out.mkdir(parents=True, exist_ok=True)
        numbers, drawing = out / f"{self.name}.json", out / f"{self.name}.png"
        about = {"experiment": self.name, "owlfi": __version__, "seed": seed}
        about |= {"repeats": plan.repeats, "quick": plan.quick}
        about |= {"complete": len(records) == self.steps(plan)}
        content = {**about, "results": self.arrange(records)}
        numbers.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        with mpl.rc_context(_STYLE):
            self.picture(records).savefig(drawing, dpi=200)
        return [numbers, drawing]


def group(records: list[Record], by: str) -> dict[Any, list[Record]]:
    """The records of each value of a field, in the order in which the values come."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(record[by], []).append(record)
    return groups


def _about(seed: int, plan: Plan) -> Record:
    """What the steps depend on; not the repeats, which may be extended."""
    return {"owlfi": __version__, "seed": seed, "quick": plan.quick}


def _parse(line: str) -> Record | None:
    """A line, unless it was cut off."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
