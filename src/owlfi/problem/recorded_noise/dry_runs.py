"""Dry runs at thetas of the prior: which draws a simulator makes, and whether it can be served."""

import random
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import chain, pairwise, repeat
from math import inf
from typing import Any, NamedTuple

import jax
import numpy as np

from owlfi._tools.checks import brief
from owlfi._tools.programs import compile_quickly
from owlfi.problem.recorded_noise.errors import NotFromNoiseError
from owlfi.problem.recorded_noise.kinds import KINDS, as_blocks
from owlfi.problem.recorded_noise.rows import TO_ONE_LENGTH, as_row
from owlfi.problem.recorded_noise.sites import Draw, Log
from owlfi.problem.recorded_noise.sources import Function, Source, find_shared
from owlfi.problem.recorded_noise.tape import AbstractTape, Tape, TracedTape

FEW, MANY = 8, 64  # runs; many where the draws of the first few differ
_FEWEST, _LONG = 2, 10**5  # runs where each makes so many draws
ROWS = 3  # of vectorised functions
_COMPARED = 3  # runs inside JAX and with plain numbers
_LONGEST_PROGRAM = 1000  # steps of JAX; compiling longer ones takes longer than running them


class DryRuns(NamedTuple):
    """What was found."""

    draws: tuple[tuple[Draw, ...], ...]
    """Of each run that did not fail."""
    columns: int
    traced: bool
    """Whether the function can be traced by JAX."""
    failures: tuple[str, ...]
    """What was raised, at which theta."""
    tried: int


@lru_cache(maxsize=16)
def run_dry(
    function: Function,
    source: Source,
    thetas: bytes,
    parameters: int,
    vectorised: bool,
    on_host: bool | None,
) -> DryRuns:
    """The same runs whenever it is asked.

    thetas: of MANY runs, (r, parameters), as bytes.
    on_host: where it should run; None to find out.

    Raises ValueError for a function that draws nothing, or from elsewhere, or does not return one
    row of numbers; NotFromNoiseError where what it draws cannot be taken from u.
    """
    rows = np.frombuffer(thetas).reshape(-1, parameters)
    if not (vectorised or on_host):
        traced = _trace(function, source, rows, on_host is None)
        if traced is not None:
            return traced
    if on_host is False:
        raise ValueError(
            "on_host is False, but JAX cannot trace the function, or finds other numbers than "
            "NumPy; write it with jax.numpy and without loops over draws, or leave on_host out"
        )
    _check_repeats(function, source, rows, vectorised)
    found = _run_all(function, source, rows, vectorised)
    if not any(found.draws):
        raise ValueError(_explain_nothing(function, source))
    return found


_ALL_FROM_RNG = (
    "take all random numbers from rng (no default_rng() inside), and keep nothing from call to call"
)
_BY_RANDOM = (
    "it draws from the global generator of random; write rng.normal(...) where it has "
    "random.gauss(...), rng.choice(...) for random.choice(...), and so on"
)
_KEY_ON_HOST = (
    "the function takes a JAX key, but JAX cannot trace it, so that its draws cannot be seen; "
    "write def simulate(theta, rng) and draw with rng.normal(size=...), in NumPy or in JAX"
)


def _trace(
    function: Function, source: Source, thetas: np.ndarray, may_choose: bool
) -> DryRuns | None:
    """Inside JAX, where the draws are the same at every theta; None where JAX cannot trace it.

    may_choose: also None where it would be compiled for longer than plain numbers take.
    """
    logs: list[Log] = []
    longest = _LONGEST_PROGRAM if may_choose and source.form != "key" else inf

    def run(theta: Any, seed: Any) -> Any:
        logs.append(Log())
        return as_row(source.run(function, theta, AbstractTape(seed, logs[-1].note, longest)))

    shapes = jax.ShapeDtypeStruct(thetas.shape[1:], float), jax.ShapeDtypeStruct((), float)
    before = _global_state()
    try:
        program, again = (jax.make_jaxpr(lambda *args: run(*args))(*shapes) for _ in range(2))
    except (NameError, NotFromNoiseError):
        raise
    except Exception as error:  # whatever it is, the host will meet it again and show it
        if source.form == "key":
            raise NotFromNoiseError(_KEY_ON_HOST) from error
        return None
    _check_global_state(before)
    draws = logs[-1].draws
    if source.form == "key" and not draws:
        raise ValueError(_explain_nothing(function, source))
    short = _count_steps(program) <= longest
    if not (draws and short and _are_equal(program, again)):  # the host will tell why they differ
        return None
    if source.form != "key" and not _agrees_with_host(function, source, draws, thetas):
        return None
    return DryRuns((draws,), program.out_avals[0].shape[0], True, (), 1)


def _count_steps(program: Any) -> int:
    """Of a program of JAX; a quantile has hundreds, wherever it is called."""
    inner = (step.params for step in program.eqns if step.primitive.name == "custom_jvp_call")
    return len(program.eqns) + sum(_count_all(params["call_jaxpr"]) for params in inner)


def _count_all(program: Any) -> int:
    parts = (part for step in program.eqns for part in jax.tree.leaves(list(step.params.values())))
    return len(program.eqns) + sum(_count_all(part) for part in parts if hasattr(part, "eqns"))


def _agrees_with_host(
    function: Function, source: Source, draws: tuple[Draw, ...], thetas: np.ndarray
) -> bool:
    """Whether it returns the same inside JAX as of plain numbers.

    It may look at types, or catch what JAX raises: then plain numbers have the word.
    """
    blocks = as_blocks(chain.from_iterable(repeat(draw.kind, draw.number) for draw in draws))
    compiled = compile_quickly(
        lambda theta, u: as_row(source.run(function, theta, TracedTape(u, blocks)))
    )
    rng = np.random.default_rng(0)
    for theta in thetas[:_COMPARED]:
        u = np.concatenate([KINDS[kind].draw(rng, count) for kind, count in blocks])
        try:
            plain = as_row(source.run(function, theta.copy(), Tape(u, blocks)))
        except (AttributeError, TypeError):  # it is written for JAX alone
            continue
        except Exception:  # JAX reads the last entry where there is none
            return False
        inside = np.asarray(compiled(theta, u))
        if plain.shape != inside.shape or not np.allclose(plain, inside, equal_nan=True):
            return False
    return True


def _are_equal(program: Any, again: Any) -> bool:
    """Whether two traces have the same steps and the same numbers."""
    same = str(program.jaxpr) == str(again.jaxpr)
    pairs = zip(program.consts, again.consts, strict=False)
    return same and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def _run_all(function: Function, source: Source, thetas: np.ndarray, vectorised: bool) -> DryRuns:
    draws: list[tuple[Draw, ...]] = []
    columns: dict[int, np.ndarray] = {}
    failures: list[str] = []
    tried = 0
    for theta, seed in _choose_runs(thetas, draws):
        tried += 1
        try:
            y, log = _run_one(function, source, theta, seed, vectorised)
        except NotFromNoiseError:
            raise
        except jax.errors.UnexpectedTracerError as error:
            raise ValueError(
                f"the function uses what it kept from another call; {_ALL_FROM_RNG}"
            ) from error
        except Exception as error:
            if tried == FEW and not draws:
                error.add_note(_explain_all(source, theta))
                raise
            failures.append(f"{type(error).__name__} ({brief(str(error))}) at theta = {theta}")
            continue
        draws.append(log.draws)
        columns[y.shape[-1]] = theta
    _check_lengths(columns)
    return DryRuns(tuple(draws), next(iter(columns)), False, tuple(failures), tried)


def _explain_all(source: Source, theta: np.ndarray) -> str:
    told = (
        f"raised in all of {FEW} dry runs, the last at theta = {theta}, which is an array of the "
        "parameters in their order"
    )
    if not source.guessed:
        return told
    return (
        f"{told}; {source.argument!r} was given the generator of random numbers, as its second "
        "argument: write def simulate(theta, rng), or name another one by argument="
    )


def _choose_runs(
    thetas: np.ndarray, draws: list[tuple[Draw, ...]]
) -> Iterator[tuple[np.ndarray, float]]:
    """Few where all draws are alike, many where they are not."""
    for i, theta in enumerate(thetas):
        if len(draws) >= _FEWEST and any(map(_is_long, draws)):
            return
        if i == FEW and len({_kinds_of(run) for run in draws}) == 1:
            return
        yield theta, (i + 0.5) / len(thetas)


def _is_long(run: tuple[Draw, ...]) -> bool:
    return sum(draw.number for draw in run) > _LONG


def _kinds_of(run: tuple[Draw, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((draw.kind, draw.number) for draw in run)


def _run_one(
    function: Function, source: Source, theta: np.ndarray, seed: float, vectorised: bool
) -> tuple[np.ndarray, Log]:
    log = Log()
    u = np.array([[seed + row] for row in range(ROWS)]) if vectorised else np.array([seed])
    y = source.run(function, theta.copy(), Tape(u, (), log.note))
    return (as_table(y, ROWS) if vectorised else as_row(y)), log


def as_table(y: Any, rows: int) -> np.ndarray:
    """What a vectorised function returns; ValueError where it has not one row for each."""
    table = np.asarray(y, float)
    if table.ndim < 1 or len(table) != rows:
        raise NotFromNoiseError(
            f"with vectorised=True the function must return (m, d), here {rows} rows, got shape "
            f"{table.shape}"
        )
    return table.reshape(rows, -1)


def _check_repeats(
    function: Function, source: Source, thetas: np.ndarray, vectorised: bool
) -> None:
    """Twice with the same draws and others between, at the first theta where it does not raise."""
    for theta, other in pairwise(thetas[: FEW + 1]):
        python, numpys = random.getstate(), _global_state()
        try:
            first, log = _run_one(function, source, theta, 0.5, vectorised)
        except NotFromNoiseError:
            raise
        except Exception:  # the runs will tell
            continue
        _check_global_state(numpys)
        if not _is_long(log.draws):
            with suppress(Exception):  # what it remembers must not show
                _run_one(function, source, other, 0.25, vectorised)
        again, _ = _run_one(function, source, theta, 0.5, vectorised)
        if log.draws and not _same(first, again):
            random.setstate(python)
            third, _ = _run_one(function, source, theta, 0.5, vectorised)
            raise ValueError(
                f"y is not determined by theta and rng: at theta = {theta} the function returned "
                f"{brief(first)} and then {brief(again)} with the same draws; "
                f"{_BY_RANDOM if _same(first, third) else _ALL_FROM_RNG}"
            )
        return


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)


def _global_state() -> tuple[Any, ...]:
    state = np.random.get_state()
    return (state[1].tobytes(), state[2:])  # type: ignore[index]


def _check_global_state(before: tuple[Any, ...]) -> None:
    if _global_state() != before:
        raise NotFromNoiseError(
            "the function draws from the global generator of np.random, or seeds it, so that y is "
            "not determined by theta and u; write rng.normal(...) where it has "
            "np.random.normal(...), and leave out np.random.seed"
        )


def _check_lengths(columns: dict[int, np.ndarray]) -> None:
    if len(columns) > 1:
        found = ", ".join(f"{d} at theta = {theta}" for d, theta in list(columns.items())[:3])
        raise ValueError(
            f"the function must return as many numbers in every run, got {found}; {TO_ONE_LENGTH}"
        )


def _explain_nothing(function: Function, source: Source) -> str:
    shared = find_shared(function)
    instead = f"it has {shared} instead" if shared else "y would be the same for all u"
    return (
        f"nothing was drawn from {source.argument or 'the generator'} in {FEW} runs: {instead}; "
        "draw all random numbers with rng.normal(...), rng.random(), ..."
    )
