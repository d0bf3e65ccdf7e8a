"""Programs: functions that are compiled as one, in little time."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from threading import Timer
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from owlfi._tools.arrays import as_jax, fill_on_host, next_rung
from owlfi._tools.checks import is_traced
from owlfi._tools.host_parts import put_back, set_aside
from owlfi._tools.kept_programs import Kept

Kind = TypeVar("Kind", bound=Callable[..., Any])

# Of XLA: simpler code in less time; sums over pairs are as fast without its emitters of fusions,
# but not with fewer optimisations.
_SUMS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
_QUICK = _SUMS | {"xla_backend_optimization_level": 1, "xla_cpu_multi_thread_eigen": False}
# What XLA says where it has no such option, and JAX inside of a program that hides itself.
_REFUSALS = "No such compile option", "can only be passed to top-level"
_PATIENCE = 1.0  # seconds
_WAIT = "owlfi: what a model needs is compiled when it is first used; it is kept for the next time"


def compile_quickly(function: Kind) -> Kind:
    """One program where it is called with numbers, a part of the other one inside of another.

    For work that is done a few times: it takes half of the time to compile.

    >>> import numpy as np
    >>> float(compile_quickly(lambda x: 2 * x)(np.float64(3.0)))
    6.0
    """
    return _compile(function, _QUICK)


def compile_sums(function: Kind) -> Kind:
    """The same for sums over many pairs, which run as fast as they can."""
    return _compile(function, _SUMS)


def compile_fully(function: Kind) -> Kind:
    """The same for work that is done often: XLA does all that it can."""
    return _compile(function, {})


def _compile(function: Kind, options: dict[str, Any]) -> Kind:
    inner, quick = Kept(function), Kept(function, _leave_flags(options))
    first = [True]

    @wraps(function)
    def run(*arguments: Any, **more: Any) -> Any:
        known, aside = set_aside((arguments, more))
        leaves, form = jax.tree.flatten(known)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return put_back(inner.run(leaves, form), aside)
        with _explain_wait() if first else nullcontext():
            first.clear()
            try:
                return put_back(quick.run(leaves, form), aside)
            except Exception as error:
                if not any(words in str(error) for words in _REFUSALS):
                    raise
                return put_back(inner.run(leaves, form), aside)

    return cast(Kind, run)


def _leave_flags(options: dict[str, Any]) -> dict[str, Any] | None:
    """Without those that whoever runs owlfi has set for all programs; None where none is left."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in options.items() if f"--{name}=" not in flags} or None


@contextmanager
def _explain_wait() -> Iterator[None]:
    """One line in a terminal, once, where it takes long."""
    if _TOLD or not sys.stderr.isatty():
        yield
        return
    timer = Timer(_PATIENCE, _tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_TOLD: list[bool] = []


def _tell() -> None:
    if not _TOLD:
        _TOLD.append(True)
        print(_WAIT, file=sys.stderr)


def map_cases(function: Callable[..., Any], shared: PyTree, cases: PyTree) -> PyTree:
    """function(shared, case) for each case along the leading axis, stacked.

    function: a function of a module, since programs are kept by it.
    One program serves other numbers of cases, too; it computes no more than there are.

    >>> map_cases(lambda a, x: a + x, np.float64(1.0), np.arange(3.0))
    Array([1., 2., 3.], dtype=float64)
    """
    if is_traced(shared, cases):
        return jax.lax.map(lambda case: function(shared, case), cases)
    count = len(jax.tree.leaves(cases)[0])
    filled = jax.tree.map(lambda leaf: fill_on_host(leaf, next_rung(count)), cases)
    found = _map_first(function, shared, filled, np.int64(count))
    return jax.tree.map(lambda leaf: as_jax(np.asarray(leaf)[:count]), found)


@compile_quickly
def _map_first(function: Callable[..., Any], shared: Any, cases: Any, count: Any) -> Any:
    """Of the first cases, so many; 0 for the others."""
    first = jax.tree.map(lambda leaf: leaf[0], cases)
    one = jax.eval_shape(lambda case: function(shared, case), first)
    size = len(jax.tree.leaves(cases)[0])

    def add(number: Any, found: Any) -> Any:
        case = jax.tree.map(lambda leaf: leaf[number], cases)
        made = function(shared, case)
        return jax.tree.map(lambda all_, new: all_.at[number].set(new), found, made)

    nothing = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), one)
    return jax.lax.fori_loop(0, count, add, nothing)
