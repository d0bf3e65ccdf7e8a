"""Mistakes as one message, without a traceback."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer


@contextmanager
def report_errors() -> Iterator[None]:
    """What users can mend is written, and the command ends with 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def keep_interrupts() -> None:
    """Ctrl-C counts also where it meets JAX's callback of the garbage collector, which loses it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        threading.Timer(0.05, signal.raise_signal, [number]).start()
    else:
        signal.default_int_handler(number, frame)


def import_from_here() -> None:
    """Modules of this folder can be imported, where no others have their names."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
