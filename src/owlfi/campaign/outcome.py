"""How a run may end, which endings are tried again, and when two results are the same."""

from typing import NamedTuple

import numpy as np

DONE, EXCEPTION, NOT_FINITE = "done", "exception", "not finite"
SHAPE, TIMEOUT, CRASH = "wrong shape", "time-out", "crash"
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


def may_retry(state: str, attempts: int, retries: int) -> bool:
    """Whether a run that ended so after some attempts is made again."""
    return state in RETRIED and attempts <= retries


def is_same_y(a: bytes, b: bytes) -> bool:
    """Whether two results (d,), as doubles, are the same but for rounding."""
    x, y = np.frombuffer(a), np.frombuffer(b)
    return x.shape == y.shape and np.allclose(x, y, _REPEATED_DIGITS, _REPEATED_DIGITS)
