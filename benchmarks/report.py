"""Rows of results, their bars, and the page they are written to."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from benchmarks.timing import Failure, Memory, Race

_LIBRARIES = ("owlfi", "jax", "jaxlib", "numpy", "scipy", "torch", "pykeops")
_HEADINGS = ("what", "contender", "measured", "ratio", "bar", "met")


@dataclass(frozen=True)
class Bar:
    """What a number must reach: a ratio at least `limit`, or a measurement below it."""

    limit: float
    unit: str = "x"
    at_least: bool = True

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value < self.limit

    def __str__(self) -> str:
        space = "" if self.unit == "x" else " "
        return f"{'at least' if self.at_least else 'below'} {self.limit:g}{space}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One measurement. `compared` says which way the ratio goes, e.g. "owlfi / this"."""

    what: str
    contender: str
    value: float | None = None
    unit: str = ""
    ratio: float | None = None
    compared: str = ""
    bar: Bar | None = None
    failure: str = ""

    @property
    def met(self) -> bool | None:
        """None where there is no bar, or nothing was measured to hold against it."""
        judged = self.ratio if self.bar and self.bar.unit == "x" else self.value
        return self.bar.met_by(judged) if self.bar and judged is not None else None

    def cells(self) -> tuple[str, ...]:
        measured = self.failure or f"{significant(self.value)} {self.unit}"
        ratio = "" if self.ratio is None else f"{significant(self.ratio)} ({self.compared})"
        return self.what, self.contender, measured, ratio, str(self.bar or ""), self._verdict()

    def _verdict(self) -> str:
        if self.bar is None:
            return ""
        return {True: "yes", False: "NO", None: "not measured"}[self.met]


def significant(value: float | None) -> str:
    """Three significant digits, without an exponent."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def rate_row(what: str, race: Race, name: str, unit: str) -> Row:
    """The best rate of one contender."""
    if name not in race.seconds:
        return Row(what, name, failure=race.failures[name].reason)
    return Row(what, name, 1 / race.best_time(name), unit)


def time_row(what: str, race: Race, name: str, bar: Bar | None = None) -> Row:
    """The best time of one contender."""
    if name not in race.seconds:
        return Row(what, name, bar=bar, failure=race.failures[name].reason)
    return Row(what, name, 1e3 * race.best_time(name), "ms", bar=bar)


def with_ratio(row: Row, ratio: float | None, compared: str, bar: Bar | None = None) -> Row:
    """The same row with a ratio, held against a bar."""
    return replace(row, ratio=ratio, compared=compared, bar=bar)


def peer_row(row: Row, race: Race, own: str, bar: Bar | None = None) -> Row:
    """The row of a peer with how many times faster owlfi's own contender is."""
    return with_ratio(row, race.ratio(own, row.contender), "speed: owlfi / this", bar)


def memory_row(what: str, contender: str, memory: Memory | Failure, bar: Bar | None = None) -> Row:
    if isinstance(memory, Failure):
        return Row(what, contender, bar=bar, failure=memory.reason)
    return Row(what, contender, memory.megabytes, "MB", bar=bar)


def table(rows: Iterable[Row]) -> str:
    """A Markdown table with aligned columns."""
    cells = [_HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    lines = [_line(line, widths) for line in cells]
    return "\n".join([lines[0], _line(["-" * width for width in widths], widths), *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"| {' | '.join(c.ljust(w) for c, w in zip(cells, widths, strict=True))} |"


def machine(others: Sequence[str] = ()) -> dict[str, str]:
    """What the numbers depend on: the processor and the versions of the libraries."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{library: _version(library) for library in (*_LIBRARIES, *others)},
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


def page(described: dict[str, str], topics: dict[str, list[Row]]) -> str:
    """The whole of RESULTS.md."""
    facts = "\n".join(f"- {key}: {value}" for key, value in described.items())
    tables = "\n\n".join(f"## {name}\n\n{table(rows)}" for name, rows in topics.items())
    return f"{_PREAMBLE}\n\n{facts}\n\n{tables}\n"


_PREAMBLE = """\
# Benchmarks

Written by `python -m benchmarks`. Double precision throughout. Contenders run interleaved, each
in a process of its own, after a warm-up: compilation is left out of every time. Times and rates
are the best of all rounds; a ratio is the median of the ratios of the rounds. Memory is the peak
of a fresh process during its first call, compilation included, above what it held just before.
Under first_answer all is included: processes start, import and compile."""
