"""What is drawn in a run, and where in the source."""

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jax.extend.core import get_opaque_trace_state

from owlfi.problem.recorded_noise.errors import NotFromNoiseError

_METHODS = tuple(str(Path(__file__).with_name(name)) for name in ("draws.py", "generator.py"))
_MOST_NOTED = 10**5  # draws of a run; looking at each takes longer than drawing it
_LIBRARIES = ("numpy", "scipy", "pandas", "jax", "equinox", "beartype", "owlfi")


class Draw(NamedTuple):
    """Draws of one line that follow each other."""

    method: str
    kind: str
    number: int
    where: str
    """File and line."""


class Log:
    """Notes the draws of one run.

    JAX traces the body of a loop once: what is drawn there would be the same at every step.
    """

    def __init__(self) -> None:
        self._draws: list[Draw] = []
        self._left = _MOST_NOTED
        self._more = 0
        self._outside = _trace_state()

    @property
    def draws(self) -> tuple[Draw, ...]:
        """So far; those that were counted alone are taken for more of the last."""
        if not self._more:
            return tuple(self._draws)
        last = self._draws[-1]
        return (*self._draws[:-1], last._replace(number=last.number + self._more))

    def note(self, kind: str, count: int) -> None:
        """Raises NotFromNoiseError inside loops and compiled functions of JAX."""
        if self._left <= 0:  # far beyond u: counted alone
            self._more += count
            return
        self._left -= count
        method, where = _find_site()
        if _trace_state() != self._outside:
            raise NotFromNoiseError(
                f"rng.{method} is called inside jit, scan, vmap or the like ({where}), which JAX "
                "traces once, so that every step would have the same numbers; draw them before, "
                f"z = rng.{method}(size=(steps, ...)), and let the loop run over z"
            )
        last = self._draws[-1] if self._draws else None
        if last is not None and (last.method, last.kind, last.where) == (method, kind, where):
            self._draws[-1] = last._replace(number=last.number + count)
        else:
            self._draws.append(Draw(method, kind, count, where))


def _trace_state() -> Any:
    return get_opaque_trace_state(convention="flax")


def _find_site() -> tuple[str, str]:
    """The method that was called, and the line outside of libraries that called it."""
    frame, method = sys._getframe(2), ""
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_LIBRARIES):
        if frame.f_code.co_filename in _METHODS:
            method = frame.f_code.co_name
        frame = frame.f_back
    return method, _name_line(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=1024)
def _name_line(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}"
