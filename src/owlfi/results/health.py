"""What is wrong with a result: kept in its `warnings`, and said at the line that asked for it."""

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from owlfi.problem.spending import is_short
from owlfi.results.result import Result

Kind = TypeVar("Kind", bound=Result)

_BETWEEN = ("owlfi", "jaxtyping", "beartype")  # no lines of users; the others check annotations
_ROUNDED = 0.01  # shares below


class HealthWarning(UserWarning):
    """A result that should not be taken as it is: why, and what to do.

    Methods issue one for each sentence of `result.warnings`, at the line that called them. For
    errors instead: `warnings.simplefilter("error", owlfi.HealthWarning)`.

    >>> issubclass(HealthWarning, UserWarning)
    True
    """


def announce(result: Kind) -> Kind:
    """The result itself, its warnings issued where the user called: the last step of a method."""
    issue(result.warnings)
    return result


def issue(sentences: Iterable[str]) -> None:
    """Warn of each at the nearest line outside of the library."""
    level = _count_calls(sys._getframe())
    for sentence in sentences:
        warnings.warn(sentence, HealthWarning, stacklevel=level)


@contextmanager
def keep_quiet() -> Iterator[None]:
    """Issue nothing, for those who write out the warnings of a result themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        yield


def tell_interruption(done: int, total: int, what: str) -> tuple[str, ...]:
    """Of work that Ctrl-C or `max_calls=` has ended; nothing where all is done."""
    if done >= total:
        return ()
    allowed = is_short()
    why = f"max_calls = {allowed:,} do not do" if allowed else "Interrupted"
    return (
        f"{why}: {done:,} of {total:,} {what} are finished, and the result is of these alone; "
        f"{'allow more' if allowed else 'call it again'} for all of them",
    )


def tell_failed_rows(share: float) -> tuple[str, ...]:
    """Of simulations at the estimate that are left out; nothing where none is."""
    if not share > 0:
        return ()
    many = f"{share:.0%}" if share >= _ROUNDED else "less than 1%"
    return (
        f"{many} of the simulations failed at the estimate (NaN or an error) and are left out, as "
        "if their data could not have been observed; mend the generator",
    )


def _count_calls(frame: FrameType) -> int:
    """From the line of a user down to this frame, the frame included."""
    level = 1
    while frame.f_back is not None and _is_between(frame):
        level, frame = level + 1, frame.f_back
    return level


def _is_between(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN
