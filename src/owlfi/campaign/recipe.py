"""What is run, as text that every worker understands, and whether its source has changed."""

import difflib
import hashlib
import importlib
from pathlib import Path
from typing import Any

from owlfi._tools.checks import brief
from owlfi.campaign.encoding import decode, encode, find_code, resolve
from owlfi.campaign.store import Store
from owlfi.problem.simulator import Simulator

_LONGEST_DIFFERENCE = 20


def as_recipe(simulator: Any) -> str:
    """A simulator, or the import path of one (or of a function that returns one), as text.

    Raises ValueError for what is no simulator, cannot be imported by workers, or is a command
    without a program.

    >>> as_recipe("owlfi.models:wind_farm")
    '"owlfi.models:wind_farm"'
    """
    check_program(load_simulator(simulator))
    return encode(simulator)


def check_program(simulator: Simulator) -> None:
    """ValueError where a simulator is a command that cannot be started here."""
    check = getattr(simulator.generator, "check_program", None)
    if check is not None:
        check()


def load_simulator(value: Any) -> Simulator:
    """The simulator itself, from an import path, too."""
    found = resolve(value) if isinstance(value, str) else value
    if callable(found) and not isinstance(found, Simulator) and isinstance(value, str):
        found = found()
    if not isinstance(found, Simulator):
        raise ValueError(
            "simulator must be a Simulator, or the import path of one or of a function that "
            f"returns one, got {brief(value)}"
        )
    return found


def load_recipe(recipe: str) -> Simulator:
    """The simulator of a recipe; its code is imported."""
    return load_simulator(decode(recipe, imports=True))


def read_sources(recipe: str) -> dict[str, str]:
    """The source of each module that a recipe names, and a hash of each file of a command."""
    simulator = load_recipe(recipe)  # first: it says what cannot be imported
    modules = {path.split(":")[0] for path in find_code(recipe)[0]}
    found = {module: _read_module(module) for module in modules}
    command = getattr(simulator.generator, "files", ())
    return found | {str(file): _hash_file(Path(file)) for file in command}


def check_source(store: Store, recipe: str, *, accept: bool) -> None:
    """ValueError where the simulator's source has changed and this is not to be accepted."""
    before, now = store.fact("sources") or {}, read_sources(recipe)
    if before == now:
        return
    if accept:
        store.put(sources=now, checked=False)
        return
    changed = "\n".join(
        _describe_change(name, str(before.get(name, "")), now.get(name, ""))
        for name in sorted(before | now)
        if before.get(name) != now.get(name)
    )
    raise ValueError(
        f"the simulator is not the one that {store.path} was made with; runs of both would "
        f"be mixed. accept_changes=True goes on all the same.\n{changed}"
    )


def _describe_change(name: str, before: str, now: str) -> str:
    if before.startswith("sha256 ") or now.startswith("sha256 "):
        return f"{name} is another file now"
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), n=0, lineterm="")
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    more = len(changed) - _LONGEST_DIFFERENCE
    shown = "\n".join(f"  {line}" for line in changed[:_LONGEST_DIFFERENCE])
    return f"{name} changed:\n{shown}" + (f"\n  … and {more} more lines" if more > 0 else "")


def _read_module(module: str) -> str:
    file = getattr(importlib.import_module(module), "__file__", None)
    if file is None or not file.endswith(".py"):
        return "sha256 " if file is None else _hash_file(Path(file))
    return Path(file).read_text(encoding="utf-8")


def _hash_file(file: Path) -> str:
    return f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}" if file.is_file() else "none"
