"""Reports of results and studies, as one HTML file each."""

# Commands import what they need when they are called: help and mistakes wait for nothing else.

from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlfi.cli.mistakes import import_from_here, report_errors

if TYPE_CHECKING:
    from owlfi.campaign import Campaign
    from owlfi.cli.study import Study
    from owlfi.problem.problem import Problem
    from owlfi.weights.quadrature import Quadrature

_MOST_SECONDS = 30.0  # that a page may simulate for,
_SHARE = 0.2  # or so much of what the study took


def report_result(
    result: Annotated[Path, typer.Argument(help="A result that was saved, a .npz file.")],
    problem: Annotated[
        Path | None, typer.Option(help="The study that it answers, a TOML file.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where; beside the result if left out.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Simulate data of the fit, and compare them.")
    ] = False,
) -> None:
    """Write a page on a result: what was asked, the answer, how far to trust it, how to get it."""
    import_from_here()
    with report_errors():
        if check and problem is None:
            raise ValueError("--check simulates, and needs the simulator; give --problem STUDY")
        if not Path(result).is_file():
            raise FileNotFoundError(
                f"there is no file {str(result)!r}; name what save() wrote, or owlfi run"
            )
        typer.echo(f"Written: {_write(result, problem, out or result.with_suffix('.html'), check)}")


def _write(result: Path, study: Path | None, out: Path, check: bool) -> Path:
    from owlfi.results import load
    from owlfi.show.report import report

    found = load(result)
    if study is None:
        code = f'import owlfi\n\nresult = owlfi.load("{result.name}")\nprint(result.summary())'
        return report(found, out, code=code)
    from owlfi.cli.study import read_study

    read = read_study(study)
    facts = _describe_study(read, study, found, check=check)
    return report(found, out, **facts, quadrature=_find_quadrature(read, facts["problem"]))


def report_study(
    path: Path, study: "Study", campaign: "Campaign", result: Any, seconds: float
) -> Path:
    """The page of a whole study, beside its result; what would take long is left out, and named."""
    from owlfi.checking.check import count_calls
    from owlfi.results import Distribution
    from owlfi.show.report import report, report_runs

    out, most = study.output / "report.html", max(_MOST_SECONDS, _SHARE * seconds)
    needed = _predict_seconds(study, count_calls(len(study.observed)))
    facts = _describe_study(study, path, result, check=needed <= most)
    known = campaign.design.quadrature if study.thetas else None
    quadrature = known or _find_quadrature(study, facts["problem"], most)
    if result is None:
        given = {name: facts[name] for name in ("problem", "rule", "code")}
        lines = (f"{campaign.status()}",)
        return report_runs(out, path.stem, lines, quadrature=quadrature, **given)
    if isinstance(result, Distribution) and facts["check"] is None:
        typer.echo(_offer_check(path, study, needed))
    return report(result, out, **facts, quadrature=quadrature, seconds=seconds)


def _offer_check(path: Path, study: "Study", needed: float) -> str:
    from owlfi._tools.display import write_duration

    taking = f", {write_duration(needed)} of runs" if isfinite(needed) else ""
    command = f"owlfi report {study.output / study.method}.npz --problem {path} --check"
    return f"The page has no predictive check{taking}; for one: {command}"


def _predict_seconds(study: "Study", calls: int) -> float:
    """How long so many calls of the simulator take, as its runs did; 0 where it is compiled."""
    if study.simulator.runtime.compiles or not calls:
        return 0.0
    each = list_seconds(study.store) if study.store.is_file() else []
    return calls * fmean(each) if each else inf


def list_seconds(store: Path) -> list[float]:
    """What each run of a store took, as far as it is known."""
    from owlfi.campaign import Campaign

    with Campaign.open(store).reading() as opened:
        endings = opened.endings().values()
    return [ending.seconds for ending in endings if ending.seconds is not None]


def _find_quadrature(
    study: "Study", problem: "Problem", most: float = _MOST_SECONDS
) -> "Quadrature | None":
    """The design of its runs, or the one that its rule gives where that takes no long runs."""
    import jax

    from owlfi.campaign import Campaign

    if study.store.is_file():
        campaign = Campaign.open(study.store)
        if campaign.status().total:
            return campaign.design.quadrature
    if _predict_seconds(study, study.rule.tuning_calls(problem)) > most:
        return None
    return study.rule.quadrature(jax.random.split(jax.random.key(study.seed))[1], problem)


def _describe_study(study: "Study", path: Path, result: Any, *, check: bool) -> dict[str, Any]:
    import jax

    from owlfi.checking.check import check as check_result
    from owlfi.problem.problem import Problem
    from owlfi.results import Distribution
    from owlfi.results.health import keep_quiet

    problem = Problem(study.simulator, study.observed, columns=study.columns)
    checked = None
    if check and isinstance(result, Distribution):
        key = jax.random.fold_in(jax.random.key(study.seed), 3)
        with keep_quiet():
            checked = check_result(key, problem, result)
    code = f"# owlfi run {path.name}\n\n{path.read_text(encoding='utf-8-sig')}"
    return {
        "problem": problem,
        "rule": study.rule,
        "check": checked,
        "seed": study.seed,
        "code": code,
    }
