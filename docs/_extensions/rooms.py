"""The API reference: a page for each room of the library, with every public name in it."""

import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from docstrings import as_rst

import owlfi

DOCS = Path(__file__).parents[1]
ROOMS = {
    "problem": "What is asked: simulators, priors, observations, and the rules that weigh runs",
    "inference": "Methods: parameters and posteriors",
    "results": "Results: what methods return",
    "testing": "Tests: could this model have produced the data?",
    "checking": "Checks: calibration, predictive checks, models beside each other",
    "campaign": "Campaigns: runs that cost minutes or hours",
    "show": "Reports",
    "plots": "Plots",
    "models": "Simulators of the literature",
    "weights": "Weights and their certificates",
    "points": "Points u",
    "measures": "Measures: distributions of noise and of parameters",
    "kernels": "Kernels",
    "embeddings": "Embeddings",
    "mmd": "Squared MMD",
}
BASES = {"results": ["owlfi.results.result.Result"]}  # what all in the room can do


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda _app: write_rooms(DOCS))
    return {"parallel_read_safe": True}


def write_rooms(docs: Path) -> None:
    """A page for each room, and the list of them."""
    folder = docs / "api"
    folder.mkdir(exist_ok=True)
    rooms, pages = sort_names(), find_pages(docs)
    for room, title in ROOMS.items():
        _write(folder / f"{room}.rst", _page(title, rooms[room], BASES.get(room, []), pages))
    entries = "\n".join(f"   {room}" for room in ROOMS)
    intro = (
        "Every public name, with an example that runs, as the rooms of the library have them. "
        "All but plots and models are found as ``owlfi.name``. On the command line: "
        ":doc:`../commands`."
    )
    _write(
        folder / "index.rst",
        f"{_heading('API reference', '=')}{intro}\n\n.. toctree::\n   :maxdepth: 2\n\n{entries}\n",
    )


def sort_names() -> dict[str, list[str]]:
    """Public names by room; a room that is not listed here is an error of this page."""
    rooms: dict[str, list[str]] = defaultdict(list)
    for name, module in owlfi._MODULE_OF.items():
        rooms[module.split(".")[1]].append(f"owlfi.{name}")
    rooms["models"] = [f"owlfi.models.{name}" for name in owlfi.models.__all__]
    rooms["plots"] = [f"owlfi.plots.{name}" for name in owlfi.plots.__all__]
    missing = set(rooms) - set(ROOMS)
    if missing:
        raise ValueError(f"rooms {missing} have no title; add them to ROOMS")
    return rooms


def find_pages(docs: Path) -> dict[str, list[str]]:
    """The pages on which each name is used: where to see more of it."""
    pages: dict[str, list[str]] = defaultdict(list)
    for path in sorted(docs.rglob("*.md")):
        if "_build" in path.parts:
            continue
        names = set(re.findall(r"\b(owlfi(?:\.plots|\.models)?\.\w+)\b", path.read_text()))
        for name in names:
            pages[name].append("/" + str(path.relative_to(docs).with_suffix("")))
    return pages


def _page(title: str, names: list[str], bases: list[str], pages: dict[str, list[str]]) -> str:
    rows = "".join(f"   * - :py:obj:`{n} <{n}>`\n     - {_sentence(n)}\n" for n in names)
    table = f".. list-table::\n   :widths: 30 70\n\n{rows}\n"
    entries = "\n".join(_entry(name, pages) for name in [*names, *bases])
    return f"{_heading(title, '=')}{table}\n{entries}"


def _entry(name: str, pages: dict[str, list[str]]) -> str:
    thing = find(name)
    directive = "autoclass" if inspect.isclass(thing) else "autofunction"
    members = "   :members:\n" if inspect.isclass(thing) else ""
    short = name.removeprefix("owlfi.")
    seen = ", ".join(f":doc:`{page}`" for page in pages.get(name, ())[:6])
    also = f"See also: {seen}\n\n" if seen else ""
    return f"{_heading(short, '-')}.. {directive}:: {name}\n{members}\n{also}"


def find(name: str) -> Any:
    """What a dotted name stands for."""
    thing: Any = owlfi
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def _sentence(name: str) -> str:
    text = inspect.getdoc(find(name)) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return " ".join(as_rst(paragraph)).strip() if not paragraph.startswith(">>>") else ""


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def _write(path: Path, text: str) -> None:
    """Only where it changed: Sphinx reads again what is new."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
