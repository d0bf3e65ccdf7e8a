"""How a run ended: the answer of a worker, and what a store keeps."""

from typing import NamedTuple

import numpy as np

DONE, EXCEPTION, NOT_FINITE, SHAPE, TIMEOUT, CRASH = (
    "done",
    "exception",
    "not finite",
    "wrong shape",
    "time-out",
    "crash",
)
STATES = (DONE, EXCEPTION, NOT_FINITE, SHAPE, TIMEOUT, CRASH)
RETRIED = (TIMEOUT, CRASH)  # y is determined by theta and u: the others would come again
_REPEATED_DIGITS = 1e-9


class Outcome(NamedTuple):
    """How a run ended; y holds doubles where it is done."""

    state: str
    y: bytes | None = None
    seconds: float | None = None
    host: str = ""
    error: str = ""


def is_same_y(a: bytes, b: bytes) -> bool:
    """Whether two results (d,), as doubles, are the same but for rounding."""
    x, y = np.frombuffer(a), np.frombuffer(b)
    return x.shape == y.shape and np.allclose(x, y, _REPEATED_DIGITS, _REPEATED_DIGITS)


class TimeLimitError(Exception):
    """A run that took longer than its time limit."""


class CrashError(Exception):
    """A run whose process was killed."""
