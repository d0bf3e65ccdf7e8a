"""Programs: functions that are compiled as one, in little time."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from owlfi._tools.arrays import as_jax, fill_rows, next_rung
from owlfi._tools.checks import is_traced

Kind = TypeVar("Kind", bound=Callable[..., Any])

# Of XLA: simpler code, in less than half of the time.
_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
_UNKNOWN = "No such compile option"


def compile_quickly(function: Kind) -> Kind:
    """One program where it is called with numbers, a part of the other one inside of another.

    For work that is done a few times. Fits run as fast, but sums over pairs alone are slower.

    >>> import numpy as np
    >>> float(compile_quickly(lambda x: 2 * x)(np.float64(3.0)))
    6.0
    """
    inner: Any = eqx.filter_jit(function)
    quick = eqx.filter_jit(function, compiler_options=_OPTIONS)  # type: ignore[call-overload]

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        if is_traced(arguments, options):
            return inner(*arguments, **options)
        try:
            return quick(*arguments, **options)
        except Exception as error:
            if _UNKNOWN not in str(error):
                raise
            return inner(*arguments, **options)  # a version of XLA without this option

    return cast(Kind, run)


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
    filled = jax.tree.map(lambda leaf: fill_rows(leaf, next_rung(count)), cases)
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
