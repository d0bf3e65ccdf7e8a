"""Mistakes as one message, without a traceback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def report_errors() -> Iterator[None]:
    """What users can mend is written, and the command ends with 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def import_from_here() -> None:
    """Modules of this folder can be imported, where no others have their names."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
