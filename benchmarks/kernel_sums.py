"""Weighted sums of a Gaussian kernel over all pairs: sum_ij w_i v_j exp(-|x_i - y_j|² / 2 l²)."""

import atexit
import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import Bar, Row, memory_row, peer_row, rate_row, with_ratio
from benchmarks.timing import Call, Contender, Failure, Memory, Race, peak_memory, race

_SIZE = 10_000
_SMALL = 256
_LARGE = 100_000
_RATE = "M pairs/s"

CDIST = "SciPy cdist + exp"
KEOPS = "KeOps, as shipped"
KEOPS_TUNED = "KeOps, -march=native -ffast-math"
TORCH = "torch, in chunks"
C_LOOP = "C, tiled by hand"
JAX = "JAX, full Gram matrix"
OWLFI = "owlfi row_sums"
OWLFI_SELF = "owlfi self_sum"
OWLFI_SMALL = "owlfi row_sums, few rows"

_BARS = {CDIST: Bar(6), KEOPS: Bar(3), TORCH: Bar(1.2), C_LOOP: Bar(0.4)}


class Problem(NamedTuple):
    """Rows x with weights w against rows y with weights v."""

    x: np.ndarray
    w: np.ndarray
    y: np.ndarray
    v: np.ndarray
    lengthscale: float


def problem(rows: int, columns: int, dim: int) -> Problem:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, dim)), rng.normal(size=(columns, dim))
    w, v = rng.dirichlet(np.ones(rows)), rng.dirichlet(np.ones(columns))
    return Problem(x, w, y, v, sqrt(dim))


def with_itself(rows: int, dim: int) -> Problem:
    once = problem(rows, rows, dim)
    return once._replace(y=once.x, v=once.w)


def by_cdist(make: Callable[[], Problem]) -> Call:
    from scipy.spatial.distance import cdist

    x, w, y, v, lengthscale = make()

    def call() -> float:
        gram = cdist(x, y, "sqeuclidean")
        gram *= -0.5 / lengthscale**2
        np.exp(gram, out=gram)
        return w @ (gram @ v)

    return call


def by_chunks_of_rows(make: Callable[[], Problem], chunk: int = 100) -> Call:
    """The answer to check against, in little memory."""
    whole = make()

    def part(start: int) -> float:
        rows = slice(start, start + chunk)
        return by_cdist(lambda: whole._replace(x=whole.x[rows], w=whole.w[rows]))()

    return lambda: sum(part(start) for start in range(0, len(whole.x), chunk))


def by_keops(make: Callable[[], Problem], compiler_flags: str = "") -> Call:
    _set_up_keops(compiler_flags)
    from pykeops.numpy import Genred

    x, w, y, v, lengthscale = make()
    dim = x.shape[1]
    variables = [f"x = Vi({dim})", f"y = Vj({dim})", "v = Vj(1)", "rate = Pm(1)"]
    row_sums = Genred("Exp(-rate * SqDist(x, y)) * v", variables, reduction_op="Sum", axis=1)
    column, rate = v[:, None], np.array([0.5 / lengthscale**2])
    return lambda: w @ row_sums(x, y, column, rate, backend="CPU")[:, 0]


def _set_up_keops(compiler_flags: str) -> None:
    """KeOps reads its settings when it is imported, and writes to its folder at exit."""
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++"))):
        raise FileNotFoundError("KeOps needs a C++ compiler")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)  # before the import: the last to be called
    os.environ["KEOPS_CACHE_FOLDER"] = folder
    os.environ["CXXFLAGS"] = compiler_flags
    import pykeops

    pykeops.set_verbose(False)


def by_torch(make: Callable[[], Problem], chunk: int = 64) -> Call:
    """One matrix product gives -|x - y|² / 2 l², and a chunk stays in the second-level cache."""
    import torch

    *arrays, lengthscale = make()
    x, w, y, v = (torch.from_numpy(array) for array in arrays)

    def call() -> float:
        left, right = _exponent_factors(x / lengthscale, y / lengthscale)
        buffer = x.new_empty(chunk, len(y))
        total = x.new_zeros(())
        for start in range(0, len(x), chunk):
            rows = left[start : start + chunk]
            gram = torch.mm(rows, right, out=buffer[: len(rows)]).exp_()
            total += torch.dot(w[start : start + chunk], torch.mv(gram, v))
        return total.item()

    return call


def _exponent_factors(x: "torch.Tensor", y: "torch.Tensor") -> tuple["torch.Tensor", ...]:
    import torch

    norms_x, norms_y = ((-0.5 * a.square().sum(1, keepdim=True)) for a in (x, y))
    left = torch.cat([x, norms_x, torch.ones_like(norms_x)], 1)
    right = torch.cat([y, torch.ones_like(norms_y), norms_y], 1)
    return left, right.T.contiguous()


def by_c_loop(make: Callable[[], Problem]) -> Call:
    x, w, y, v, lengthscale = make()
    weighted_sum = _compile(x.shape[1])
    pointers = [array.ctypes.data for array in (x, w, y, v)]

    def call(_keep: tuple[np.ndarray, ...] = (x, w, y, v)) -> float:
        return weighted_sum(*pointers[:2], len(x), *pointers[2:], len(y), lengthscale)

    return call


def _compile(dim: int) -> Callable[..., float]:
    source = Path(__file__).with_name("tile.c")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "tile.so"
        command = [os.environ.get("CC", "cc"), f"-DDIMENSION={dim}", *_FLAGS, source, "-o", target]
        subprocess.run([*command, *_LIBRARIES], check=True, stdout=subprocess.DEVNULL)
        function = ctypes.CDLL(str(target)).weighted_sum
    pointer, size = ctypes.c_void_p, ctypes.c_long
    function.argtypes = [pointer, pointer, size, pointer, pointer, size, ctypes.c_double]
    function.restype = ctypes.c_double
    return function


_IS_X86 = platform.machine() in ("x86_64", "AMD64")
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
_FLAGS += ["-mprefer-vector-width=512"] if _IS_X86 else []
_LIBRARIES = ["-lmvec", "-lm"] if _IS_X86 else ["-lm"]


def by_jax_gram(make: Callable[[], Problem]) -> Call:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    *arrays, lengthscale = make()
    arrays = [jnp.asarray(array) for array in arrays]

    @jax.jit
    def total(x: jax.Array, w: jax.Array, y: jax.Array, v: jax.Array) -> jax.Array:
        norms = jnp.sum(x**2, 1)[:, None] + jnp.sum(y**2, 1)
        return w @ (jnp.exp((x @ y.T - 0.5 * norms) / lengthscale**2) @ v)

    return lambda: float(total(*arrays))


def by_owlfi(make: Callable[[], Problem]) -> Call:
    import equinox as eqx
    import jax

    import owlfi

    *arrays, lengthscale = make()
    kernel = owlfi.SquaredExponential(lengthscale)
    x, w, y, v = (jax.numpy.asarray(array) for array in arrays)
    sums = eqx.filter_jit(owlfi.SquaredExponential.row_sums)
    return lambda: float(w @ sums(kernel, x, y, v))


def by_owlfi_self(make: Callable[[], Problem]) -> Call:
    import equinox as eqx
    import jax

    import owlfi

    x, w, *_, lengthscale = make()
    kernel = owlfi.SquaredExponential(lengthscale)
    x, w = jax.numpy.asarray(x), jax.numpy.asarray(w)
    total = eqx.filter_jit(owlfi.SquaredExponential.self_sum)
    return lambda: float(total(kernel, x, w))


def _contender(
    name: str, build: Callable[..., Call], rows: int, dim: int, **options: str
) -> Contender:
    make = partial(problem, rows, _SIZE, dim)
    task = f"{rows} rows"
    return Contender(name, partial(build, make, **options), rows * _SIZE / 1e6, task)


def _check_by_chunks(contender: Contender, make: Callable[[], Problem]) -> list[Contender]:
    reference = partial(by_chunks_of_rows, make)
    name = f"NumPy for {contender.name}"
    return [Contender(name, reference, task=contender.task, timed=False), contender]


def _own_contenders(dim: int) -> list[Contender]:
    few = _contender(OWLFI_SMALL, by_owlfi, _SMALL, dim)
    make_self = partial(with_itself, _SIZE, dim)
    work = _SIZE**2 / 1e6
    self_sum = Contender(OWLFI_SELF, partial(by_owlfi_self, make_self), work, "with itself")
    return [
        _contender(OWLFI, by_owlfi, _SIZE, dim),
        *_check_by_chunks(self_sum, make_self),
        *_check_by_chunks(few, partial(problem, _SMALL, _SIZE, dim)),
    ]


def _peers(dim: int) -> list[Contender]:
    flags = KEOPS_TUNED.split(", ")[1]
    return [
        _contender(CDIST, by_cdist, _SIZE, dim),
        _contender(KEOPS, by_keops, _SIZE, dim),
        _contender(KEOPS_TUNED, by_keops, _SIZE, dim, compiler_flags=flags),
        _contender(TORCH, by_torch, _SIZE, dim),
        _contender(C_LOOP, by_c_loop, _SIZE, dim),
        _contender(JAX, by_jax_gram, _SIZE, dim),
    ]


def rates() -> list[Row]:
    """Ten dimensions, against everybody."""
    peers = _peers(10)
    result = race([*peers, *_own_contenders(10)])
    what = f"d = 10, {_SIZE:,} x {_SIZE:,}"
    rows = [_peer_row(what, result, peer.name, _BARS.get(peer.name)) for peer in peers]
    return [*rows, rate_row(what, result, OWLFI, _RATE), *_own_rows(result)]


def _peer_row(what: str, result: Race, name: str, bar: Bar | None = None) -> Row:
    return peer_row(rate_row(what, result, name, _RATE), result, OWLFI, bar)


def _own_rows(result: Race) -> list[Row]:
    itself = f"d = 10, {_SIZE:,} rows with themselves"
    few = f"d = 10, {_SMALL} x {_SIZE:,}"
    return [
        _own_row(itself, result, OWLFI_SELF, Bar(1.5)),
        _own_row(few, result, OWLFI_SMALL, Bar(0.6)),
    ]


def _own_row(what: str, result: Race, name: str, bar: Bar) -> Row:
    row = rate_row(what, result, name, _RATE)
    return with_ratio(row, result.ratio(name, OWLFI), f"speed: this / {_SIZE:,} x {_SIZE:,}", bar)


def low_dimensions() -> list[Row]:
    """One and three dimensions, where exp takes most of the time."""
    return [row for dim in (1, 3) for row in _low_dimension(dim)]


def _low_dimension(dim: int) -> list[Row]:
    ways = {TORCH: by_torch, C_LOOP: by_c_loop, OWLFI: by_owlfi}
    result = race([_contender(name, build, _SIZE, dim) for name, build in ways.items()])
    what = f"d = {dim}, {_SIZE:,} x {_SIZE:,}"
    peers = [_peer_row(what, result, name) for name in (TORCH, C_LOOP)]
    return [*peers, rate_row(what, result, OWLFI, _RATE)]


def memory() -> list[Row]:
    """Peak memory, which must not grow with the number of pairs."""
    rows = []
    for name, build, size, bar in _MEMORY:
        what = f"memory, d = 10, {size:,} x {size:,}"
        peak = peak_memory(partial(build, partial(problem, size, size, 10)))
        rows += [memory_row(what, name, peak, bar), *_time_of_large(name, size, peak)]
    return rows


def _time_of_large(name: str, size: int, peak: Memory | Failure) -> list[Row]:
    if size != _LARGE or isinstance(peak, Failure):
        return []
    what = f"the same call, once, compilation included ({peak.seconds:.1f} s)"
    return [Row(what, name, size**2 / 1e6 / peak.seconds, _RATE)]


_LITTLE = Bar(200, "MB", at_least=False)
_MEMORY = [
    (CDIST, by_cdist, _SIZE, None),
    (OWLFI, by_owlfi, _SIZE, _LITTLE),
    (OWLFI, by_owlfi, _LARGE, _LITTLE),
]

BENCHMARKS = {"rates": rates, "low_dimensions": low_dimensions, "memory": memory}
