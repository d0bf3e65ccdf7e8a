"""Which fits are made, in which order, and how one is made."""

import contextlib
import io
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmarks.compare.peer import BUDGETS, Peer
from benchmarks.compare.records import Record, Step
from benchmarks.compare.tasks import TASKS, Task

ROUNDS = 50
_QUICK_BUDGETS, _QUICK_TASKS = BUDGETS[:2], 1


def list_steps(
    peers: Sequence[Peer],
    budgets: Sequence[int],
    quick: bool = False,
    most: int = ROUNDS,
    tasks: Sequence[Task] = TASKS,
) -> Iterator[Step]:
    """Round after round, so that whatever is finished is spread over all cells.

    Peers of few data sets take part in some of the rounds, with the first data sets of the others.
    """
    wanted = [0, *(b for b in budgets if not quick or b in _QUICK_BUDGETS)]
    rounds, tasks = (range(1), tasks[:_QUICK_TASKS]) if quick else (range(most), tasks)
    for number, task, budget, spoilt, peer in itertools.product(
        rounds, tasks, wanted, (False, True), peers
    ):
        pause = ROUNDS // peer.data_sets
        if budget in peer.budgets and number % pause == 0 and peer.suits(task, spoilt):
            yield Step(task.name, spoilt, number // pause, peer.name, budget)


def stop_after(minutes: float, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps that begin in time."""
    ends = time.monotonic() + 60 * minutes
    return itertools.takewhile(lambda _: time.monotonic() < ends, steps)


def fit(peer: Peer, step: Step) -> Record:
    """One answer with the seconds of the processor, or why there is none."""
    (task,) = (task for task in TASKS if task.name == step.task)
    x, begin = task.data(step.number, step.spoilt), time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # libraries tell how they are getting on
            answer = peer.infer(task, x, step.budget, step.number)
    except Exception as error:  # a fit that fails is a result
        failure = f"{type(error).__name__}: {error}"[:300]
        return _tell(step, {"failure": failure, "seconds": time.process_time() - begin})
    seconds = time.process_time() - begin
    if seconds < answer.training:  # another data set has paid for it
        seconds += answer.training
    places = {name: np.asarray(getattr(answer, name)).tolist() for name in ("theta", "low", "high")}
    cost = {"calls": answer.calls, "derivatives": answer.derivatives, "seconds": seconds}
    return _tell(step, places | cost)


def _tell(step: Step, record: Record) -> Record:
    kind = "10% strays" if step.spoilt else "clean"
    where = f"{step.task}, {kind}, {step.number}: {step.peer}, {step.budget:,} calls"
    print(f"{where}: {record['seconds']:.1f} s {record.get('failure', '')}", file=sys.stderr)
    return record
