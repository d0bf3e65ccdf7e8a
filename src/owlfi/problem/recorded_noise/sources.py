"""Where a simulator takes its random numbers from, and how it is given those of a tape."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from owlfi._tools.checks import as_kind, brief
from owlfi.problem.recorded_noise.generator import RecordingGenerator, RecordingState
from owlfi.problem.recorded_noise.jax_keys import run_with_key
from owlfi.problem.recorded_noise.rows import as_row
from owlfi.problem.recorded_noise.tape import AnyTape

Function = Callable[..., Any]
_DEEPEST = 5  # attributes of attributes, entries of lists, that may keep a generator
_GENERATORS = (np.random.Generator, np.random.RandomState)
_RANDOM = ("rng", "prng", "generator", "random", "rand", "rs", "randomstate", "seed", "key")


@dataclass(frozen=True)
class Source:
    """How a function is given its random numbers.

    argument: the name of its parameter; empty where an object keeps a generator.
    guessed: whether nothing but its place speaks for that argument.
    form: what it is given: a "generator", a "state" (RandomState), a "seed" that may be given to
        default_rng, a JAX "key", or generators that the object keeps ("kept").
    by_name: whether the argument is given by its name.
    """

    argument: str
    form: str = "generator"
    by_name: bool = False
    guessed: bool = False

    def run(self, function: Function, theta: Any, tape: AnyTape) -> Any:
        """What the function returns with draws from the tape; m rows where the tape has rows."""
        if self.form == "kept":
            with _lend(function, tape):
                return function(theta, *tape.rows)
        if self.form == "key":
            return run_with_key(lambda *args: as_row(self.call(function, *args)), theta, tape)
        made = RecordingState if self.form == "state" else RecordingGenerator
        return self.call(function, theta, made(tape), *tape.rows)

    def call(self, function: Function, theta: Any, given: Any, *rows: int) -> Any:
        """The function with something for its argument."""
        if self.by_name:
            return function(theta, *rows, **{self.argument: given})
        return function(theta, given, *rows)


def find_source(function: Function, argument: str | None, vectorised: bool) -> Source:
    """By the name of the argument: the first beside theta that sounds random.

    Where none does, generators that an object keeps; else the second argument.
    vectorised: whether another one takes the number of rows.

    Raises ValueError where the function has no such argument, or takes none and keeps no generator,
    and where it has others that must be given.
    """
    names, by_name, needed = _list_arguments(function)
    if argument is not None:
        as_kind("argument", argument, str, "the name of an argument")
    beside, guessed = [*names[1:], *by_name], False
    if argument is None:
        argument = next(filter(_sounds_random, beside), None)
    if argument is None:
        if next(_find_holders(_owner(function)), None):
            return Source("", "kept")
        if len(names) < 2:
            raise ValueError(_explain_no_argument(function))
        argument, guessed = names[1], True
    if argument not in beside:
        raise ValueError(
            f"argument is {argument!r}, but {_name(function)} has {', '.join(beside) or 'none'} "
            "beside theta; name the one that takes its random numbers"
        )
    others = [name for name in needed[1:] if name != argument][int(vectorised) :]
    if others:
        raise ValueError(
            f"{_name(function)} needs {', '.join(others)} beside {names[0]} and {argument}; give "
            f"lambda theta, {argument}: {_name(function)}(...) with all of them: *theta for its "
            "parameters, numbers for what is fixed"
        )
    return Source(argument, _guess_form(argument), names[1:2] != [argument], guessed)


def _sounds_random(argument: str) -> bool:
    return any(word in _RANDOM for word in argument.lower().split("_"))


def _guess_form(argument: str) -> str:
    if "seed" in argument:
        return "seed"
    if argument == "key" or argument.endswith("_key"):
        return "key"
    return "state" if "state" in argument else "generator"


def _list_arguments(function: Function) -> tuple[list[str], list[str], list[str]]:
    """Those that may be given by their places, those by their names only, and those that must."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of a compiled function: taken as (theta, rng)
        parameters = []
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return ["theta", "rng"], [], []
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    needed = [p.name for p in (*places, *by_name) if p.default is p.empty]
    return [p.name for p in places], [p.name for p in by_name], needed


def _owner(function: Function) -> Any:
    return getattr(function, "__self__", function)


def _find_holders(
    owner: Any, depth: int = _DEEPEST, seen: set[int] | None = None
) -> Iterator[tuple[Any, Any]]:
    """Objects, lists and dicts that hold NumPy's generators, with the attribute, place or key."""
    seen = {id(owner)} if seen is None else seen
    for key, value in _list_entries(owner):
        if isinstance(value, _GENERATORS) and not isinstance(owner, tuple):
            yield owner, key
        elif depth > 1 and id(value) not in seen and not callable(value):
            seen.add(id(value))  # agents know their world
            yield from _find_holders(value, depth - 1, seen)


def _list_entries(owner: Any) -> list[tuple[Any, Any]]:
    if inspect.ismodule(owner):
        return []
    if isinstance(owner, dict):
        return list(owner.items())
    if isinstance(owner, list | tuple):
        return [] if owner and isinstance(owner[0], int | float | str) else list(enumerate(owner))
    kind: Any = type(owner)
    named = {name: getattr(owner, name, None) for name in _list_named(kind)}
    return list((named | getattr(owner, "__dict__", {})).items())


@lru_cache(maxsize=1024)
def _list_named(kind: Any) -> tuple[str, ...]:
    """Slots, and attributes of a class that are generators."""
    bases = [base for base in kind.__mro__ if base.__module__ != "builtins"]
    found = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    return tuple(
        name
        for name, value in found.items()
        if inspect.ismemberdescriptor(value) or isinstance(value, _GENERATORS)
    )


@contextmanager
def _lend(function: Function, tape: AnyTape) -> Iterator[None]:
    """Generators of the tape in the place of those that the object keeps."""
    with ExitStack() as back:
        for holder, key in list(_find_holders(_owner(function))):
            put = (
                holder.__setitem__ if isinstance(holder, list | dict) else partial(setattr, holder)
            )
            own = holder[key] if isinstance(holder, list | dict) else getattr(holder, key)
            old = isinstance(own, np.random.RandomState)
            back.callback(put, key, own)
            put(key, (RecordingState if old else RecordingGenerator)(tape))
        yield


def _explain_no_argument(function: Function) -> str:
    shared = find_shared(function)
    where = f"it draws from {shared}" if shared else "it takes only theta"
    return (
        f"{_name(function)} has no argument for random numbers: {where}. Write def "
        "simulate(theta, rng), and draw with rng.normal(...), rng.random(), ..."
    )


def find_shared(function: Function) -> str:
    """A generator that is not an argument of a function; empty where none is seen."""
    if not inspect.isfunction(function):
        return ""
    around = inspect.getclosurevars(function)
    for name, value in ({**around.globals, **around.nonlocals}).items():
        if isinstance(value, _GENERATORS):
            return f"the generator {name!r}"
    used = function.__code__.co_names
    made = next((name for name in ("default_rng", "RandomState") if name in used), None)
    if made is not None:
        return f"a generator of its own, by {made}"
    return "the global np.random or random" if "random" in used else ""


def _name(function: Function) -> str:
    return getattr(function, "__name__", None) or brief(function)
