"""Results in files, without pickle."""

import json
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from owlfi._tools.checks import as_path
from owlfi._tools.fields import check_value
from owlfi._tools.files import open_arrays, write_whole
from owlfi._tools.forks import refuse_after_fork

Kind = TypeVar("Kind")
_KINDS: dict[str, Any] = {}


def load(path: Any) -> Any:
    """An estimate, a posterior or a test from the file that its `save` wrote.

    Nothing in the file is executed.

    Raises FileNotFoundError where there is none, ValueError for any other file.

    >>> import tempfile
    >>> import jax.numpy as jnp
    >>> from owlfi import Posterior
    >>> posterior = Posterior(("a",), jnp.array([[1.0], [3.0]]), jnp.array([0.5, 0.5]))
    >>> load(posterior.save(Path(tempfile.mkdtemp()) / "posterior.npz"))
    Posterior(a: 2 ± 1; 2 draws; 0 simulator calls)
    """
    refuse_after_fork()
    file = _file(as_path("path", path))
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {str(file)!r}; give the path that save() gave")
    try:
        return _read(file)
    except Exception as error:  # of zip, NumPy, JSON or the types themselves: the file is no result
        raise ValueError(
            f"{path} is no file that owlfi saved ({error!r}); save the result again"
        ) from error


def _read(path: Path) -> Any:
    with open_arrays(path) as file:
        about = json.loads(str(file["about"]))
        arrays = {name: file[name] for name in file.files if name != "about"}
    kind = _KINDS[about.pop("kind")]
    lists = {name: _as_texts(name, about.get(name, [])) for name in ("names", "warnings")}
    values = {**about, **lists, **arrays}
    _check_values(kind, values)
    found = kind(**values | {name: jnp.asarray(array) for name, array in arrays.items()})
    _try_out(found)
    return found


def _as_texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r}")
    return tuple(value)


def _check_values(kind: Any, values: dict[str, Any]) -> None:
    """ValueError for values of other types, or shapes that do not fit together."""
    hints, sizes = get_type_hints(kind), {"p": len(values["names"])}
    for name, value in values.items():
        check_value(name, value, hints[name], sizes)
    for name in kind.never_empty:
        if not np.size(values.get(name, 0)):
            raise ValueError(f"{name} is empty")
    for group in kind.known_together:
        lacking = [name for name in group if values.get(name) is None or not np.size(values[name])]
        if 0 < len(lacking) < len(group):
            raise ValueError(f"{lacking[0]} is lacking, which goes with {' and '.join(group)}")


def _try_out(result: Any) -> None:
    """Show it once: whatever cannot be said of it, such as of `about`, raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NaN, which results may have
        result.summary()
        repr(result)


def register(kind: type[Kind]) -> type[Kind]:
    """Let a type be read again by `load`."""
    _KINDS[kind.__name__] = kind
    return kind


def _file(path: Any) -> Path:
    """With its ending, whether or not it was given: dots in a name are no ending."""
    return Path(path) if str(path).endswith(".npz") else Path(f"{path}.npz")


def save(result: Any, path: Any) -> Path:
    """Write a result, its arrays as they are and the rest as JSON, whole or not at all."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    arrays = {n: v for n, v in values.items() if isinstance(v, jax.Array | np.ndarray)}
    plain = {name: value for name, value in values.items() if name not in arrays}
    target = _file(path)
    about = json.dumps({**plain, "kind": type(result).__name__})
    content: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    with write_whole(target) as file:
        np.savez(file, about=np.array(about), **content)
    return target
