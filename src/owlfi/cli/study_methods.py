"""The methods that a study may name, and their options, checked before anything runs."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import jax

import owlfi.inference
from owlfi.cli.study_file import StudyFile
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.weights.quadrature import Quadrature

WITH_A_DESIGN = ("abc", "none")
_METHODS = (  # those that need no derivatives, as runs of a store have none
    *WITH_A_DESIGN,
    "minimum_distance",
    "posterior_bootstrap",
    "pseudo_marginal",
    "rejection_abc",
    "sequential_abc",
)
_WITH_DERIVATIVES = ("mmd_bayes", "random_restarts")
_NOT_IN_A_FILE = ("base_kernel", "optimizer")  # options that are no plain values


class _AskedError(Exception):
    """A method has found nothing wrong with its options."""


class _Asked(Rule):
    """Stops a method where it would begin to work."""

    m: int = 1

    def quadrature(self, key: Any, problem: Problem) -> Quadrature:
        raise _AskedError


def find_method(name: str) -> Callable[..., Any]:
    """The method of a name; "abc" takes the simulations of the campaign."""
    if name == "none":
        return lambda: None
    return getattr(owlfi.inference, "accept" if name == "abc" else name)


def check_method(file: StudyFile, method: str) -> None:
    """StudyError for a method that there is not, or an option that it does not have."""
    there = ", ".join(_METHODS)
    if method in _WITH_DERIVATIVES:
        needs = "needs derivatives, which runs of a store do not have"
        raise file.mistake("method", f"{method} {needs}; there are {there}")
    if method not in _METHODS:
        raise file.mistake("method", f"no method is called {method}; there are {there}")
    known = _list_options(method)
    for key in file.table("options"):
        if key not in known:
            has = f"has the options {', '.join(known)}" if known else "has no options"
            raise file.mistake(key, f"{method} {has}", table="options")


def _list_options(method: str) -> list[str]:
    takes = inspect.signature(find_method(method)).parameters.values()
    names = [option.name for option in takes if option.kind is option.KEYWORD_ONLY]
    return [name for name in names if name not in _NOT_IN_A_FILE]


def check_options(file: StudyFile, method: str, problem: Problem) -> None:
    """StudyError for what the method itself says of its options, before it asks for points."""
    if method == "none":
        return
    options = file.table("options")
    with_points = find_method("rejection_abc" if method == "abc" else method)
    try:
        with_points(jax.random.key(0), problem, _Asked(), **options)
    except _AskedError:
        return
    except (ValueError, TypeError) as error:
        named = [key for key in options if re.search(rf"\b{key}\b", str(error))]
        key, table = (named[0], "options") if named else ("options", "")
        raise file.mistake(key, error, table=table) from error
