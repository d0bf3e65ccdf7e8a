"""Campaigns: simulators that cost minutes or hours, run once each, kept in one file."""

from importlib import import_module
from typing import Any

_WHERE = {  # each public name, by the module that is imported when it is first used
    "archive": "Status",
    "campaign": "Campaign",
    "driver": "NotRepeatableError Progress TooManyFailuresError",
    "external": "Command",
}
_MODULE_OF = {
    name: f"{__name__}.{module}" for module, names in _WHERE.items() for name in names.split()
}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    """Import what is used: a program that only reads a store waits for nothing else."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
