"""How owlfi sets JAX up: double precision, and programs that are compiled once, not each time."""

import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_SETTINGS = {  # of JAX, for the programs that are kept: to keep one takes 20 µs for each of them
    "jax_compilation_cache_max_size": 2**25,  # bytes; those used least recently make place
    "jax_persistent_cache_min_compile_time_secs": 0.02,  # what is compiled faster is not kept
}


def set_up_jax() -> None:
    """Now, or behind its import: whoever needs no JAX does not wait for it."""
    if "jax" in sys.modules:
        _set_up(sys.modules["jax"])
    else:
        sys.meta_path.insert(0, _Watch())


class _Watch:
    """Sees JAX imported, and sets it up."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_set_up(module: ModuleType) -> None:
            load(module)
            _set_up(module)

        spec.loader.exec_module = load_and_set_up  # type: ignore[method-assign]
        return spec


def _set_up(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None and jax.config.jax_enable_compilation_cache:
        with suppress(OSError, RuntimeError):  # a home that is read-only, or none
            jax.config.update("jax_compilation_cache_dir", str(_open_folder()))
            for name, value in _SETTINGS.items():
                if name.upper() not in os.environ:
                    jax.config.update(name, value)


def _open_folder() -> Path:
    """The user's own, since programs found there are run. OSError where it cannot be written."""
    from filelock import FileLock, Timeout
    from platformdirs import user_cache_path

    folder = user_cache_path("owlfi") / "compiled"
    if not folder.is_absolute():
        raise FileNotFoundError(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(Timeout), FileLock(folder / ".lockfile").acquire(timeout=0.0):
        _remove_halves(folder)
    return folder


def _remove_halves(folder: Path) -> None:
    """Programs without their time, which killed processes left: JAX would stumble over them."""
    names = set(os.listdir(folder))
    for name in names:
        if name.endswith("-cache") and f"{name.removesuffix('-cache')}-atime" not in names:
            (folder / name).unlink(missing_ok=True)
