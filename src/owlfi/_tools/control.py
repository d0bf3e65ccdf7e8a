"""Loops over a simulator: compiled by JAX, or in Python where JAX cannot trace it.

An algorithm is written once, with the loops of whichever simulator it is given.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from os import cpu_count
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

compiled = lru_cache(maxsize=None)(eqx.filter_jit)


class JaxControl:
    """The loops of JAX, inside programs that are compiled once."""

    compiles = True
    threads = cpu_count() or 1  # JAX leaves the interpreter lock
    while_loop = staticmethod(jax.lax.while_loop)
    map = staticmethod(jax.lax.map)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as one program, compiled once for each shape of its arguments."""
        return compiled(function)


class HostControl:
    """The same loops in Python."""

    compiles = False
    threads = 1

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as it is."""
        return function

    def while_loop(
        self,
        unfinished: Callable[[Any], Bool[Array, ""]],
        step: Callable[[Any], Any],
        state: PyTree,
    ) -> PyTree:
        """The state once it is finished."""
        while unfinished(state):
            state = step(state)
        return state

    def map(self, function: Callable[[Any], Any], cases: PyTree) -> PyTree:
        """What the function gives for each case along the leading axis, stacked.

        Raises ValueError where that has not always one shape.
        """
        count = len(jax.tree.leaves(cases)[0])
        found = [function(jax.tree.map(itemgetter(i), cases)) for i in range(count)]
        return jax.tree.map(_stack, *found)


def _stack(*arrays: Array) -> Array:
    shapes = sorted({jnp.shape(array) for array in arrays})
    if len(shapes) > 1:
        raise ValueError(f"y must have one shape at every theta, the generator returned {shapes}")
    return jnp.stack(arrays)


JAX, HOST = JaxControl(), HostControl()
