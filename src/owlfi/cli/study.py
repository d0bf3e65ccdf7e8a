"""Studies: a whole inference in one TOML file, checked before anything runs."""

import ast
import inspect
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import owlfi
import owlfi.inference
from owlfi.campaign import Command
from owlfi.campaign.encoding import resolve
from owlfi.campaign.recipe import as_recipe
from owlfi.kernels import Kernel
from owlfi.measures import Measure
from owlfi.problem.observed import as_observed
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature

_KEYS = {
    "simulator": str,
    "command": str,
    "noise": str,
    "prior": dict,
    "data": str,
    "rule": str,
    "m": int,
    "kernel": str,
    "thetas": int,
    "method": str,
    "options": dict,
    "budget": int,
    "explore": dict,
    "run": dict,
    "seed": int,
    "output": str,
}
_RUN_KEYS = {"workers": int, "time_limit": (int, float), "retries": int, "dask": str}
_EXPLORE_KEYS = {"batch": int, "share": (int, float), "safety": (int, float)}
_PILOT = 0.3  # of the budget, where thetas are proposed
_RULES = ("OptimallyWeighted", "VStatistic", "UStatistic", "Adaptive")
_WITH_A_DESIGN = ("abc", "none")
_METHODS = (  # those that need no derivatives, as runs of a store have none
    *_WITH_A_DESIGN,
    "minimum_distance",
    "posterior_bootstrap",
    "pseudo_marginal",
    "rejection_abc",
    "sequential_abc",
)
_WITH_DERIVATIVES = ("mmd_bayes", "random_restarts")
_NOT_IN_A_FILE = ("base_kernel", "optimizer")  # options that are no plain values


class StudyError(ValueError):
    """A mistake in a study, with its key and line."""


@dataclass(frozen=True)
class Study:
    """What a study asks for; everything in it has been checked."""

    simulator: Simulator
    observed: np.ndarray
    rule: Rule
    thetas: int
    method: str
    options: dict[str, Any]
    budget: int | None
    explore: dict[str, Any] | None
    """How thetas are proposed, None where all come from the prior."""
    run: dict[str, Any]
    seed: int
    output: Path
    plan: dict[str, Any]
    """What its design follows from, as the file has it."""

    @property
    def store(self) -> Path:
        """Where its runs are kept."""
        return self.output / "runs.sqlite"


def read_study(path: str | Path) -> Study:
    """The study in a TOML file; files in it are relative to its folder.

    Raises StudyError naming the key and the line of a mistake.
    """
    file = Path(path)
    if not file.is_file():
        raise StudyError(f"there is no study {file}")
    return _Reader(file).study()


class _Reader:
    """One file being checked, key by key."""

    def __init__(self, file: Path):
        self.file = file
        self.text = file.read_text(encoding="utf-8")
        try:
            self.values = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"{file}: {error}") from None

    def study(self) -> Study:
        self._check_keys(self.values, _KEYS)
        self._check_keys(self.values.get("run", {}), _RUN_KEYS, "run")
        self._check_keys(self.values.get("explore", {}), _EXPLORE_KEYS, "explore")
        simulator = self._simulator()
        method = self.values.get("method", "abc")
        self._check_method(method)
        observed = self._observed()
        rule, thetas = self._rule(), self._thetas(method)
        problem = self._problem(simulator, observed)
        self._check_options(method, problem)
        run = dict(self.values.get("run", {}))
        if "command" in self.values:
            run.pop("time_limit", None)  # the command keeps it
        if "dask" in run:
            run["executor"] = run.pop("dask")
        return Study(
            simulator,
            observed,
            rule,
            thetas,
            method,
            self.values.get("options", {}),
            self.values.get("budget"),
            self._explore(method),
            run,
            self.values.get("seed", 0),
            self.file.parent / self.values.get("output", "out"),
            self._plan(rule, thetas),
        )

    def _plan(self, rule: Any, thetas: int) -> dict[str, Any]:
        plan = {
            "rule": type(rule).__name__,
            "m": rule.m,
            "kernel": self.values.get("kernel", "tuned"),
            "seed": self.values.get("seed", 0),
        }
        of_budget = "thetas" not in self.values and "explore" in self.values
        return plan if of_budget else plan | {"thetas": thetas}  # a budget may grow

    def mistake(self, key: str, message: object, table: str = "") -> StudyError:
        name = f"{table}.{key}" if table else key
        return StudyError(f"{self.file}, line {_line_of(self.text, key, table)}: {name}: {message}")

    def _check_keys(self, values: dict[str, Any], known: dict[str, Any], table: str = "") -> None:
        for key, value in values.items():
            if key not in known:
                there = ", ".join(known)
                raise self.mistake(key, f"no such key; there are {there}", table)
            if isinstance(value, bool) or not isinstance(value, known[key]):
                wanted = getattr(known[key], "__name__", "number")
                raise self.mistake(key, f"must be of type {wanted}, got {value!r}", table)
            least = 0 if key in ("seed", "retries") else 1
            if known[key] is int and value < least:
                raise self.mistake(key, f"must be at least {least}, got {value}", table)
            if key == "time_limit" and not value > 0:
                raise self.mistake(key, f"must be positive seconds, got {value}", table)

    def _needed(self, key: str) -> Any:
        if key not in self.values:
            raise StudyError(f"{self.file}: {key} is missing")
        return self.values[key]

    def _simulator(self) -> Simulator:
        if ("simulator" in self.values) == ("command" in self.values):
            raise StudyError(f"{self.file}: give one of simulator (an import path) and command")
        key = "command" if "command" in self.values else "simulator"
        try:
            generator = self._generator(key)
            simulator = self._with_noise(generator)
            as_recipe(simulator)
        except StudyError:
            raise
        except Exception as error:
            raise self.mistake(key, error) from error
        return simulator

    def _generator(self, key: str) -> Any:
        if key == "command":
            limit = self.values.get("run", {}).get("time_limit")
            return Command(self.values[key], time_limit=limit)
        found = resolve(self.values[key])
        takes = getattr(getattr(found, "__code__", None), "co_argcount", None)
        return found() if takes == 0 else found

    def _with_noise(self, generator: Any) -> Simulator:
        if isinstance(generator, Simulator):
            prior = self._prior() if "prior" in self.values else generator.prior
            measure = self._read("noise") if "noise" in self.values else generator.measure
            names, function = generator.parameters, generator.generator
            return Simulator(function, measure, names, prior=prior, on_host=generator.on_host)
        self._needed("noise")
        self._needed("prior")
        prior, on_host = self._prior(), isinstance(generator, Command) or None
        return Simulator(generator, self._read("noise"), prior.names, prior=prior, on_host=on_host)

    def _prior(self) -> Prior:
        names = self.values["prior"]
        return Prior(**{name: self._read(name, "prior") for name in names})

    def _read(self, key: str, table: str = "", kind: type = Measure) -> Any:
        """The measure or kernel that a value describes."""
        value = (self.values[table] if table else self.values)[key]
        try:
            made = constructed(value)
            if not isinstance(made, kind):
                raise ValueError(f"{value} is no {kind.__name__.lower()}")
        except (ValueError, TypeError, SyntaxError) as error:
            raise self.mistake(key, error, table) from error
        return made

    def _observed(self) -> np.ndarray:
        path = self.file.parent / self._needed("data")
        try:
            if path.suffix == ".csv":
                return np.asarray(as_observed(path))
            read = partial(np.load, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt
            return np.asarray(as_observed(read(path)))
        except (OSError, ValueError) as error:
            raise self.mistake("data", error) from error

    def _problem(self, simulator: Simulator, observed: np.ndarray) -> Problem:
        if simulator.prior is None:
            self._needed("prior")
        try:
            return Problem(simulator, observed)
        except ValueError as error:
            raise self.mistake("data", error) from error

    def _rule(self) -> Rule:
        name = self.values.get("rule", "OptimallyWeighted")
        if name not in _RULES or not hasattr(owlfi, name):
            known = ", ".join(rule for rule in _RULES if hasattr(owlfi, rule))
            raise self.mistake("rule", f"no rule is called {name}; there are {known}")
        options = {"m": self.values["m"]} if "m" in self.values else {}
        if "kernel" in self.values:
            text = self.values["kernel"]
            options["kernel"] = self._read("kernel", kind=Kernel) if "(" in text else text
        try:
            return getattr(owlfi, name)(**options)
        except (TypeError, ValueError) as error:
            raise self.mistake("rule", error) from error

    def _thetas(self, method: str) -> int:
        if "thetas" in self.values:
            return self.values["thetas"]
        if "budget" in self.values and "m" in self.values:
            part = _PILOT if "explore" in self.values else 1
            return max(1, int(part * self.values["budget"]) // self.values["m"])
        if method in _WITH_A_DESIGN:
            raise StudyError(f"{self.file}: give thetas, or budget and m, for method {method}")
        return 0

    def _explore(self, method: str) -> dict[str, Any] | None:
        if "explore" not in self.values:
            return None
        if method not in _WITH_A_DESIGN or "budget" not in self.values:
            needed = "a budget, and method abc or none"
            raise self.mistake("explore", f"proposals need {needed}")
        for key in ("share", "safety"):
            if not 0 < self.values["explore"].get(key, 1) <= 1:
                got = self.values["explore"][key]
                raise self.mistake(key, f"must lie above 0 and be at most 1, got {got}", "explore")
        return self.values["explore"]

    def _check_method(self, method: str) -> None:
        there = ", ".join(_METHODS)
        if method in _WITH_DERIVATIVES:
            needs = "needs derivatives, which runs of a store do not have"
            raise self.mistake("method", f"{method} {needs}; there are {there}")
        if method not in _METHODS:
            raise self.mistake("method", f"no method is called {method}; there are {there}")
        takes = inspect.signature(method_called(method)).parameters.values()
        named = [option.name for option in takes if option.kind is option.KEYWORD_ONLY]
        known = [name for name in named if name not in _NOT_IN_A_FILE]
        for key in self.values.get("options", {}):
            if key not in known:
                has = f"has the options {', '.join(known)}" if known else "has no options"
                raise self.mistake(key, f"{method} {has}", "options")

    def _check_options(self, method: str, problem: Problem) -> None:
        """What the method itself says of its options, before it would ask for points."""
        options = self.values.get("options", {})
        if method == "none":
            return
        checked = method_called("rejection_abc" if method == "abc" else method)
        try:
            checked(jax.random.key(0), problem, _Asked(), **options)
        except _AskedError:
            return
        except (ValueError, TypeError) as error:
            named = [key for key in options if re.search(rf"\b{key}\b", str(error))]
            key, table = (named[0], "options") if named else ("options", "")
            raise self.mistake(key, error, table) from error


def constructed(text: str) -> Any:
    """A measure or kernel of owlfi from its constructor as text, with plain numbers only.

    Raises ValueError for anything else.

    >>> constructed("Product(Normal(0, 1), Uniform(-1, 1, dim=2))").dim
    3
    """
    if not isinstance(text, str):
        raise ValueError(f'must be text such as "Normal(0, 1)", got {text!r}')
    tree = ast.parse(text.strip(), mode="eval").body
    return _made(tree, text)


def _made(node: ast.AST, text: str) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kind = getattr(owlfi, node.func.id, None)
        if isinstance(kind, type) and issubclass(kind, Measure | Kernel):
            named = {word.arg: _made(word.value, text) for word in node.keywords if word.arg}
            return kind(*(_made(argument, text) for argument in node.args), **named)
        raise ValueError(f"owlfi has no measure or kernel {node.func.id!r}")
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f'{text!r} must look like "Normal(0, 1)"') from None


class _AskedError(Exception):
    """A method has found nothing wrong with its options."""


class _Asked(Rule):
    """Stops a method where it would begin to work."""

    def quadrature(self, key: Any, problem: Problem) -> Quadrature:
        raise _AskedError


def method_called(name: str) -> Callable[..., Any]:
    """The method of a name; "abc" takes the simulations of the campaign."""
    if name == "none":
        return lambda: None
    return getattr(owlfi.inference, "accepted" if name == "abc" else name)


def _line_of(text: str, key: str, table: str) -> int:
    """The line of a key in a table, or of the table itself, of a TOML file that can be read."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        heading = re.match(r"\s*\[([^\]]+)\]", line)
        current = heading[1].strip() if heading else current
        found = re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.)", line)
        if (heading and current == key and not table) or (found and current == table):
            return number
    return 1
