import ctypes
import gc
import os
from itertools import count
from pathlib import Path

# Compiling is most of what the tests take: the processes of a run share what they compile, and XLA
# emits simpler code, in one piece, which takes it less than half of the time.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # nobody reads them in programs
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin where cores are busy
os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # of workers: a heap for each thread holds more
os.environ["XDG_STATE_HOME"] = str(COMPILED.parent)  # the key that marks stores made here
FLAGS = {
    "xla_cpu_use_fusion_emitters": "false",
    "xla_backend_optimization_level": 1,  # as most programs have where they are used
    "xla_cpu_parallel_codegen_split_count": 1,
}
os.environ.setdefault("XLA_FLAGS", " ".join(f"--{name}={value}" for name, value in FLAGS.items()))

import jax  # noqa: E402
import matplotlib  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# In tests annotations are checked at every call, and no array is broadcast to more axes unasked.
install_import_hook("owlfi", "strictness.check")
jax.config.update("jax_numpy_rank_promotion", "raise")

import owlfi  # noqa: E402, F401  (switches JAX to double precision)

matplotlib.use("Agg")
gc.set_threshold(50_000, 20, 20)  # programs are traced all the time, which makes much garbage

MAPS = Path("/proc/self/maps")
MOST_MAPS = 6_000  # of memory: each program takes some, and a gigabyte has about so many
FEW_MAPS = 4_500  # where programs of tests that are over were most of them
BETWEEN = 10  # tests, since to count the maps takes milliseconds
TESTS = count()


def pytest_collection() -> None:
    """What is imported stays: nobody needs to look for garbage there."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown() -> None:
    """Forget compiled programs before there are too many of them."""
    if next(TESTS) % BETWEEN or count_maps() <= MOST_MAPS:
        return
    gc.collect()  # programs go with the simulators that they are for
    if count_maps() > FEW_MAPS:
        jax.clear_caches()
    give_back()


def give_back() -> None:
    """To the system what is free, where the C library keeps it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def count_maps() -> int:
    return MAPS.read_bytes().count(b"\n") if MAPS.exists() else 0
