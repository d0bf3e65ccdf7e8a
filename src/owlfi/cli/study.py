"""Studies: a whole inference in one TOML file, checked before anything runs."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import jax
import numpy as np

import owlfi
from owlfi._tools.checks import MOST_COUNT, as_path
from owlfi.campaign.cluster import is_address
from owlfi.campaign.encoding import resolve
from owlfi.campaign.external import Command
from owlfi.campaign.recipe import as_recipe
from owlfi.cli.study_file import StudyError, StudyFile
from owlfi.kernels import Kernel
from owlfi.measures import Measure
from owlfi.problem.observed import observe
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature

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


@dataclass(frozen=True)
class Study:
    """What a study asks for; everything in it has been checked."""

    simulator: Simulator
    observed: np.ndarray
    columns: tuple[str, ...] | None
    """Their names, where the file has any."""
    rule: Rule
    thetas: int
    method: str
    options: dict[str, Any]
    budget: int | None
    explore: dict[str, Any] | None
    """How thetas are proposed, None where all come from the prior."""
    workers: dict[str, Any]
    """What runs the simulator: options of `Campaign.keep_workers`."""
    run: dict[str, Any]
    """Further options of `Campaign.run`."""
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
    file = StudyFile(Path(path))
    _check_limits(file)
    simulator = _read_simulator(file)
    method = file.values.get("method", "abc")
    _check_method(file, method)
    observed, columns = _read_observed(file)
    rule, thetas = _read_rule(file), _count_thetas(file, method)
    _check_options(file, method, _pose_problem(file, simulator, observed))
    return Study(
        simulator=simulator,
        observed=observed,
        columns=columns,
        rule=rule,
        thetas=thetas,
        method=method,
        options=file.table("options"),
        budget=file.values.get("budget"),
        explore=_read_explore(file, method),
        workers=_read_workers(file),
        run={key: value for key, value in file.table("run").items() if key == "retries"},
        seed=file.values.get("seed", 0),
        output=_read_output(file),
        plan=_make_plan(file, rule, thetas),
    )


def _check_limits(file: StudyFile) -> None:
    """StudyError for more than fits in memory, and for what is no address."""
    for key in ("m", "thetas"):
        if file.values.get(key, 0) > MOST_COUNT:
            raise file.mistake(key, f"must be at most {MOST_COUNT:,}, got {file.values[key]:,}")
    address = file.table("run").get("dask")
    if address is not None and not is_address(address):
        message = f'must be an address such as "tcp://host:8786", got {address!r}'
        raise file.mistake("dask", message, table="run")


def _read_workers(file: StudyFile) -> dict[str, Any]:
    workers = {key: value for key, value in file.table("run").items() if key != "retries"}
    if "command" in file.values:
        workers.pop("time_limit", None)  # the command keeps it
    if "dask" in workers:
        workers["executor"] = workers.pop("dask")
    return workers


def _make_plan(file: StudyFile, rule: Any, thetas: int) -> dict[str, Any]:
    plan = {
        "rule": type(rule).__name__,
        "m": rule.m,
        "base_kernel": file.values.get("base_kernel", "tuned"),
        "seed": file.values.get("seed", 0),
    }
    of_budget = "thetas" not in file.values and "explore" in file.values
    return plan if of_budget else plan | {"thetas": thetas}  # a budget may grow


def _read_simulator(file: StudyFile) -> Simulator:
    if ("simulator" in file.values) == ("command" in file.values):
        raise StudyError(
            f"{file.path} names no simulator, or two; give one of simulator (an import path) and "
            "command"
        )
    key = "command" if "command" in file.values else "simulator"
    try:
        simulator = _add_noise(file, _read_generator(file, key))
        as_recipe(simulator)
    except StudyError:
        raise
    except Exception as error:
        raise file.mistake(key, error) from error
    return simulator


def _read_generator(file: StudyFile, key: str) -> Any:
    if key == "command":
        return Command(file.values[key], time_limit=file.table("run").get("time_limit"))
    found = resolve(file.values[key])
    takes = getattr(getattr(found, "__code__", None), "co_argcount", None)
    return found() if takes == 0 else found


def _add_noise(file: StudyFile, generator: Any) -> Simulator:
    """The simulator, with noise and prior of the file, or its own."""
    if isinstance(generator, Simulator):
        own = generator
        prior = _read_prior(file) if "prior" in file.values else own.prior
        noise = file.construct("noise", Measure) if "noise" in file.values else own.measure
        return own.replace(measure=noise, prior=prior, theta=None)
    file.require("prior")
    prior, seeded = _read_prior(file), getattr(generator, "takes_seed", False)
    if file.values.get("random", seeded):
        _check_random(file, isinstance(generator, Command) and not seeded)
        return Simulator.from_random(generator, prior.names, prior=prior)
    file.require("noise")
    noise, on_host = file.construct("noise", Measure), isinstance(generator, Command) or None
    return Simulator(generator, noise, prior.names, prior=prior, on_host=on_host)


def _check_random(file: StudyFile, takes_u: bool) -> None:
    if "noise" in file.values:
        raise file.mistake("noise", "dry runs find the noise of a random simulator; leave it out")
    if takes_u:
        raise file.mistake("random", "the command takes {u}; write {seed}, or give noise instead")


def _read_prior(file: StudyFile) -> Prior:
    names = file.values["prior"]
    if not names:
        raise file.mistake(
            "prior", 'has no parameters; give each a line such as a = "Normal(0, 1)"'
        )
    for name in names:
        if not name.strip():
            raise file.mistake(name, "the name of this parameter is empty", table="prior")
    return reduce(Prior.beside, [_read_marginal(file, name) for name in names])


def _read_marginal(file: StudyFile, name: str) -> Prior:
    """That of one parameter, or of several that depend on each other: "a, b"."""
    measure = file.construct(name, Measure, table="prior")
    names = [each.strip() for each in name.split(",")] if measure.dim > 1 else [name]
    try:
        return Prior.joint(names, measure)
    except ValueError as error:
        raise file.mistake(name, error, table="prior") from error


def _read_observed(file: StudyFile) -> tuple[np.ndarray, tuple[str, ...] | None]:
    path = file.path.parent / file.require("data")
    try:
        if not path.is_file():  # a device would never end
            raise ValueError(f"there is no file {str(path)!r}")
        read = partial(np.load, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt
        numbers, names = observe(path if path.suffix == ".csv" else read(path))
        return np.asarray(numbers), names
    except (OSError, ValueError, MemoryError) as error:
        raise file.mistake("data", error) from error


def _read_output(file: StudyFile) -> Path:
    try:
        return as_path("output", file.path.parent / file.values.get("output", "out"))
    except ValueError as error:
        raise file.mistake("output", error) from error


def _pose_problem(file: StudyFile, simulator: Simulator, observed: np.ndarray) -> Problem:
    if simulator.prior is None:
        file.require("prior")
    try:
        return Problem(simulator, observed)
    except ValueError as error:
        raise file.mistake("data", error) from error


def _read_rule(file: StudyFile) -> Rule:
    name = file.values.get("rule", "OptimallyWeighted")
    if name not in _RULES:
        raise file.mistake("rule", f"no rule is called {name}; there are {', '.join(_RULES)}")
    options = {"m": file.values["m"]} if "m" in file.values else {}
    if "base_kernel" in file.values:
        text = file.values["base_kernel"]
        options["base_kernel"] = file.construct("base_kernel", Kernel) if "(" in text else text
    try:
        return getattr(owlfi, name)(**options)
    except (TypeError, ValueError) as error:
        raise file.mistake(_find_named(options, error) or "rule", error) from error


def _count_thetas(file: StudyFile, method: str) -> int:
    if "thetas" in file.values:
        return file.values["thetas"]
    if "budget" in file.values and "m" in file.values:
        part = _PILOT if "explore" in file.values else 1
        return max(1, int(part * file.values["budget"]) // file.values["m"])
    if method in _WITH_A_DESIGN:
        raise StudyError(
            f"{file.path} has no thetas; give thetas, or budget and m, for method {method}"
        )
    return 0


def _read_explore(file: StudyFile, method: str) -> dict[str, Any] | None:
    if "explore" not in file.values:
        return None
    explore = file.values["explore"]
    if method not in _WITH_A_DESIGN or "budget" not in file.values:
        raise file.mistake("explore", "proposals need a budget, and method abc or none")
    for key in ("share", "safety"):
        if not 0 < explore.get(key, 1) <= 1:
            message = f"must lie above 0 and be at most 1, got {explore[key]}"
            raise file.mistake(key, message, table="explore")
    return explore


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
    return getattr(owlfi, "accept" if name == "abc" else name)


def _check_method(file: StudyFile, method: str) -> None:
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


def _check_options(file: StudyFile, method: str, problem: Problem) -> None:
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
        named = _find_named(options, error)
        raise file.mistake(named or "options", error, table=named and "options") from error


def _find_named(options: dict[str, Any], error: Exception) -> str:
    """The option that an error is about; empty where it names none."""
    return next((key for key in options if re.search(rf"\b{key}\b", str(error))), "")
