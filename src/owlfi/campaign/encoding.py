"""Simulators and quadratures as text: import paths, numbers and arrays, no pickle."""

import base64
import dataclasses
import io
import json
import pkgutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats


def encode(value: Any) -> str:
    """JSON of numbers, arrays, owlfi's types and functions that can be imported.

    Raises ValueError for a function of a script or notebook, a lambda, or another type.

    >>> from owlfi.measures import Normal
    >>> decode(encode(Normal(0, 2))).sd
    Array([2.], dtype=float64)
    """
    return json.dumps(_encode(value))


def decode(text: str) -> Any:
    """What `encode` was given; functions are imported."""
    return _decode(json.loads(text))


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
            f"{function!r} has no import path; give a function of a module, a Command, or the "
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


def find_functions(text: str) -> list[str]:
    """The import paths of all functions in an encoded value."""
    found = []

    def note(node: dict[str, Any]) -> None:
        if "function" in node:
            found.append(node["function"])

    json.loads(text, object_hook=note)
    return found


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        return {"array": _as_base64(np.asarray(value)), "jax": isinstance(value, jax.Array)}
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


def _decode(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if "array" in node:
        array = _from_base64(node["array"])
        return jnp.asarray(array) if node["jax"] else array
    if "type" in node:
        return _rebuild(resolve(node["type"]), node["fields"])
    if "function" in node:
        return resolve(node["function"])
    if "scipy" in node:
        args, kwds = _decode(node["args"])
        return getattr(scipy.stats, node["scipy"])(*args, **kwds)
    if "dict" in node:
        return {_decode(key): _decode(entry) for key, entry in node["dict"]}
    ((kind, entries),) = node.items()
    return {"tuple": tuple, "list": list}[kind](_decode(entry) for entry in entries)


def _rebuild(kind: type, fields: dict[str, Any]) -> Any:
    """Without __init__, which may take other arguments than the fields."""
    value: Any = object.__new__(kind)
    for name, node in fields.items():
        object.__setattr__(value, name, _decode(node))
    return value


def _as_base64(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _from_base64(text: str) -> np.ndarray:
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
