"""Simulators and quadratures as text: import paths, numbers and arrays, no pickle.

Reading text executes nothing that it names unless this is asked for.
"""

import base64
import dataclasses
import io
import json
import pkgutil
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from owlfi._tools.checks import brief
from owlfi._tools.forks import refuse_after_fork

_DATA = re.compile(  # types that hold numbers, and execute nothing
    r"owlfi\.(kernels|measures|weights|problem\.prior|inference\.proposals)\b[\w.]*:\w+"
)
_FOREIGN = "it was not written by this owlfi, and `owlfi campaign check` tells what is whole"
_COMMAND = "owlfi.campaign.external:Command"


def encode(value: Any) -> str:
    """JSON of numbers, arrays, owlfi's types and functions that can be imported.

    Raises ValueError for a function of a script or notebook, a lambda, or another type.

    >>> from owlfi.measures import Normal
    >>> decode(encode(Normal(0, 2))).sd
    Array([2.], dtype=float64)
    """
    return json.dumps(_encode(value))


def decode(text: str, *, imports: bool = False) -> Any:
    """What `encode` was given.

    imports: whether to import the functions and types that the text names; where not, it may hold
        numbers, arrays and what owlfi and scipy.stats have for measures, kernels and weights.

    Raises ValueError for text of another kind, or that names what is not to be imported.
    """
    refuse_after_fork()
    with _refuse_other_text():
        return _decode(json.loads(text), imports)


@contextmanager
def _refuse_other_text() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"this is no text of `encode` ({error!r}); {_FOREIGN}") from error


def decode_tuple(text: str, *kinds: Any) -> tuple[Any, ...]:
    """The same, of a tuple with entries of these types.

    Raises ValueError for anything else.
    """
    found = decode(text)
    fits = isinstance(found, tuple) and len(found) == len(kinds)
    if not fits or not all(map(isinstance, found, kinds)):
        raise ValueError(f"this is no text of {len(kinds)} values that belong together; {_FOREIGN}")
    return found


def resolve(path: str) -> Any:
    """The object at an import path such as "package.module:function".

    Raises ValueError where there is none.

    >>> resolve("math:sqrt")(4.0)
    2.0
    """
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise ValueError(f'an import path must look like "module:function", got {path!r}')
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path!r} cannot be imported ({error}); run from the folder of the module, or install "
            "it where the workers are"
        ) from error


def import_path(function: Any) -> str:
    """The import path of a function or class that every process can import.

    Raises ValueError that says what to do where workers could not import it.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name:
        raise ValueError(
            f"{brief(function)} has no import path; give a function of a module, a Command, or the "
            'simulator as text "module:name"'
        )
    if name.endswith("<lambda>"):
        where = "in a file such as model.py" if module == "__main__" else f"at the top of {module}"
        raise ValueError(
            f"a lambda has no name by which worker processes could import it; define it with def "
            f"{where}, and import it from there"
        )
    if module == "__main__":
        raise ValueError(
            f"{name} is defined in a script or notebook, where worker processes cannot import it; "
            f"move it to a file such as model.py and write `from model import {name}`"
        )
    if "<" in name or resolve(f"{module}:{name}") is not function:
        raise ValueError(
            f"{name} of {module} is made inside another function, so worker processes cannot "
            f"import it; define it at the top of {module}, or give the simulator as text "
            '"module:function_that_returns_it"'
        )
    return f"{module}:{name}"


def find_code(text: str) -> tuple[list[str], list[str]]:
    """What an encoded value names: import paths of code, and the commands that it would execute.

    Raises ValueError for text of another kind.
    """
    paths: list[str] = []
    commands: list[str] = []

    def note(node: dict[str, Any]) -> dict[str, Any]:
        kind = node.get("type", "owlfi.")
        if "function" in node or not kind.startswith("owlfi."):
            paths.append(node.get("function", kind))
        if kind == _COMMAND:
            commands.append(shlex.join(node["fields"]["arguments"]["tuple"]))
        return node

    with _refuse_other_text():
        value = json.loads(text, object_hook=note)
    return ([value] if isinstance(value, str) else paths), commands


def _is_data(path: str) -> bool:
    """Whether an import path is that of a type of owlfi that holds numbers."""
    return _DATA.fullmatch(path) is not None


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        return {"array": _as_base64(np.asarray(value)), "jax": isinstance(value, jax.Array)}
    if hasattr(value, "_asdict"):  # a NamedTuple
        fields = {name: _encode(entry) for name, entry in value._asdict().items()}
        return {"type": import_path(type(value)), "fields": fields}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_encode(entry) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(entry)] for key, entry in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": import_path(type(value)), "fields": fields}
    if hasattr(value, "dist") and hasattr(value, "kwds"):  # a frozen scipy.stats distribution
        return {"scipy": value.dist.name, "args": _encode([list(value.args), dict(value.kwds)])}
    return {"function": import_path(value)}


def _decode(node: Any, imports: bool) -> Any:
    if not isinstance(node, dict):
        return node
    read = partial(_decode, imports=imports)
    if "array" in node:
        array = _from_base64(node["array"])
        return jnp.asarray(array) if node["jax"] else array
    if "type" in node or "function" in node:
        return _rebuild(node, imports)
    if "scipy" in node:
        return _freeze(node["scipy"], *read(node["args"]))
    if "dict" in node:
        return {read(key): read(entry) for key, entry in node["dict"]}
    ((kind, entries),) = node.items()
    return {"tuple": tuple, "list": list}[kind](read(entry) for entry in entries)


def _rebuild(node: dict[str, Any], imports: bool) -> Any:
    """A function, or a value without __init__, which may take other arguments than the fields."""
    path = node["function"] if "function" in node else node["type"]
    if not imports and ("function" in node or not _is_data(path)):
        raise ValueError(
            f"{path!r} is code that a file names, and is not imported to read it; read the file "
            "where you may run it, with trust=True"
        )
    found = resolve(path)
    if "function" in node:
        return found
    if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_make"):
        return found(**{name: _decode(field, imports) for name, field in node["fields"].items()})
    if not dataclasses.is_dataclass(found) or not isinstance(found, type):
        raise ValueError(f"{path!r} is no type of values; {_FOREIGN}")
    if import_path(found) != path:  # by another name, `find_code` would not know it
        raise ValueError(f"{path!r} is {import_path(found)!r} by another name; {_FOREIGN}")
    kinds = {field.name: field.type for field in dataclasses.fields(found)}
    if set(node["fields"]) != set(kinds):
        raise ValueError(f"this is no text of `encode`: {path!r} has other fields; {_FOREIGN}")
    value: Any = object.__new__(found)
    for name, field in node["fields"].items():
        entry = _decode(field, imports)
        if hasattr(kinds[name], "dim_str") and not hasattr(entry, "shape"):
            raise ValueError(
                f"this is no text of `encode`: {name} of {path!r} is no array; {_FOREIGN}"
            )
        object.__setattr__(value, name, entry)
    return value


def _freeze(name: str, args: list[Any], kwds: dict[str, Any]) -> Any:
    """A distribution of scipy.stats with its parameters."""
    family = getattr(scipy.stats, name, None)
    if not isinstance(family, scipy.stats.rv_continuous | scipy.stats.rv_discrete):
        raise ValueError(
            f"scipy.stats has no distribution {name!r}; update scipy to that of the writer"
        )
    return family(*args, **kwds)


def _as_base64(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _from_base64(text: str) -> np.ndarray:
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
