"""Finished fits in a file, so that a run that was killed goes on where it ended."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

Record = dict[str, Any]


class Step(NamedTuple):
    """One fit: which data set, by whom, for how many calls."""

    task: str
    spoilt: bool
    number: int
    peer: str
    budget: int

    @classmethod
    def of(cls, record: Record) -> "Step":
        return cls(*(record[field] for field in cls._fields))


class Records:
    """The fits of one seed and version in a file of lines, each written when it is finished."""

    def __init__(self, path: Path, about: Record) -> None:
        self.path, self.about = path, about
        self.all = self._read()
        self.done = {Step.of(record) for record in self.all}

    def _read(self) -> list[Record]:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write([self.about])
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        parsed = [_parse(line) for line in lines]
        whole = [line for line in parsed if line is not None]
        if not whole or whole[0] != self.about:
            raise ValueError(
                f"{self.path} holds fits of {whole[0] if whole else 'nothing'}, not of "
                f"{self.about}; move it away, or give another --out"
            )
        if len(whole) < len(lines):  # the next fit begins a line of its own
            self._write(whole)
        return whole[1:]

    def _write(self, lines: Iterable[Record]) -> None:
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def add(self, record: Record) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.all.append(record)
        self.done.add(Step.of(record))


def resume(records: Records, steps: Iterable[Step], fit: Callable[[Step], Record]) -> None:
    """Make the fits that are not there yet."""
    for step in steps:
        if step not in records.done:
            records.add(step._asdict() | fit(step))


def _parse(line: str) -> Record | None:
    """A line, unless it was cut off."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
