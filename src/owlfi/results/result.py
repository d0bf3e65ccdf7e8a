"""What estimates, posteriors and tests share."""

import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from owlfi._tools.checks import as_path, brief
from owlfi._tools.display import count, html_table, html_with_lines, write_facts
from owlfi._tools.fields import read_fields
from owlfi.results.files import save
from owlfi.results.tables import align


class Result(abc.ABC):
    """Numbers of named parameters that can be read, shown and kept."""

    names: tuple[str, ...]
    calls: int
    about: dict[str, Any]
    warnings: tuple[str, ...]
    """What is wrong with it, and what to do, in sentences; empty where all is well."""
    known_together: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Fields of which a file has all or none."""
    never_empty: ClassVar[tuple[str, ...]] = ()
    """Arrays without which there is nothing to show."""

    def __post_init__(self) -> None:
        """Raises ValueError for fields that are not what they should be."""
        for name, value in read_fields(self).items():
            object.__setattr__(self, name, value)
        if len({*self.names}) < len(self.names):
            raise ValueError(f"names must differ from each other, got {brief(self.names)}")

    @abc.abstractmethod
    def __getitem__(self, name: str) -> Any:
        """What is known of one parameter, by its name; KeyError for any other name."""

    @abc.abstractmethod
    def _facts(self) -> list[str]:
        """The numbers that are worth seeing at the prompt."""

    @abc.abstractmethod
    def _table(self) -> list[list[str]]:
        """A table of the numbers for notebooks, the headings first."""

    def __iter__(self) -> Iterator[str]:
        """The names of the parameters."""
        return iter(self.names)

    def keys(self) -> tuple[str, ...]:
        """The names of the parameters, so that dict(result) has what is known of each."""
        return self.names

    def summary(self) -> str:
        """The numbers in a table, and what is wrong with them."""
        return "\n".join([*self._lines(), *self._alarms()])

    def __repr__(self) -> str:
        return write_facts(self, [*self._method(), *self._headlines()])

    def _headlines(self) -> list[str]:
        """What is found, as short as can be."""
        return [*self._facts(), *self._notes(), self._cost(), *self._count_warnings()]

    def _repr_html_(self) -> str:
        caption = [type(self).__name__, *self._method(), *self._notes(), self._cost()]
        headings, *rows = self._table()
        table = html_table("; ".join(caption), headings, rows)
        return html_with_lines(table, self._alarms()) if self.warnings else table

    def _lines(self) -> list[str]:
        """What a summary says of the numbers."""
        return [align(self._table())]

    def _alarms(self) -> list[str]:
        return [f"Warning: {sentence.rstrip('.')}." for sentence in self.warnings]

    def _count_warnings(self) -> list[str]:
        return [count(len(self.warnings), "warning")] if self.warnings else []

    def _notes(self) -> list[str]:
        """What to know of the numbers."""
        return []

    def _method(self) -> list[str]:
        return [self.about["method"]] if "method" in self.about else []

    def _cost(self) -> str:
        return count(self.calls, "simulator call")

    def _place(self, name: str) -> int:
        """Where a parameter stands among the others."""
        if not isinstance(name, str) or name not in self.names:
            asked = name if isinstance(name, str) else brief(name)
            known = f"the result has {', '.join(self.names)}" if self.names else "there is none"
            raise KeyError(f"there is no parameter {asked}; {known}")
        return self.names.index(name)

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return save(self, as_path("path", path))
