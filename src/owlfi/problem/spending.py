"""What a method may spend: every call of the simulator is counted, and `max_calls=` ends the work.

Whatever runs a simulator asks here first. Once the calls are spent, work ends as it does by Ctrl-C,
with what is finished; a method that has nothing to show by then raises ValueError.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from owlfi._tools.checks import as_count, as_truth
from owlfi._tools.display import write_duration

Method = TypeVar("Method", bound=Callable[..., Any])

_WORTH_A_WORD = 60.0  # seconds
_SLOW = 5e-3  # seconds a row; below, rows together may take as long as one
_SLOW_COMPILED = 0.1  # the same of programs, for which busy threads make a call wait for tens of ms
_TOGETHER = 16  # rows on the host, whose time tells that of one however short it is
_FAR_OFF = 1.5  # times what was told
_USUAL_MORE = 1.5  # times what is expected: searches may take as much
_CALLS_AT_MOST = 2**62
_NOT_WORK = {"key", "max_calls", "progress"}  # arguments that change nothing of what is done


class Expected(NamedTuple):
    """The calls of a method, as far as they can be known beforehand."""

    needed: int
    """Without which it has no answer."""
    in_all: int
    """For everything that it was asked for."""
    rough: int = 0
    """In all, where the search must do without derivatives; 0 where that makes no difference."""


class OutOfCallsError(KeyboardInterrupt):
    """The calls are spent; whatever Ctrl-C would keep is kept."""


@dataclass
class Spending:
    """The calls of one method: how many it may make, expects, and has made."""

    method: str
    most: int | None
    expect: Callable[[], Expected]
    """Asked when options are known to be in order."""
    spent: int = 0
    kept_back: int = 0
    """For what comes later."""
    short: bool = False
    """Whether the calls did not do for everything."""
    seconds: float = 0.0
    """Of a row, once the user knows how long it will take."""
    plans: bool = False
    """Whether the method makes do with what it may make."""
    tight: bool = False
    """Whether it must, as everything that it was asked for would take more."""

    def take(self, calls: int) -> None:
        """Before so many rows are computed; OutOfCallsError where they are not left.

        The same before the first row, where all of them will not do for an answer.
        """
        if self.most is not None:
            too_few = self.spent == 0 and self.expect().needed > self.most
            if too_few or self.spent + calls > self.most - self.kept_back:
                self.short = True
                raise OutOfCallsError
        self.spent += calls

    def afford(self, count: int, each: int, beside: int) -> int:
        """How many of so many pieces of work can be paid; OutOfCallsError where none."""
        if self.most is None:
            return count
        paid = min(count, (self.most - self.kept_back - self.spent - beside) // each)
        self.short |= paid < count
        if paid < 1:
            raise OutOfCallsError
        return paid


_NOW: ContextVar[Spending | None] = ContextVar("spending", default=None)
_TIMES: ContextVar[int] = ContextVar("times", default=1)


@contextmanager
def repeat(times: int) -> Iterator[None]:
    """The method that runs here runs so many times: its cost is told for all of them, 0 to hush."""
    token = _TIMES.set(times)
    try:
        yield
    finally:
        _TIMES.reset(token)


@contextmanager
def keep_back(calls: int) -> Iterator[None]:
    """Work that leaves so many calls for what comes after it."""
    now = _NOW.get()
    if now is None:
        yield
        return
    now.kept_back += calls
    try:
        yield
    finally:
        now.kept_back -= calls


def is_limited() -> bool:
    """Whether calls must be counted one by one, and work goes on in small steps."""
    now = _NOW.get()
    return now is not None and now.most is not None


def plan_calls() -> None:
    """See whether the method that runs must make do with less than all work would take.

    Done once options are known to be in order; `is_tight` tells from then on.
    """
    now = _NOW.get()
    if now is not None and now.most is not None and now.plans:
        now.tight = now.most < _USUAL_MORE * now.expect().in_all


def is_tight() -> bool:
    """Whether work is planned for the calls that are left, as not all of it can be done."""
    now = _NOW.get()
    return now is not None and now.tight


def calls_left() -> float:
    """That may still be made, beside those kept back; infinite where they are not limited."""
    now = _NOW.get()
    if now is None or now.most is None:
        return math.inf
    return now.most - now.kept_back - now.spent


def calls_allowed() -> int:
    """The `max_calls` of the method that runs; 0 without."""
    now = _NOW.get()
    return 0 if now is None else now.most or 0


def tell_less() -> None:
    """That something which was asked for is left out, as calls do not do for it."""
    now = _NOW.get()
    if now is not None:
        now.short = True


def calls_made() -> int:
    """By the method that runs, where they are limited; else 0."""
    now = _NOW.get()
    return now.spent if now is not None and now.most is not None else 0


def take_calls(calls: int) -> None:
    """Before a simulator computes so many rows; OutOfCallsError where they are not left."""
    now = _NOW.get()
    if now is not None:
        now.take(calls)


def afford(count: int, each: int, beside: int = 0) -> int:
    """How many of so many pieces of work, of so many calls each, `max_calls=` leaves.

    beside: calls for something else. Raises OutOfCallsError where there is none.
    """
    now = _NOW.get()
    return count if now is None else now.afford(count, each, beside)


def is_short() -> int:
    """The `max_calls` of the method that runs, where they did not do for everything; else 0."""
    now = _NOW.get()
    return 0 if now is None or now.most is None or not now.short else now.most


def tell_cost(seconds: float, *, compiled: bool = False, together: int = 1) -> None:
    """On stderr, how long a method will take whose simulator takes so many seconds a row.

    together: how many rows were simulated to see it.
    """
    now = _NOW.get()
    least = _SLOW_COMPILED if compiled else _SLOW if together < _TOGETHER else 0.0
    if now is None or now.seconds or seconds < least:
        return
    now.seconds = seconds
    known = now.expect()
    _tell(now, known.in_all, rough=known.rough if _matters(known) else 0)


def tell_rough() -> None:
    """The same once it is known that searches do without derivatives, where that matters."""
    now = _NOW.get()
    if now is None or not now.seconds:
        return
    known = now.expect()
    if _matters(known):
        _tell(now, known.rough, "simulations are too rough in theta for derivatives: ")


def _matters(known: Expected) -> bool:
    """Whether it takes far more or fewer calls where simulations are rough."""
    return bool(known.rough) and not 1 / _FAR_OFF < known.rough / known.in_all < _FAR_OFF


def _tell(now: Spending, calls: int, why: str = "", rough: int = 0) -> None:
    """rough: the calls where simulations turn out to be so."""
    limit, each = "max_calls= sets a limit", write_duration(now.seconds)
    if now.most is not None and now.most < max(calls, rough):
        calls, rough = min(calls, now.most), min(rough, now.most)
        limit = f"more would be expected but for max_calls = {now.most:,}"
    counts = [_TIMES.get() * number for number in dict.fromkeys((calls, rough)) if number]
    if max(counts) * now.seconds > _WORTH_A_WORD:
        numbers = _join_rough(f"{number:,}" for number in counts)
        times = " or ".join(write_duration(number * now.seconds) for number in counts)
        print(
            f"{now.method}: {why}about {numbers} of the simulator are expected, at {each} each "
            f"{times} in all; {limit}",
            file=sys.stderr,
            flush=True,
        )


def _join_rough(counts: Iterable[str]) -> str:
    usual, *rough = counts
    if not rough:
        return f"{usual} calls"
    return f"{usual} calls (or {rough[0]}, if simulations are too rough in theta for derivatives)"


def limit_calls(
    expect: Callable[..., Expected], *, plans: bool = False
) -> Callable[[Method], Method]:
    """Give a method its option `max_calls`.

    expect: what it will spend, of the method's own arguments by name; **options takes all others
        that say what is done.
    plans: whether it makes do with fewer calls, by `plan_calls`.
    """

    def decorate(method: Method) -> Method:
        signature = inspect.signature(method)
        wanted = inspect.signature(expect).parameters
        asked = {*signature.parameters} - _NOT_WORK if "options" in wanted else {*wanted}

        @wraps(method)
        def run(*arguments: Any, **options: Any) -> Any:
            try:
                bound = signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(
                    f"{method.__name__}() {error}; help(owlfi.{method.__name__}) lists its options"
                ) from None
            bound.apply_defaults()
            most = bound.arguments["max_calls"]
            if most is not None:
                most = as_count("max_calls", most, most=_CALLS_AT_MOST)
            as_truth("progress", bound.arguments.get("progress", False))
            given = {name: bound.arguments[name] for name in asked}
            spending = Spending(method.__name__, most, lambda: expect(**given), plans=plans)
            token = _NOW.set(spending)
            try:
                return method(*arguments, **options)
            except OutOfCallsError:
                raise ValueError(_explain(spending)) from None
            finally:
                _NOW.reset(token)

        return cast(Method, run)

    return decorate


def _explain(spending: Spending) -> str:
    needed, in_all, _ = spending.expect()
    spent = f"; {spending.spent:,} are made, and the next step has more" if spending.spent else ""
    return (
        f"max_calls is {spending.most:,}, but {spending.method} needs about {needed:,} calls of "
        f"the simulator for an answer, and {in_all:,} for all that is asked{spent}; allow more, or "
        "take a rule with fewer points m"
    )
