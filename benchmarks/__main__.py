"""Run the benchmarks: all of them, or those named by topic or by topic.name.

python -m benchmarks [NAME ...] [--json PATH]
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    calibration,
    campaign,
    first_answer,
    kernel_sums,
    table1_repeat,
    testing,
    weights,
)
from benchmarks.report import Row, machine, page, table

_RESULTS = Path(__file__).with_name("RESULTS.md")
_TOPICS = {
    "calibration": calibration.BENCHMARKS,
    "campaign": campaign.BENCHMARKS,
    "first_answer": first_answer.BENCHMARKS,
    "kernel_sums": kernel_sums.BENCHMARKS,
    "table1_repeat": table1_repeat.BENCHMARKS,
    "testing": testing.BENCHMARKS,
    "weights": weights.BENCHMARKS,
}
_BUSY = 0.5
_NAMES = [f"{topic}.{name}" for topic, benchmarks in _TOPICS.items() for name in benchmarks]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = _choose(options.names)
    described = machine()
    _warn_if_busy(float(described["load before"]))
    topics = _run(chosen)
    if options.json:
        Path(options.json).write_text(_as_json(described, topics))
    if chosen == _NAMES:
        _RESULTS.write_text(page(described, topics))
    return 1 if any(_is_bad(row) for rows in topics.values() for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog=f"names: {', '.join(_NAMES)}"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a topic, or topic.name")
    parser.add_argument("--json", metavar="PATH", help="also write the results to this file")
    return parser


def _choose(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if not any(_selects(name, full) for full in _NAMES)]
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(_NAMES)}")
    return [full for full in _NAMES if not names or any(_selects(name, full) for name in names)]


def _selects(name: str, full: str) -> bool:
    return name in (full, full.split(".", 1)[0])


def _run(chosen: Sequence[str]) -> dict[str, list[Row]]:
    topics: dict[str, list[Row]] = {}
    for full in chosen:
        print(f"{full} ...", file=sys.stderr, flush=True)
        rows = _benchmark(full)()
        print(f"{table(rows)}\n", flush=True)
        topics.setdefault(full.split(".", 1)[0], []).extend(rows)
    return topics


def _benchmark(full: str) -> Callable[[], list[Row]]:
    topic, name = full.split(".")
    return _TOPICS[topic][name]


def _warn_if_busy(load: float) -> None:
    """Contenders that wait for all their threads suffer most from a shared core."""
    if load > _BUSY:
        print(f"the machine is busy (load {load}): do not trust the ratios", file=sys.stderr)


def _as_json(described: dict[str, str], topics: dict[str, list[Row]]) -> str:
    results = {topic: [_fields(row) for row in rows] for topic, rows in topics.items()}
    return json.dumps({"machine": described, "results": results}, indent=2) + "\n"


def _fields(row: Row) -> dict[str, object]:
    return {**dataclasses.asdict(row), "bar": str(row.bar or ""), "met": row.met}


def _is_bad(row: Row) -> bool:
    """A bar missed, or owlfi itself without a result; a missing peer is no fault."""
    return row.met is False or bool(row.failure and row.contender.startswith("owlfi"))


if __name__ == "__main__":
    sys.exit(main())
