"""How objects look: as one would write them at the prompt, as small tables in notebooks."""

import re
from collections.abc import Iterable
from dataclasses import fields
from html import escape
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import numpy as np

from owlfi._tools.checks import is_traced

_MOST = 6  # entries that are written out
_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0))


def write_call(value: Any) -> str:
    """An object as the call that makes it of its fields: Matern(2.5, 1.0)."""
    return write_arguments(value, [getattr(value, field.name) for field in fields(value)])


def write_arguments(value: Any, arguments: Iterable[Any], /, **options: Any) -> str:
    """The same of any arguments: Normal(0.0, 1.0, dim=2)."""
    named = [f"{name}={write(option)}" for name, option in options.items()]
    return f"{type(value).__name__}({join([write(each) for each in arguments] + named)})"


def write(value: Any) -> str:
    """Numbers with all their digits, the first of many; larger and traced arrays by their shape.

    Functions by their name alone, which is the same tomorrow.
    """
    if not isinstance(value, jax.Array | np.ndarray | np.generic):
        return value.__qualname__ if isinstance(value, FunctionType) else repr(value)
    if is_traced(value) or value.ndim > 1:
        return eqx.tree_pformat(value)
    if value.ndim == 0:
        return repr(value.item())
    return f"[{join([repr(number) for number in value.tolist()])}]"


def join(texts: list[str]) -> str:
    """With commas, the middle of many left out."""
    return ", ".join(texts if len(texts) <= _MOST else [*texts[: _MOST - 2], "...", texts[-1]])


def count(number: int, noun: str) -> str:
    """1 point, 2 points."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def round_numbers(text: str) -> str:
    """With as many digits as one reads.

    >>> round_numbers("Matern(2.5, 0.36839034632186985)")
    'Matern(2.5, 0.3684)'
    """
    return re.sub(r"\d+\.\d{4,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


def write_duration(seconds: float) -> str:
    """In the unit that suits it.

    >>> write_duration(0.25), write_duration(110), write_duration(600), write_duration(9000)
    ('0.25 s', '110 s', '10 min', '2.5 h')
    """
    fitting = (pair for pair in _UNITS if seconds >= 2 * pair[1])
    unit, size = next(fitting, ("s", 1.0))
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"


def write_facts(value: Any, facts: Iterable[str]) -> str:
    """An object by what is worth knowing of it: Quadrature(256 points in 2 dimensions; ...)."""
    return f"{type(value).__name__}({'; '.join(facts)})"


def html_table(caption: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts, which may hold any characters."""
    lines = [_html_row("th", headings), *(_html_row("td", row) for row in rows)]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def html_with_lines(table: str, lines: Iterable[str]) -> str:
    """A table with lines of text below it."""
    return f"<div>{table}{''.join(f'<p>{escape(line)}</p>' for line in lines)}</div>"


def _html_row(kind: str, cells: Iterable[str]) -> str:
    row = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells)
    return f"<tr>{row}</tr>" if row else ""
