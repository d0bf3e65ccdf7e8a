"""Every warning and every refusal of the library, read from its source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import owlfi

SOURCE = Path(owlfi.__file__).parent
DOCS = Path(__file__).parents[1]
ROOMS = {
    "problem": "Simulators, priors, observations, rules",
    "inference": "Methods",
    "testing": "Tests",
    "checking": "Calibration, checks, comparisons",
    "results": "Results",
    "campaign": "Campaigns",
    "cli": "The command line",
    "show": "Reports and plots",
    "weights": "Weights",
    "points": "Points",
    "measures": "Measures",
    "kernels": "Kernels",
    "embeddings": "Embeddings",
    "mmd": "Squared MMD",
    "_tools": "Arguments of any function",
    "models": "Models",
    "__init__": "The package",
    "experiments": "Experiments",
}
SENTENCES = re.compile(r"_?tell_\w*")
UNSEEN = ("AttributeError", "NotImplementedError")  # of Python, and caught where they are raised
PASSED_ON = re.compile(r"[^;]*: ‹[^›]*›|‹[^›]*›")  # what another message said
FEWEST_WORDS = 6  # of a sentence
REMEDIES = ("remedy", "instead")  # parameters that take what callers advise


class Message(NamedTuple):
    """What is said, by what kind of error or warning, in which file."""

    kind: str
    text: str
    file: Path

    @property
    def room(self) -> str:
        return self.file.relative_to(SOURCE).parts[0].removesuffix(".py")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda _app: write_page(DOCS / "failures.md"))
    return {"parallel_read_safe": True}


def write_page(path: Path) -> None:
    """All of them, by room."""
    found = read_all()
    warned = [message for message in found if message.kind == "warning"]
    refused = [message for message in found if message.kind != "warning"]
    text = HEAD.format(warnings=len(warned), refusals=len(refused))
    text += f"## Warnings\n\n{WARNINGS}\n{_tables(warned)}## Refusals\n\n{REFUSALS}\n"
    text += _tables(refused)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


@cache
def read_all() -> tuple[Message, ...]:
    """The messages of the library, each once in its room."""
    trees = {file: ast.parse(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}
    calls = defaultdict(list)
    for call in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(call, ast.Call):
            calls[ast.unparse(call.func).rpartition(".")[2]].append(call)
    constants = {name: node for tree in trees.values() for name, node in _assigned(tree.body)}
    messages = {}
    for file, tree in trees.items():
        known = constants | dict(_assigned(tree.body))
        for message in _read(tree, file, known, calls):
            messages.setdefault((message.room, message.text), message)
    return tuple(messages.values())


def _assigned(statements: list[ast.stmt]) -> list[tuple[str, ast.expr]]:
    """Names of words, numbers and texts made of them."""
    nodes = [n for n in statements if isinstance(n, ast.Assign)]
    named = [(n.targets[0].id, n.value) for n in nodes if isinstance(n.targets[0], ast.Name)]
    kinds = (ast.Constant, ast.JoinedStr, ast.IfExp)
    return [(name, value) for name, value in named if isinstance(value, kinds)]


def _read(tree: ast.Module, file: Path, constants: dict, calls: dict) -> Iterator[Message]:
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    unseen = _find_unseen(functions)
    for function in functions:
        locals_ = [n for n in ast.walk(function) if isinstance(n, ast.stmt)]
        words = Words(constants | dict(_assigned(locals_)) | _advised(function, calls))
        for kind, node in _said(function, unseen):
            text = " ".join(words.of(node).split())
            if text and not PASSED_ON.fullmatch(text):
                yield Message(kind, text, file)


def _advised(function: ast.FunctionDef, calls: dict) -> dict[str, ast.expr]:
    """What callers give for a parameter that takes the remedy."""
    arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    found = {}
    for name in REMEDIES:
        given = [k.value for c in calls[function.name] for k in c.keywords if k.arg == name]
        if name in arguments:
            place = arguments.index(name) - (arguments[0] == "self")
            given += [c.args[place] for c in calls[function.name] if len(c.args) > place]
        texts = {ast.unparse(node): node for node in given if isinstance(node, ast.Constant)}
        if texts:
            found[name] = ast.Tuple(list(texts.values()))
    return found


def _said(function: ast.FunctionDef, unseen: set[int]) -> Iterator[tuple[str, ast.expr]]:
    """Nodes with the text of errors and warnings, each with its kind."""
    for node in _own(function):
        if isinstance(node, ast.Raise | ast.Return) and id(node) not in unseen:
            error = node.exc if isinstance(node, ast.Raise) else node.value
            kind = ast.unparse(error.func) if isinstance(error, ast.Call) and error.args else ""
            if kind.endswith("Error") and kind not in UNSEEN:
                yield kind, error.args[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            yield "warning", node.args[0]
    if SENTENCES.fullmatch(function.name) and "str" in ast.unparse(function.returns):
        yield from (("warning", node) for node in _returned(function))


@cache
def _own(function: ast.FunctionDef) -> tuple[ast.AST, ...]:
    """The nodes of a function without those of functions inside of it."""
    found, waiting = [], [*reversed(function.body)]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
            waiting += reversed([*ast.iter_child_nodes(node)])
    return tuple(found)


def _find_unseen(functions: list[ast.FunctionDef]) -> set[int]:
    """What is raised to be caught in the same file, and so never seen.

    It stands in a `try` that catches it, or in a private function that is only called there.
    """
    caught = {id(node) for function in functions for node in _find_caught(function)}
    while True:
        safe = {
            f.name for f in functions if f.name.startswith("_") and _is_safe(f, functions, caught)
        }
        inner = {id(n) for f in functions if f.name in safe for n in _own(f)}
        if inner <= caught:
            return caught
        caught |= inner


def _is_safe(function: ast.FunctionDef, functions: list[ast.FunctionDef], caught: set[int]) -> bool:
    names = [n for f in functions if f is not function for n in _own(f) if isinstance(n, ast.Name)]
    uses = [id(name) for name in names if name.id == function.name]
    return bool(uses) and caught.issuperset(uses)


def _find_caught(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for attempt in (n for n in _own(function) if isinstance(n, ast.Try)):
        kinds = {name for h in attempt.handlers if h.type for name in _names(h.type)}
        if kinds & {"ValueError", "Exception"}:
            yield from (n for statement in attempt.body for n in ast.walk(statement))


def _names(node: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The sentences of a function: not the parts of one, nor words that have a name."""
    named = {id(n.value) for n in _own(function) if isinstance(n, ast.Assign)}
    waiting: list[ast.AST] = [*function.body[bool(ast.get_docstring(function)) :]]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.JoinedStr | ast.Constant):
            long = len(ast.unparse(node).split()) >= FEWEST_WORDS
            yield from [node] * (long and id(node) not in named)
        elif id(node) not in named or not isinstance(node, ast.IfExp):
            waiting = [*ast.iter_child_nodes(node), *waiting]


class Words(NamedTuple):
    """The words of messages: what is not known beforehand stands between ‹ and ›."""

    known: dict[str, ast.expr]

    def of(self, node: ast.AST) -> str:
        """Of a text; nothing where it has none."""
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.JoinedStr():
                return "".join(map(self._part, node.values))
            case ast.BinOp(op=ast.Add()):
                return self.of(node.left) + self.of(node.right)
            case ast.IfExp():
                return " / ".join(filter(None, (self.of(node.body), self.of(node.orelse))))
            case ast.Tuple():
                return " / ".join(map(self.of, node.elts))
            case ast.Name() if node.id in self.known:
                return self.of(self.known[node.id])
        return ""

    def _part(self, node: ast.expr) -> str:
        if not isinstance(node, ast.FormattedValue):
            return self.of(node)
        return self.of(node.value) or self._number(node.value) or f"‹{_name(node.value)}›"

    def _number(self, node: ast.expr) -> str:
        value = self.known.get(node.id) if isinstance(node, ast.Name) else None
        return f"{value.value:,}" if isinstance(value, ast.Constant) and value.value else ""


def _name(node: ast.expr) -> str:
    """A word for what is filled in: the most telling name of the expression."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    names = [n.attr if isinstance(n, ast.Attribute) else n.id for n in ast.walk(node) if _named(n)]
    telling = [name.strip("_").replace("_", " ") for name in names if name not in _WORDLESS]
    return telling[0] if telling else "…"


def _named(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name)


_WORDLESS = {"len", "brief", "join", "str", "float", "int", "list", "self", "np", "repr", "sorted"}


def _tables(messages: list[Message]) -> str:
    rooms: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        rooms[message.room].append(message)
    left = set(rooms) - set(ROOMS)
    if left:
        raise ValueError(f"rooms {left} have no title; add them to ROOMS")
    there = [(title, rooms[room]) for room, title in ROOMS.items() if rooms[room]]
    return "".join(f"### {title}\n\n{_table(found)}" for title, found in there)


def _table(messages: list[Message]) -> str:
    """Causes with remedies, and then arguments with what they must be."""
    told = [explain(message.text) for message in messages]
    advised = [(t.cause, t.remedy) for t in told if isinstance(t, Advice)]
    asked = [(t.argument, t.must) for t in told if isinstance(t, Demand)]
    first = _rows("it says, and why | what to do", advised)
    return first + _rows("argument | must", asked)


def _rows(head: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    lines = "".join("| " + " | ".join(map(_cell, row)) + " |\n" for row in rows)
    return f"| {head} |\n|---|---|\n{lines}\n"


class Advice(NamedTuple):
    """A message with cause and remedy."""

    cause: str
    remedy: str


class Demand(NamedTuple):
    """A message that says what an argument must be: to give that is the remedy."""

    argument: str
    must: str


def explain(text: str) -> Advice | Demand:
    """Cause and remedy: messages have them on both sides of the last semicolon, or of “must”.

    Raises ValueError for others: they say nothing of what to do.
    """
    cause, semicolon, remedy = text.rpartition("; ")
    if semicolon:
        return Advice(cause, remedy)
    demand = re.match(r"(.{1,80}?) must (.*?)(?:,? got .*)?$", text)
    if demand:
        return Demand(demand[1], demand[2])
    raise ValueError(f"{text!r} has no remedy; write it behind a semicolon")


def _cell(text: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>|$#~^])", r"\\\1", text)
    return escaped.replace("\n", " ")


HEAD = """# Failures explained

All {warnings} warnings and {refusals} refusals of this version, read from its source when this page
was made; ‹…› is filled in with your numbers, and / stands between words of which one is said.
Search this page (Ctrl-F) for the first words of what you saw.

A **warning** comes with an answer: it is in `result.warnings`, at the end of `summary()` and in the
report, and is issued as an `owlfi.HealthWarning` at your line. A **refusal** is an exception,
mostly before any long work. To make errors of warnings:

```python
import warnings

import owlfi

warnings.simplefilter("error", owlfi.HealthWarning)
```

The ten that newcomers meet first, at length: [What does this warning mean?](howto/warnings.md) What
`quadrature.explain()` says is no warning: [How to read a certificate](howto/certificate.md)

"""
WARNINGS = "The answer stands, but should not be taken as it is.\n"
REFUSALS = """Most are `ValueError`, and name the argument and its value. Where it must be
something, the message says what and ends with what it got: give the former.
"""
