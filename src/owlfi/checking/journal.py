"""Work that goes on where it stopped: a line of JSON for each finished piece."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from owlfi._tools.checks import as_path


class Journal:
    """Records by number, kept in a file, or in memory where there is none.

    file: where they are kept; those of an earlier call with the same facts are read.
    facts: what the records follow from.

    Raises ValueError for a file with other facts, or that is no journal, or cannot be written.
    """

    def __init__(self, file: Any, facts: dict[str, Any]):
        self.path = None if file is None else as_path("file", file)
        self.records: dict[int, dict[str, Any]] = {}
        if self.path is not None:
            try:
                self._open(self.path, json.loads(json.dumps(facts)))
            except OSError as error:
                raise ValueError(
                    f"file: {self.path} cannot be read and written ({error.strerror}); name one in "
                    "a folder that you may write to"
                ) from error

    def add(self, number: int, record: dict[str, Any]) -> None:
        """Keep one, at once."""
        self.records[number] = record
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"number": number, **record}) + "\n")

    def _open(self, path: Path, facts: dict[str, Any]) -> None:
        if not path.exists() or not path.stat().st_size:
            path.write_text(json.dumps(facts) + "\n", encoding="utf-8")
            return
        try:
            text = path.read_text(encoding="utf-8")
            whole, _, torn = text.rpartition("\n")  # a kill may have left half a line
            first, *lines = whole.split("\n")
            known = json.loads(first)
            records = [json.loads(line) for line in lines]
            self.records = {record.pop("number"): record for record in records}
        except (ValueError, AttributeError, KeyError) as error:
            raise ValueError(
                f"file {path} is no calibration of owlfi ({error}); name another file"
            ) from None
        _compare(path, known, facts)
        if torn:
            path.write_text(whole + "\n", encoding="utf-8")


def _compare(path: Path, known: Any, facts: dict[str, Any]) -> None:
    for name, now in facts.items():
        was = known.get(name) if isinstance(known, dict) else None
        if not _agree(was, now):
            raise ValueError(
                f"file {path} was made with {name} = {was!r}, and it is {now!r} now; give another "
                "file, or set it back"
            )


def _agree(was: Any, now: Any) -> bool:
    """Numbers but for rounding."""
    if isinstance(now, list) and isinstance(was, list) and len(was) == len(now):
        return bool(np.allclose(was, now, rtol=1e-6, equal_nan=True))
    return was == now
