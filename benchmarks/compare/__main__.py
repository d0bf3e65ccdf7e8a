"""Every peer on the same data sets, within the same numbers of simulated rows.

python -m benchmarks.compare [--quick] [--budgets N ...] [--peers NAME ...] [--minutes M]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.cells import gather
from benchmarks.compare.peer import BUDGETS
from benchmarks.compare.peers import PEERS
from benchmarks.compare.plan import ROUNDS, fit, list_steps, stop_after
from benchmarks.compare.records import Records, resume
from benchmarks.compare.report import write_results
from benchmarks.compare.tasks import SEED, TASKS
from owlfi.version import __version__

_BENCHMARKS = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    faults = {peer.name: fault for peer in PEERS if (fault := peer.find_fault())}
    able = {peer.name: peer for peer in PEERS if peer.name not in faults}
    chosen = [peer for name, peer in able.items() if any(part in name for part in options.peers)]
    records = Records(options.out / "records.jsonl", {"owlfi": __version__, "seed": SEED})
    steps = list(list_steps(chosen, options.budgets, options.quick, options.rounds))
    try:
        todo = stop_after(options.minutes, steps)
        resume(records, todo, lambda step: fit(able[step.peer], step))
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
    cells = gather(TASKS, [peer.name for peer in PEERS], records.all)
    written = write_results(options.out if options.quick else _BENCHMARKS, cells, PEERS, faults)
    left = sum(step not in records.done for step in steps)
    print(f"{len(records.all):,} fits are made, {left:,} are left: {', '.join(map(str, written))}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare")
    parser.add_argument(
        "--quick", action="store_true", help="one data set of g-and-k, to 1e4 calls"
    )
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS), metavar="N")
    parser.add_argument("--peers", nargs="+", default=[""], metavar="NAME", help="parts of names")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="data sets a cell, at most")
    parser.add_argument("--minutes", type=float, default=180.0, help="after which to stop")
    parser.add_argument("--out", type=Path, default=Path("out/compare"), help="where fits are kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())
