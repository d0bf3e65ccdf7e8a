"""Every warning and every refusal of the library, read from its source."""

import ast
import re
from collections import defaultdict
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
FEWEST_WORDS = 6


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
    found = [message for file in sorted(SOURCE.rglob("*.py")) for message in read(file)]
    warned = [message for message in found if message.kind == "warning"]
    refused = [message for message in found if message.kind != "warning"]
    text = HEAD.format(warnings=len(warned), refusals=len(refused))
    text += f"## Warnings\n\n{WARNINGS}\n{_tables(warned)}## Refusals\n\n{REFUSALS}\n"
    text += _tables(refused)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def read(file: Path) -> list[Message]:
    """The messages of one file, each once."""
    tree = ast.parse(file.read_text())
    messages = dict.fromkeys((*_refusals(tree, file), *_warnings(tree, file)))
    return list(messages)


def _refusals(tree: ast.Module, file: Path) -> list[Message]:
    raised = [n.exc for n in ast.walk(tree) if isinstance(n, ast.Raise)]
    calls = [call for call in raised if isinstance(call, ast.Call) and call.args]
    named = [(ast.unparse(call.func), _text(call.args[0])) for call in calls]
    return [Message(kind, text, file) for kind, text in named if text and _is_error(kind)]


def _is_error(kind: str) -> bool:
    return kind.endswith("Error")


def _warnings(tree: ast.Module, file: Path) -> list[Message]:
    places = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    told = [n for n in places if SENTENCES.fullmatch(n.name) and "str" in ast.unparse(n.returns)]
    texts = [text for function in told for text in _returned(function)]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
    warned = [c for c in calls if ast.unparse(c.func) == "warnings.warn"]
    texts += [text for call in warned if (text := _text(call.args[0]))]
    return [Message("warning", text, file) for text in texts if len(text.split()) >= FEWEST_WORDS]


def _returned(function: ast.FunctionDef) -> list[str]:
    """Whole sentences in a function, not the parts of one."""
    inner = {
        id(child)
        for node in ast.walk(function)
        if isinstance(node, ast.JoinedStr)
        for child in ast.walk(node)
        if child is not node
    }
    docstring = ast.get_docstring(function, clean=False)
    nodes = [n for n in ast.walk(function) if id(n) not in inner]
    texts = [_text(n) for n in nodes if isinstance(n, ast.JoinedStr | ast.Constant)]
    return [text for text in texts if text and text != docstring and text[0] not in ",;"]


def _text(node: ast.expr) -> str:
    """The words of a message, with what is filled in between ‹ and ›."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def _part(node: ast.expr) -> str:
    return f"‹{_name(node.value)}›" if isinstance(node, ast.FormattedValue) else _text(node)


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
    text = ""
    for room, title in ROOMS.items():
        if rooms[room]:
            rows = "".join(_row(message) for message in rooms[room])
            text += f"### {title}\n\n| it says, and why | what to do |\n|---|---|\n{rows}\n"
    left = set(rooms) - set(ROOMS)
    if left:
        raise ValueError(f"rooms {left} have no title; add them to ROOMS")
    return text


def _row(message: Message) -> str:
    return "| " + " | ".join(map(_cell, explain(message.text))) + " |\n"


def explain(text: str) -> tuple[str, str]:
    """Cause and remedy: messages have them on both sides of a semicolon, or of “must … got”."""
    text = " ".join(text.split())
    must = re.match(r"(.{1,60}?) must (.*?),? got (.*)", text)
    if ";" in text:
        cause, _, remedy = text.rpartition(";")
        return cause, remedy.strip()
    if must:
        return text, f"{must[1]} must {must[2]}"
    if ": " in text:
        cause, _, remedy = text.rpartition(": ")
        return cause, remedy
    return text, "change what it names"


def _cell(text: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>|$#~^])", r"\\\1", text)
    return escaped.replace("\n", " ")


HEAD = """# Failures explained

All {warnings} warnings and {refusals} refusals of this version, read from its source when this page
was made; ‹…› is filled in with your numbers. Search this page (Ctrl-F) for the first words of what
you saw.

A **warning** comes with an answer: it is in `result.warnings`, at the end of `summary()` and in the
report, and is issued as an `owlfi.HealthWarning` at your line. A **refusal** is an exception before
any long work. To make errors of warnings:

```python
import warnings

import owlfi

warnings.simplefilter("error", owlfi.HealthWarning)
```

The ten that newcomers meet first, at length: [What does this warning mean?](howto/warnings.md)

"""
WARNINGS = "The answer stands, but should not be taken as it is.\n"
REFUSALS = "Nothing was computed. Most are `ValueError`, and name the argument and its value.\n"
