"""Functions of JAX that take a key: their draws, where they can be seen, come from a tape.

The function is traced to a program of JAX, which is run step by step: keys are followed, and where
one becomes numbers, these are coordinates of u.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from owlfi.problem.recorded_noise.errors import NotFromNoiseError
from owlfi.problem.recorded_noise.generator import RecordingGenerator
from owlfi.problem.recorded_noise.tape import AnyTape

_LONGEST_LOOP = 1000  # steps that are written out
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "remat": "jaxpr"}
_CALLS |= {"checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
_REMEDY = (
    "write def simulate(theta, rng) instead, draw everything beforehand, such as "
    "z = rng.normal(size=(steps, ...)), and let loops run over z"
)


class _Key(NamedTuple):
    """Keys that come from the one that was given; they are known before anything is run."""

    value: jax.Array


def run_with_key(function: Callable[[Any, Any], Any], theta: Any, tape: AnyTape) -> Any:
    """The array function(theta, key), with its draws from the tape.

    Raises NotFromNoiseError where a key goes into a loop whose length is not known, a branch, or a
    number that depends on theta.
    """
    with jax.ensure_compile_time_eval():
        key = jax.random.key(0)
    program = jax.make_jaxpr(function)(theta, key)
    reader = _Reader(RecordingGenerator(tape))
    return reader.run(program.jaxpr, program.consts, [theta, _Key(key)])[0]


class _Reader:
    """Runs programs of JAX, with the same draws for the same key."""

    def __init__(self, rng: RecordingGenerator):
        self._rng = rng
        self._drawn: dict[tuple[Any, ...], Any] = {}

    def run(self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The outputs of a program."""
        known: dict[Any, Any] = {}
        known.update(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for step in jaxpr.eqns:
            given = [read(atom) for atom in step.invars]
            keyed = any(isinstance(value, _Key) for value in given)
            found = self._follow(step, given) if keyed else _bind(step, given)
            known.update(zip(step.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _follow(self, step: Any, given: list[Any]) -> list[Any]:
        """A step that is given a key."""
        kind, name = step.primitive.name, step.params.get("name", "")
        draw = _DRAWS.get(name, _DRAWS.get(kind))
        if draw is not None and isinstance(given[0], _Key):
            return [self._draw(name or kind, draw, given, step.outvars[0].aval)]
        if kind in _CALLS:
            inner = step.params[_CALLS[kind]]
            return self.run(inner.jaxpr, inner.consts, given)
        if kind == "scan" and step.params["length"] <= _LONGEST_LOOP:
            return self._write_out(step.params, given)
        if all(jnp.issubdtype(out.aval.dtype, jax.dtypes.prng_key) for out in step.outvars):
            return _split_keys(step, given)
        raise NotFromNoiseError(f"the key goes into {kind}, where draws cannot be seen; {_REMEDY}")

    def _draw(self, name: str, draw: Callable[..., Any], given: list[Any], aval: Any) -> Any:
        with jax.ensure_compile_time_eval():
            data = np.asarray(jax.random.key_data(given[0].value)).tobytes()
        place = (name, data, aval.shape, aval.dtype)
        if place not in self._drawn:
            self._drawn[place] = draw(self._rng, aval)
        drawn = self._drawn[place]
        return drawn if len(given) == 1 else _between(drawn, *given[1:], aval=aval)

    def _write_out(self, params: dict[str, Any], given: list[Any]) -> list[Any]:
        """A loop of known length, step after step."""
        constants, carried = params["num_consts"], params["num_carry"]
        fixed, state, runs = (
            given[:constants],
            given[constants : constants + carried],
            given[constants + carried :],
        )
        rows: list[list[Any]] = []
        order = range(params["length"])
        for i in reversed(order) if params["reverse"] else order:
            now = [_at(run, i) for run in runs]
            found = self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*fixed, *state, *now])
            state = found[:carried]
            rows.append(found[carried:])
        rows = rows[::-1] if params["reverse"] else rows
        return [*state, *(jnp.stack(column) for column in zip(*rows, strict=True))]


def _at(run: Any, i: int) -> Any:
    """The entry of a step of a loop."""
    if not isinstance(run, _Key):
        return run[i]
    with jax.ensure_compile_time_eval():
        return _Key(run.value[i])


def _bind(step: Any, given: list[Any]) -> list[Any]:
    """A step without keys, as JAX runs it."""
    run = partial(step.primitive.bind, *given, **step.primitive.get_bind_params(step.params))
    if any(isinstance(value, jax.core.Tracer) for value in given):
        found = run()
    else:
        with jax.ensure_compile_time_eval():  # indices of keys, say, stay numbers
            found = run()
    return list(found) if step.primitive.multiple_results else [found]


def _split_keys(step: Any, given: list[Any]) -> list[Any]:
    """Keys from keys: split, fold_in, indexing."""
    plain = [value.value if isinstance(value, _Key) else value for value in given]
    if any(isinstance(value, jax.core.Tracer) for value in plain):
        raise NotFromNoiseError(f"a key is made from theta, or from other numbers; {_REMEDY}")
    return [_Key(value) for value in _bind(step, plain)]


def _draw_bits(rng: RecordingGenerator, aval: Any) -> Any:
    """Uniform whole numbers, of the 53 leading bits that a coordinate has."""
    bits = min(8 * aval.dtype.itemsize, 53)
    scaled = jnp.floor(rng.random(aval.shape) * 2.0**bits).astype(aval.dtype)
    return scaled << (8 * aval.dtype.itemsize - bits)


def _between(v: Any, low: Any, high: Any, *, aval: Any) -> Any:
    if jnp.issubdtype(aval.dtype, jnp.integer):
        return (low + jnp.floor((high - low) * v)).astype(aval.dtype)
    return (low + (high - low) * v).astype(aval.dtype)


_DRAWS: dict[str, Callable[..., Any]] = {  # by the names that JAX gives its own functions
    "_normal_real": lambda rng, aval: rng.standard_normal(aval.shape).astype(aval.dtype),
    "_exponential": lambda rng, aval: rng.standard_exponential(aval.shape).astype(aval.dtype),
    "_uniform": lambda rng, aval: rng.random(aval.shape),
    "_randint": lambda rng, aval: rng.random(aval.shape),
    "random_bits": _draw_bits,
}
