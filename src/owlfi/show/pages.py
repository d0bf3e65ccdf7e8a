"""Pages: sections of words, tables and pictures as one HTML file that needs nothing else."""

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from owlfi.show.axes import keep_from_notebook
from owlfi.version import __version__

MOST_BYTES = 3_000_000
_DPI = 110, 80, 55, 35  # the first at which a page is small enough


@dataclass(frozen=True)
class Table:
    """Rows of texts; the first cell of each names it."""

    caption: str
    headings: list[str]
    rows: list[list[str]]
    words: bool = False
    """Whether it holds words rather than numbers."""


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows, for those who see it and those who do not."""

    figure: Any
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """One part of a page; what is empty is left out."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    doubts: tuple[str, ...] = ()
    fine: str = ""
    code: str = ""


def render(title: str, lead: str, sections: list[Section]) -> str:
    """The page as text. All words in it are escaped, wherever they come from.

    Raises ValueError where it does not fit into 3 MB even with coarse pictures.
    """
    for picture in (each for section in sections for each in section.pictures):
        keep_from_notebook(picture.figure)
    for dpi in _DPI:
        text = _template().render(
            title=title,
            lead=lead,
            version=__version__,
            sections=[_draw(section, dpi) for section in sections],
        )
        if len(text.encode()) <= MOST_BYTES:
            return text
    raise ValueError(
        f"the page has {len(text):,} characters, more than {MOST_BYTES:,}; "
        "give a result of fewer parameters or columns"
    )


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("owlfi.show", "templates")
    found = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return found.get_template("report.html")


def _draw(section: Section, dpi: int) -> dict[str, Any]:
    drawn = [_encode(picture, dpi) for picture in section.pictures]
    return {**vars(section), "pictures": [picture for picture in drawn if picture]}


def _encode(picture: Picture, dpi: int) -> dict[str, Any]:
    """As a PNG inside the page; its size in pixels of the first resolution keeps the layout.

    Empty where its numbers are beyond drawing.
    """
    buffer = BytesIO()
    try:
        picture.figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    except (ValueError, OverflowError):  # of ticks between numbers near the largest double
        return {}
    width, height = picture.figure.get_size_inches() * _DPI[0]
    return {
        "data": base64.b64encode(buffer.getvalue()).decode(),
        "caption": picture.caption,
        "alt": picture.alt,
        "width": round(width),
        "height": round(height),
    }
