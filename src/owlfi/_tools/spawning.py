"""Worker processes that never run the user's script."""

import signal
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess

_MAIN_LOCK = threading.Lock()


class _Process(SpawnProcess):
    def start(self) -> None:
        with _without_main():
            super().start()


class SpawnWithoutMain(SpawnContext):
    """Spawned processes; pools start every worker with it, those that replace others, too."""

    Process = _Process


@contextmanager
def _without_main() -> Iterator[None]:
    """Workers need nothing of the user's script, and would run it if they saw it."""
    with _MAIN_LOCK:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        # Ctrl-C is for the driver: a worker that is still importing would write a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sys.modules["__main__"] = main
