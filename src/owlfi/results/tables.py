"""Tables of results."""

import numpy as np
from jaxtyping import Array

from owlfi._tools.display import join


def table_rows(names: tuple[str, ...], columns: dict[str, Array]) -> list[list[str]]:
    """The headings, then a row for each parameter, with four digits."""
    numbers = ([f"{value:.4g}" for value in np.asarray(column)] for column in columns.values())
    return [["parameter", *columns], *map(list, zip(names, *numbers, strict=True))]


def align(rows: list[list[str]]) -> str:
    """The rows as lines of text, the first column to the left and the others to the right."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([name.ljust(first), *map(str.rjust, cells, others)]) for name, *cells in rows
    )


def write_numbers(names: tuple[str, ...], values: Array, spreads: Array) -> str:
    """Each parameter on one line: a: 2 ± 0.1."""
    numbers = zip(names, np.asarray(values), np.asarray(spreads), strict=True)
    return join([f"{name}: {value:.4g} ± {spread:.2g}" for name, value, spread in numbers])
