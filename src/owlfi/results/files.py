"""Results in files, without pickle."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Kind = TypeVar("Kind")
_KINDS: dict[str, Any] = {}


def load(path: Any) -> Any:
    """An estimate, a posterior or a test from the file that its `save` wrote.

    Raises FileNotFoundError where there is none, ValueError for any other file.
    """
    if not _file(path).is_file():
        raise FileNotFoundError(
            f"there is no file {str(_file(path))!r}; give the path that save() returned"
        )
    try:
        with np.load(_file(path), allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            arrays = {name: jnp.asarray(file[name]) for name in file.files if name != "about"}
        kind = _KINDS[about.pop("kind")]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no file that owlfi saved ({error})") from error
    lists = {name: tuple(about.get(name, ())) for name in ("names", "warnings")}
    return kind(**{**about, **lists}, **arrays)


def register(kind: type[Kind]) -> type[Kind]:
    """Let a type be read again by `load`."""
    _KINDS[kind.__name__] = kind
    return kind


def _file(path: Any) -> Path:
    """With its ending, whether or not it was given: dots in a name are no ending."""
    return Path(path) if str(path).endswith(".npz") else Path(f"{path}.npz")


def save(result: Any, path: Any) -> Path:
    """Write a result, its arrays as they are and the rest as JSON."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    arrays = {n: v for n, v in values.items() if isinstance(v, jax.Array | np.ndarray)}
    plain = {name: value for name, value in values.items() if name not in arrays}
    target = _file(path)
    about = json.dumps({**plain, "kind": type(result).__name__})
    content: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(target, about=np.array(about), **content)
    return target
