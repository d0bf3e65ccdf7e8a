"""What is compiled for a function that a user wrote is kept as long as that function is."""

import gc
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree

_MAPS, _MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
_FULL = 0.8  # of the maps of memory that a process may have, beyond which XLA aborts it
_BETWEEN = 32  # new programs: to count the maps takes milliseconds


class Kept:
    """A function whose programs go with the functions among its arguments.

    JAX would keep them, some megabytes each, for every simulator that was ever built.

    >>> double = Kept(lambda function, x: 2 * function(x))
    >>> double(lambda x: x + 1, 3), len(double.programs)
    (8, 0)
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None):
        self.function, self.options = function, options
        self.programs: dict[tuple[weakref.ref, ...], Callable[..., Any]] = {}
        """By the functions among the arguments."""
        _EVERY.add(self)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        return self.run(*jax.tree.flatten((arguments, more)))

    def run(self, leaves: list[Any], form: Any) -> Any:
        """The same with arguments in parts, for those who have looked at these."""
        arrays = [leaf if eqx.is_array(leaf) else None for leaf in leaves]
        others = tuple(None if eqx.is_array(leaf) else _refer(leaf) for leaf in leaves)
        owners = tuple(dict.fromkeys(leaf for leaf in others if isinstance(leaf, weakref.ref)))
        program = self.programs.get(owners) or self._open(owners)
        with _keep_garbage():
            found, rest = program(arrays, _Fixed(others, form))
        jax.block_until_ready(found)
        return eqx.combine(found, rest.value) if jax.tree.leaves(rest.value) else found

    def _open(self, owners: tuple[weakref.ref, ...]) -> Callable[..., Any]:
        if next(_OPENED) % _BETWEEN == 0 and is_memory_full():
            forget_programs()
        program = self.programs[owners] = _compile(self.function, self.options)
        for owner in owners:
            target = owner()
            kept = target.__self__ if isinstance(target, MethodType) else target
            weakref.finalize(kept, self.programs.pop, owners, None).atexit = False
        return program


_EVERY: weakref.WeakSet[Kept] = weakref.WeakSet()
_OPENED = count(1)


def is_memory_full() -> bool:
    """Whether programs of many models take most of what the system maps for a process."""
    try:
        most = int(_MOST_MAPS.read_text())
        return _MAPS.read_bytes().count(b"\n") > _FULL * most
    except (OSError, ValueError):  # other systems have no such limit
        return False


def forget_programs() -> None:
    """Those of all models: whichever is used again is compiled again."""
    for kept in list(_EVERY):
        kept.programs.clear()


@contextmanager
def _keep_garbage() -> Iterator[None]:
    """To look for it again and again takes an eighth of the time in which a program is traced."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Fixed(NamedTuple):
    """Arguments that are no arrays, by which a program is known."""

    leaves: tuple[Hashable, ...]
    form: Any

    def fill(self, arrays: list[Any]) -> PyTree:
        """All arguments; functions are there as long as they are called."""
        known = [leaf() if isinstance(leaf, weakref.ref) else leaf for leaf in self.leaves]
        both = zip(arrays, known, strict=True)
        return jax.tree.unflatten(self.form, [a if k is None else k for a, k in both])


def _compile(function: Callable[..., Any], options: dict[str, Any] | None) -> Callable[..., Any]:
    def run(arrays: list[Any], fixed: _Fixed) -> tuple[PyTree, _Rest]:
        arguments, more = fixed.fill(arrays)
        found, rest = eqx.partition(function(*arguments, **more), eqx.is_array)
        return found, _Rest(rest)

    run.__name__ = run.__qualname__ = getattr(function, "__name__", "program")
    return jax.jit(run, static_argnums=1, compiler_options=options)


class _Rest(eqx.Module):
    """What a program returns beside arrays."""

    value: Any = eqx.field(static=True)


def _refer(leaf: Any) -> Any:
    """A weak reference where it is known by nothing but its place in memory."""
    if isinstance(leaf, MethodType):
        return weakref.WeakMethod(leaf) if type(leaf.__self__).__weakrefoffset__ else leaf
    own = type(leaf).__hash__ is object.__hash__ and type(leaf).__weakrefoffset__
    return weakref.ref(leaf) if own else leaf
