"""Long work in steps: a progress bar that the user may have, and Ctrl-C that keeps what is done."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int

from owlfi._tools.checks import as_truth

Step = TypeVar("Step")

_BAR: ContextVar[Any] = ContextVar("bar", default=None)  # where steps deep inside are shown


def split_chunks(count: int, size: int) -> list[Int[np.ndarray, " n"]]:
    """The numbers from 0 to count - 1 in chunks of nearly the same length, at most `size`.

    >>> [chunk.tolist() for chunk in split_chunks(5, 2)]
    [[0, 1], [2, 3], [4]]
    """
    return np.array_split(np.arange(count), -(-count // size))


def collect(steps: Iterator[Step], total: int, description: str, *, show: bool) -> list[Step]:
    """The results of all steps, or of those finished when interrupted (at least one)."""
    from rich.console import Console
    from rich.progress import track

    done: list[Step] = []
    console, shown = Console(stderr=True), as_truth("progress", show)
    try:
        for step in track(steps, description, total, console=console, disable=not shown):
            done.append(step)
    except KeyboardInterrupt:
        if not done:
            raise
        console.print(f"Stopped after {len(done)} of {total} steps.")
    return done


@contextmanager
def show_bars(show: bool) -> Iterator[None]:
    """A place for the bars of `track_steps`, wherever it is called inside."""
    if not as_truth("progress", show) or _BAR.get() is not None:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        before = _BAR.set(bar)
        try:
            yield
        finally:
            _BAR.reset(before)


def track_steps(steps: Iterable[Step], total: int, description: str) -> Iterable[Step]:
    """The same steps, with a bar where `show_bars` has a place for it."""
    bar = _BAR.get()
    return steps if bar is None else bar.track(steps, total, description=description)


def begin_step(description: str) -> None:
    """Say what is done now, where `show_bars` has a place for it."""
    bar = _BAR.get()
    if bar is not None:
        for task in bar.task_ids:
            bar.update(task, completed=1, total=1)
        bar.add_task(description, total=None)
