"""The shape of the source: imports go one way, modules and functions stay short."""

import ast
import graphlib
from importlib import import_module
from pathlib import Path

import pytest

import owlfi

ROOT = Path(owlfi.__file__).parent
SOURCES = {
    ".".join(["owlfi", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}

ROOMS = [  # in the order of the data; each imports from itself and from those before it
    "_tools",
    "kernels",
    "measures",
    "embeddings",
    "points",
    "weights",
    "mmd",
    "problem",
    "models",
    "results",
    "inference",
    "testing",
    "checking",
    "campaign",
    "show",
    "experiments",
    "cli",
]
MATHEMATICS = ROOMS[: ROOMS.index("mmd") + 1]
HEAVY = ("matplotlib", "rich", "typer", "pandas", "arviz", "blackjax", "optax")


def imports(name):
    """The full names of all that a module imports, at its top or inside functions."""
    package = name if SOURCES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, *filter(None, [node.module])]) if node.level else node.module
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name, parent):
    return name == parent or name.startswith(f"{parent}.")


def module_imports(name):
    """The modules of owlfi that a module imports; a package stands for what it takes from it."""
    found = {other for other in imports(name) if other in SOURCES}
    parents = {parent for parent in found for other in found - {parent} if within(other, parent)}
    return found - parents - {name}


def room(name):
    """The folder of a module below the package; the package and its version have none."""
    return name.split(".")[1] if name not in ("owlfi", "owlfi.version") else None


def test_the_top_level_holds_the_rooms_and_nothing_else():
    entries = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert entries - {"__pycache__"} == {"__init__", "version", "data", *ROOMS}


def test_tests_are_in_the_same_rooms():
    tests = Path(__file__).parent
    folders = {path.name for path in tests.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders - {"documents"} <= {*ROOMS}


@pytest.mark.parametrize("name", SOURCES)
def test_modules_import_only_from_their_room_or_from_rooms_before_it(name):
    if room(name) is not None:
        reached = {room(other) for other in module_imports(name)} - {None}
        assert {r for r in reached if ROOMS.index(r) > ROOMS.index(room(name))} == set()


@pytest.mark.parametrize("name", [name for name in SOURCES if room(name) in MATHEMATICS[1:]])
def test_mathematics_imports_neither_plots_nor_command_line(name):
    wrong = [other for other in imports(name) if any(within(other, bad) for bad in HEAVY)]
    assert not wrong


BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_benchmarks_import_exists(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and within(node.module or "", "owlfi"):
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or f"{node.module}.{name}" in SOURCES


def test_imports_never_go_in_a_circle():
    graphlib.TopologicalSorter({name: module_imports(name) for name in SOURCES}).prepare()


@pytest.mark.parametrize("name", SOURCES)
def test_no_module_is_longer_than_350_lines(name):
    assert len(SOURCES[name].read_text(encoding="utf-8").splitlines()) <= 350


def lines_of(node):
    """The lines of a function without its docstring."""
    text = ast.get_docstring(node)
    return node.end_lineno - node.lineno + 1 - (text.count("\n") + 1 if text else 0)


FUNCTIONS = {
    f"{name}.{node.name}": lines_of(node)
    for name, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
}


def test_functions_are_short():
    sizes = sorted(FUNCTIONS.values())
    assert not [name for name, size in FUNCTIONS.items() if size > 50]
    assert sizes[len(sizes) // 2] <= 7
    assert sizes[9 * len(sizes) // 10] <= 20
