"""Processes that are forked after JAX has started: its threads are missing there, and it hangs."""

import os
import sys
from typing import Any

_forked = False


def refuse_after_fork() -> None:
    """RuntimeError in a process that was forked from one in which JAX had started."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one in which JAX had started, and would hang; start it "
            'with multiprocessing.get_context("spawn"), or fork before owlfi is used'
        )


def check_start_method(name: str, pool: Any) -> None:
    """ValueError for a pool whose processes are forked."""
    context = getattr(pool, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            f"{name} is a {type(pool).__name__} that forks, in which JAX would hang; make it with "
            'mp_context=multiprocessing.get_context("spawn")'
        )


def _note_fork() -> None:
    global _forked
    started = sys.modules.get("jax._src.xla_bridge")
    if started is not None and started.backends_are_initialized() and not _forked:
        _forked = True
        _stop_jax()


def _stop_jax() -> None:
    """From now on whatever JAX computes is refused: it has to be traced again, which is heard."""
    import jax

    jax.monitoring.register_event_duration_secs_listener(lambda *_, **__: refuse_after_fork())
    jax.clear_caches()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
