"""What every experiment has: a name, a loop of steps, a table, a picture and a file of numbers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.version import __version__

Record = dict[str, Any]
"""One finished step, as plain numbers, texts and lists."""


@dataclass(frozen=True)
class Plan:
    """How much to do: the repeats, and whether a coarse answer within a minute will do."""

    repeats: int
    quick: bool = False


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

    run: yields a record after each step, `steps` of them; the same key gives the same records.
    arrange: turns the records into what is written as `results` in the JSON file.
    """

    name: str
    shows: str
    takes: str
    repeats: int
    quick_repeats: int
    steps: Callable[[Plan], int]
    run: Callable[[Key[Array, ""], Plan], Iterator[Record]]
    table: Callable[[list[Record]], Table]
    picture: Callable[[list[Record]], Figure]
    arrange: Callable[[list[Record]], Any] = list

    def plan(self, repeats: int | None = None, quick: bool = False) -> Plan:
        """The repeats asked for, or the usual number."""
        usual = self.quick_repeats if quick else self.repeats
        return Plan(usual if repeats is None else repeats, quick)

    def write(self, out: Path, seed: int, plan: Plan, records: list[Record]) -> list[Path]:
        """Write OUT/NAME.json and OUT/NAME.png of what is finished."""
        out.mkdir(parents=True, exist_ok=True)
        numbers, drawing = out / f"{self.name}.json", out / f"{self.name}.png"
        about = {"experiment": self.name, "owlfi": __version__, "seed": seed}
        about |= {"repeats": plan.repeats, "quick": plan.quick}
        about |= {"complete": len(records) == self.steps(plan)}
        content = {**about, "results": self.arrange(records)}
        numbers.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        self.picture(records).savefig(drawing, dpi=200)
        return [numbers, drawing]
