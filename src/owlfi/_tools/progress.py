"""Long work in steps: a progress bar that the user may have, and Ctrl-C that keeps what is done."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from jaxtyping import Int

Step = TypeVar("Step")


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
    console = Console(stderr=True)
    try:
        for step in track(steps, description, total, console=console, disable=not show):
            done.append(step)
    except KeyboardInterrupt:
        if not done:
            raise
        console.print(f"Stopped after {len(done)} of {total} steps.")
    return done
