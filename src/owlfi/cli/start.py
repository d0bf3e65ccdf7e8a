"""Where the command begins: from here on Ctrl-C ends it with one message."""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def start() -> None:
    """Run the command line, which is imported only once Ctrl-C is taken care of."""
    keep_interrupts()
    from owlfi.cli.main import app

    try:
        app()
    except KeyboardInterrupt:
        _say_so()
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _say_so()
        raise


def keep_interrupts() -> None:
    """Ctrl-C counts, wherever it meets the program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, but where that would be lost or break what it meets."""
    if _is_importing(frame):  # a module that is half made: nothing has begun
        _say_so()
        os._exit(INTERRUPTED)
    elif frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        from threading import Timer  # JAX has imported it; the command would begin later

        Timer(0.05, signal.raise_signal, [number]).start()
    else:
        signal.default_int_handler(number, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _say_so() -> None:
    os.write(2, b"Stopped.\n")
