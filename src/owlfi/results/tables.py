"""Tables of text for results."""

from jaxtyping import Array


def as_level(level: float) -> float:
    """Raises ValueError for anything but a number between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


def format_table(names: tuple[str, ...], headings: tuple[str, ...], columns: list[Array]) -> str:
    """A row for each parameter, columns of four digits."""
    cells = [
        [heading, *(f"{float(v):.4g}" for v in column)]
        for heading, column in zip(headings, columns, strict=True)
    ]
    first = ["parameter", *names]
    widths = [max(map(len, column)) for column in cells]
    margin = max(map(len, first))
    lines = []
    for i, name in enumerate(first):
        row = (column[i].rjust(width) for column, width in zip(cells, widths, strict=True))
        lines.append("  ".join([name.ljust(margin), *row]))
    return "\n".join(lines)
