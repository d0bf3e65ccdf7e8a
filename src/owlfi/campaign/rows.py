"""One row of a simulator, wherever it runs: its y, or how it failed."""

import socket
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from owlfi._tools.forks import refuse_after_fork
from owlfi.campaign.outcome import CRASH, DONE, EXCEPTION, NOT_FINITE, SHAPE, TIMEOUT, Outcome
from owlfi.campaign.programs import MOST_OUTPUT, CrashError, TimeLimitError
from owlfi.campaign.recipe import load_recipe

_LONGEST_ERROR = 4000


def run_row(recipe: str, theta: bytes, u: bytes) -> Outcome:
    """Run the simulator of a recipe at one theta (p,) and one u (s,), as a batch of one row.

    Raises ValueError only where the recipe itself cannot be loaded here, RuntimeError where this
    process was forked and would hang: neither is a failure of the run.
    """
    refuse_after_fork()
    function = row_function(recipe)
    start = time.perf_counter()
    state, y, error = _attempt(function, np.frombuffer(theta).copy(), np.frombuffer(u)[None].copy())
    return Outcome(state, y, time.perf_counter() - start, socket.gethostname(), error)


@lru_cache(maxsize=8)
def row_function(recipe: str) -> Callable[[Any, Any], Any]:
    """The generator, compiled where it is JAX, so that each row is computed at one fixed shape."""
    return load_recipe(recipe).row_function()


def _attempt(
    function: Callable[[Any, Any], Any], theta: np.ndarray, u: np.ndarray
) -> tuple[str, bytes | None, str]:
    try:
        y = np.asarray(function(theta, u), float)
    except TimeLimitError as error:
        return TIMEOUT, None, _shorten(str(error))
    except CrashError as error:
        return CRASH, None, _shorten(str(error))
    except Exception:
        return EXCEPTION, None, _shorten(traceback.format_exc())
    if y.shape not in ((1,), (1, y.size)) or y.size == 0:
        return SHAPE, None, f"y must have shape (1, d) for one row of u, got {y.shape}"
    if y.nbytes > MOST_OUTPUT:
        return SHAPE, None, f"y must have at most {MOST_OUTPUT // 8:,} columns, got {y.size:,}"
    if not np.isfinite(y).all():
        return NOT_FINITE, None, f"y = {y.ravel()}"
    return DONE, y.tobytes(), ""


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"… {text[-_LONGEST_ERROR:]}"
