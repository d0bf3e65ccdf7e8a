"""Mistakes as one message, without a traceback."""

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
