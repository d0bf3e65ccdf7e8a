"""The TOML file of a study: its keys and their types, and the line of each mistake."""

import ast
import math
import tomllib
from pathlib import Path
from typing import Any

import owlfi

_KEYS = {
    "simulator": str,
    "command": str,
    "noise": str,
    "random": bool,
    "prior": dict,
    "data": str,
    "rule": str,
    "m": int,
    "base_kernel": str,
    "thetas": int,
    "method": str,
    "options": dict,
    "budget": int,
    "explore": dict,
    "run": dict,
    "seed": int,
    "output": str,
}
_TABLES = {
    "run": {"workers": int, "time_limit": (int, float), "retries": int, "dask": str},
    "explore": {"batch": int, "share": (int, float), "safety": (int, float)},
}


_MOST = 2**63 - 1


class StudyError(ValueError):
    """A mistake in a study, with its key and line."""


class StudyFile:
    """The values of a file whose keys and types are as they should be.

    Raises StudyError naming the key and the line of a mistake.
    """

    def __init__(self, path: Path):
        if not path.is_file():
            raise StudyError(f"there is no study {path}; name a TOML file")
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8-sig")
            self.values = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise StudyError(
                f"{path}, line {line} is not UTF-8 ({error.reason}); save it as that"
            ) from None
        except ValueError as error:  # of TOML, or of a number with thousands of digits
            raise StudyError(f"{path}: {error}") from None
        except RecursionError:
            raise StudyError(
                f"{path} has values that are nested too deeply; write them flat"
            ) from None
        self._check_keys(self.values, _KEYS)
        for table, known in _TABLES.items():
            self._check_keys(self.table(table), known, table)

    def table(self, name: str) -> dict[str, Any]:
        """A table of the file, empty where it has none."""
        return self.values.get(name, {})

    def require(self, key: str) -> Any:
        """The value of a key; StudyError where it is missing."""
        if key not in self.values:
            raise StudyError(f"{self.path}: {key} is missing; add it")
        return self.values[key]

    def construct(self, key: str, kind: type, *, table: str = "") -> Any:
        """The measure or kernel that a value describes; StudyError where it is none."""
        value = (self.values[table] if table else self.values)[key]
        try:
            found = construct(value)
            if not isinstance(found, kind):
                raise ValueError(f"{value} is no {kind.__name__.lower()}")
        except (ValueError, TypeError, SyntaxError) as error:
            raise self.mistake(key, error, table=table) from error
        except (RecursionError, MemoryError):
            raise self.mistake(key, "is nested too deeply", table=table) from None
        return found

    def mistake(self, key: str, message: object, *, table: str = "") -> StudyError:
        """The error to raise for the value of a key."""
        name = f"{table}.{key}" if table else key
        line = _find_line(self.text, key, table)
        return StudyError(f"{self.path}, line {line}: {name}: {message}")

    def _check_keys(self, values: dict[str, Any], known: dict[str, Any], table: str = "") -> None:
        for key, value in values.items():
            if key not in known:
                there = ", ".join(known)
                raise self.mistake(key, f"no such key; there are {there}", table=table)
            problem = _find_problem(key, value, known[key])
            if problem:
                raise self.mistake(key, problem, table=table)


def _find_problem(key: str, value: Any, kind: Any) -> str:
    """What is wrong with a value; empty where nothing is."""
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, kind):
        return f"must be of type {getattr(kind, '__name__', 'number')}, got {value!r}"
    if kind is str and not value.strip():
        return "is empty"
    least = 0 if key in ("seed", "retries") else 1
    if kind is int and value < least:
        return f"must be at least {least}, got {value}"
    if kind is int and value > _MOST:
        return f"must be at most {_MOST}, got {value}"
    if key == "time_limit" and not 0 < value < math.inf:
        return f"must be positive seconds, got {value}"
    return ""


def _find_line(text: str, key: str, table: str) -> int:
    """The line where a key of a table is given, of a TOML file that can be read."""
    lines, first = text.split("\n"), 0  # TOML knows no other ends of lines
    for last in range(1, len(lines) + 1):
        try:
            values = tomllib.loads("\n".join(lines[:last]))
        except tomllib.TOMLDecodeError:
            continue  # inside a value of several lines
        if key in (values.get(table, {}) if table else values):
            return next((n for n in range(first, last) if _says_something(lines[n])), first) + 1
        first = last
    return 1


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def construct(text: str) -> Any:
    """A measure or kernel of owlfi from its constructor as text, with plain numbers only.

    Raises ValueError for anything else, SyntaxError for text that is no expression.

    >>> construct("Product(Normal(0, 1), Uniform(-1, 1, dim=2))").dim
    3
    """
    if not isinstance(text, str):
        raise ValueError(f'{text!r} is no text; write it as "Normal(0, 1)"')
    return _evaluate(ast.parse(text.strip(), mode="eval").body, text)


def _evaluate(node: ast.AST, text: str) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        words = [word.arg for word in node.keywords]
        if None in words:
            raise ValueError(f"{text!r} has **, where each keyword must be named")
        if len({*words}) < len(words):
            raise ValueError(f"{text!r} gives a keyword twice; leave one out")
        kind = getattr(owlfi, node.func.id, None)
        if isinstance(kind, type) and issubclass(kind, owlfi.Measure | owlfi.Kernel):
            named = {str(word.arg): _evaluate(word.value, text) for word in node.keywords}
            return kind(*(_evaluate(argument, text) for argument in node.args), **named)
        raise ValueError(
            f"owlfi has no measure or kernel {node.func.id!r}; take one of the "
            "API reference, such as Normal or Matern"
        )
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f'{text!r} must look like "Normal(0, 1)"') from None
