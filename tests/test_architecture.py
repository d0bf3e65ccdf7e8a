"""The shape of the source: imports go one way, modules and functions stay short."""

import ast
import graphlib
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

MATHEMATICS = [
    "adaptive",
    "certificate",
    "checks",
    "closed_forms",
    "coordinates",
    "embeddings",
    "herding",
    "kernel_algebra",
    "keys",
    "kernels",
    "line_pieces",
    "line_quadrature",
    "measures",
    "median",
    "minimise",
    "mmd",
    "points",
    "pooled_weights",
    "quadrature",
    "special",
    "structure",
    "sums",
    "surrogate",
    "tuned_weights",
    "tuning",
    "whitening",
]
PROBLEM = ["failures", "observed", "optional", "prior", "problem", "recommend"]
METHODS = ["inference", "progress", "results", "testing"]
LAYERS = [
    MATHEMATICS,
    [*PROBLEM, "rules", "simulator", "transforms"],
    ["models"],
    METHODS,
    ["campaign"],
    ["null_plot", "plots", "study", "study_steps"],
    ["experiments"],
    ["campaign_cli"],
    ["cli"],
]
FORBIDDEN = ("matplotlib", "rich", "typer", "owlfi.cli", "owlfi.models", "owlfi.experiments")


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


def layer(name):
    """How far a module is from the mathematics."""
    for depth, parts in enumerate(LAYERS):
        if any(within(name, f"owlfi.{part}") for part in parts):
            return depth
    return 0 if name == "owlfi.version" else len(LAYERS)


def is_mathematics(name):
    return any(within(name, f"owlfi.{part}") for part in MATHEMATICS)


MATHEMATICAL_MODULES = [name for name in SOURCES if is_mathematics(name)]


@pytest.mark.parametrize("part", MATHEMATICS)
def test_every_part_of_the_mathematics_exists(part):
    assert f"owlfi.{part}" in SOURCES


@pytest.mark.parametrize("name", MATHEMATICAL_MODULES)
def test_mathematics_imports_neither_plots_nor_command_line_nor_models(name):
    wrong = [other for other in imports(name) if any(within(other, bad) for bad in FORBIDDEN)]
    assert not wrong


@pytest.mark.parametrize("name", MATHEMATICAL_MODULES)
def test_mathematics_imports_only_mathematics(name):
    assert all(is_mathematics(other) for other in module_imports(name))


@pytest.mark.parametrize("name", SOURCES)
def test_modules_import_only_from_their_layer_or_from_below(name):
    assert [other for other in module_imports(name) if layer(other) > layer(name)] == []


def test_imports_never_go_in_a_circle():
    graphlib.TopologicalSorter({name: module_imports(name) for name in SOURCES}).prepare()


@pytest.mark.parametrize("name", SOURCES)
def test_no_module_is_longer_than_400_lines(name):
    assert len(SOURCES[name].read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("name", SOURCES)
def test_no_function_is_longer_than_60_lines(name):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = [
        node.name
        for node in ast.walk(TREES[name])
        if isinstance(node, functions) and node.end_lineno - node.lineno + 1 > 60
    ]
    assert not long
