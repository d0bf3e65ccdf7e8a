"""Tables in text files: cells line by line, all of them or none."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_SEPARATORS = (";", "\t", "|", ",")  # a comma may be decimal where there is another
_GAPS = "", "na", "n/a", "nan", "nan(ind)", "nat", "null", "none", ".", "?", "inf", "infinity"
_ERROR = re.compile(r'\s*"?#([A-ZÀ-Þ]+(/0)?[!?]|N/?[A-Z])(?=[\s,;|"]|$)')  # of Excel: #N/A
_SHOWN = 40
_RARE = 0.1  # of the cells
_FEW = 4  # rows: fewer may begin with 1, 2, 3, or a large number, by chance


@dataclass
class Table:
    """Rows of cells, each with the number of its line."""

    path: Path
    rows: list[tuple[int, list[str]]]
    separator: str
    quoted: bool
    """Whether the first line alone has quotes."""

    def take_names(self, *, required: bool) -> list[str] | None:
        """The first row, where it holds names; it is then no longer among the rows.

        Raises ValueError where it is not clear what it holds.
        """
        line, first = self.rows[0]
        oddities = [cell for cell in first[1:] if not _is_name(cell)]
        named = not oddities and _is_name(first[0] or "index")
        if required or named:
            del self.rows[0]
            return first
        if all(self._is_number(cell) for cell in first):
            self._refuse_numbered_columns()
            self._refuse_halved_numbers()
            return None
        raise ValueError(
            f"{self.path}, line {line} holds neither names alone nor numbers alone: "
            f"{_shorten(first)}; give each column a name or none, and write numbers as 1.5"
        )

    def _refuse_numbered_columns(self) -> None:
        """ValueError where a first row of whole numbers may name the columns, as pandas does."""
        (line, first), others = self.rows[0], [cell for _, row in self.rows[1:] for cell in row]
        counts, whole = first == [str(j) for j in range(len(first))], all(map(_is_whole, first))
        rare = sum(map(_is_whole, others)) < _RARE * len(others)
        alone = whole and rare and (len(first) > 1 or self._is_beyond(first[0], others))
        if others and (counts or alone or self.quoted):
            raise ValueError(
                f"{self.path}, line {line}: {_shorten(first)} may number the columns, or be data; "
                "give the columns names, or write these numbers as 1.0"
            )

    def _refuse_halved_numbers(self) -> None:
        """ValueError where commas divide whole numbers as 1,05 or -0,5 does."""
        before = [cell for _, row in self.rows for cell in row[::2]]
        after = [cell for _, row in self.rows for cell in row[1::2]]
        pairs = all(len(row) % 2 == 0 for _, row in self.rows)
        if self.separator != "," or not pairs or not all(map(_is_grouped, before)):
            return
        fractions = all(map(str.isdigit, after))
        zeros = any(re.fullmatch(r"0\d+", cell) for cell in after) or {"-0", "+0"} & {*before}
        even = len({*map(len, after)}) == 1 and any("." in cell for cell in before)
        if fractions and (zeros or even):
            line, row = self.rows[0]
            raise ValueError(
                f"{self.path}, line {line}: the commas in {_shorten(row)} may be decimal; "
                "write numbers as 1.5"
            )

    def _is_beyond(self, cell: str, others: list[str]) -> bool:
        """Whether a number lies beyond all others, as a year does."""
        known = [float(self._plain(other)) for other in others if self._is_number(other)]
        return len(known) >= _FEW and not min(known) <= float(cell) <= max(known)

    def find_columns(self, names: list[str] | None, wanted: Sequence[str] | None) -> list[int]:
        """The places of columns by their names, of all where none are wanted.

        Raises ValueError for rows of another length, unknown or double names, and an index.
        """
        count = len(names) if names else len(self.rows[0][1])
        for line, row in self.rows:
            if len(row) != count:
                raise ValueError(
                    f"{self.path}, line {line} has {len(row)} cells where there are {count} "
                    f"columns ({_shorten(row)}); give each row as many"
                )
        if wanted is None:
            self._refuse_index(names)
        if names is None:
            return list(range(count))
        return self._find_names(names, list(names if wanted is None else wanted))

    def _refuse_index(self, names: list[str] | None) -> None:
        """ValueError where the first of several columns counts the rows."""
        first, count = [row[0] for _, row in self.rows], len(self.rows)
        found = [float(self._plain(cell)) if self._is_number(cell) else None for cell in first]
        counted = found in ([*range(count)], [*range(1, count + 1)])
        if len(self.rows[0][1]) > 1 and count >= _FEW and counted:
            remedy = (
                "remove it, or give names to the columns and choose"
                if names is None
                else f"choose columns with read_csv(path, columns={[n for n in names[1:] if n]})"
            )
            raise ValueError(f"{self.path}: the first column only counts the rows; {remedy}")

    def _find_names(self, names: list[str], wanted: list[str]) -> list[int]:
        if "" in wanted:
            raise ValueError(
                f"{self.path} has a column without a name, which may number the rows; choose "
                f"columns with read_csv(path, columns={[name for name in names if name]})"
            )
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise ValueError(
                f"columns has {unknown}, but {self.path} has {names}; name some of these"
            )
        double = [name for name in wanted if names.count(name) > 1]
        if double:
            raise ValueError(f"{self.path} has several columns {double[0]!r}; name them apart")
        return [names.index(name) for name in wanted]

    def numbers(self, columns: list[int], names: list[str] | None) -> np.ndarray:
        """The numbers (n, d) of some columns; ValueError for the first cell that is none."""
        self._refuse_two_marks(columns)
        cells = [[self._plain(row[j]) for j in columns] for _, row in self.rows]
        try:
            numbers = np.array(cells, dtype=float)
            if np.isfinite(numbers).all() and not any("_" in cell for row in cells for cell in row):
                return numbers
        except ValueError:
            pass
        raise self._explain(columns, names)

    def _refuse_two_marks(self, columns: list[int]) -> None:
        """ValueError where some numbers have commas, and these or points may divide thousands."""
        cells = [(line, row[j]) for line, row in self.rows for j in columns]
        pointed = [place for place in cells if "." in place[1] and self._is_number(place[1])]
        decimal = [place for place in cells if self._plain(place[1]) != place[1]]
        if decimal and all(re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", cell) for _, cell in decimal):
            line, cell = decimal[0]
            raise ValueError(
                f"{self.path}, line {line}: the comma in {cell!r} may be decimal or divide "
                "thousands; write numbers as 1.5 and 1234"
            )
        if pointed and decimal:
            line, cell = pointed[0]
            raise ValueError(
                f"{self.path}, line {line} has {cell!r} with a point, where other numbers have "
                "decimal commas; write all of them as 1.5"
            )

    def _explain(self, columns: list[int], names: list[str] | None) -> ValueError:
        """The first line that is not all numbers, and which columns are."""
        lines = [
            (line, row[j], j)
            for line, row in self.rows
            for j in columns
            if not self._is_number(row[j])
        ]
        line, cell, _ = lines[0]
        if all(_is_gap(cell) for _, cell, _ in lines):
            return ValueError(
                f"{self.path}, line {line} has {cell!r}, NaN or infinite; remove such lines, or "
                "choose other columns"
            )
        broken = {j for _, _, j in lines}
        texts = [names[j] if names else j + 1 for j in sorted(broken)]
        others = [names[j] for j in columns if names and j not in broken]
        return ValueError(
            f"{self.path}, line {line} has {cell!r} where a number should be; it has text in the "
            f"columns {texts}: separate numbers by commas, and choose columns of numbers with "
            f"read_csv(path, columns={others})"
        )

    def _plain(self, cell: str) -> str:
        """A number as Python writes it, with a decimal point."""
        if self.separator != "," and re.fullmatch(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*", cell):
            return cell.replace(",", ".")
        return cell

    def _is_number(self, cell: str) -> bool:
        try:
            return np.isfinite(float(self._plain(cell))) and "_" not in cell
        except ValueError:
            return False


def read_table(path: Path) -> Table:
    """The table in a file.

    Raises ValueError for a file that is not there, empty or not text, and for errors of Excel.
    """
    if not path.is_file():
        raise ValueError(
            f"observed is {str(path)!r}, but there is no such file; paths begin at {Path.cwd()}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"observed is {str(path)!r}, which is not UTF-8 ({error.reason}); save it as that"
        ) from None
    numbered = list(enumerate(re.split(r"\r\n|\r|\n", text), start=1))
    for number, line in numbered:
        if _ERROR.match(line):
            raise ValueError(
                f"{path}, line {number}: {line[:_SHOWN]!r} begins with an error of Excel, or is a "
                "comment; remove it, or write # and a space before a comment"
            )
    lines = [(number, line) for number, line in numbered if not line.lstrip().startswith("#")]
    while lines and not lines[-1][1].strip():
        lines.pop()
    while lines and not lines[0][1].strip():
        del lines[0]
    if not lines:
        raise ValueError(f"observed is {str(path)!r}, which is empty; write rows of numbers to it")
    separator = _find_separator([line for _, line in lines if line.strip()])
    try:
        cells = _split([line for _, line in lines], separator)
    except csv.Error as error:
        raise ValueError(
            f"{path} is no table of numbers ({error}); write a row a line, with commas between"
        ) from error
    if len(cells) != len(lines):
        raise ValueError(
            f"{path} has a cell in quotes that goes over several lines; write it in one"
        )
    rows = [(number, row) for (number, _), row in zip(lines, cells, strict=True)]
    quoted = ['"' in line for _, line in lines]
    return Table(path, rows, separator, quoted[0] and not any(quoted[1:]))


def _find_separator(lines: list[str]) -> str:
    """The first of the separators that is in every line; a space where there is none."""
    found = [mark for mark in _SEPARATORS if all(mark in line for line in lines)]
    if found:
        return found[0]
    some = [mark for mark in _SEPARATORS if any(mark in line for line in lines)]
    spaced = all(len(line.split()) > 1 for line in lines)
    return " " if spaced or not some else some[0]


def _split(lines: list[str], separator: str) -> list[list[str]]:
    if separator == " ":
        rows = list(csv.reader((" ".join(line.split()) for line in lines), delimiter=" "))
    else:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    return [[cell.strip() for cell in row] or [""] for row in rows]  # an empty line is a gap


def _is_whole(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+", cell) is not None


def _is_grouped(cell: str) -> bool:
    """Whether a cell is a whole number, perhaps with points between thousands."""
    return re.fullmatch(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+)", cell) is not None


def _is_name(cell: str) -> bool:
    """Whether a cell is a name: it has letters, is no gap, and does not begin like a number."""
    worded = re.search(r"[^\W\d_]", cell) and not re.match(r"\W*\d", cell)
    return bool(worded) and not _is_gap(cell)


def _is_gap(cell: str) -> bool:
    return cell.lower().strip("-+<>") in _GAPS


def _shorten(row: list[str]) -> str:
    text = repr(row)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
