"""The commands of campaigns and studies."""

# Commands import what they need when they are called: help and mistakes wait for nothing else.

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from owlfi import campaign as campaigns
from owlfi.cli.mistakes import import_from_here, report_errors

Written = Annotated[Path, typer.Argument(help="A .npz or .csv file to write.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; one a core if left out.")]
Limit = Annotated[float | None, typer.Option(help="Seconds after which a run is killed.")]
Changed = Annotated[bool, typer.Option("--accept-changes", help="Go on with a changed simulator.")]
Trust = Annotated[bool, typer.Option("--trust", help="Run the code that a stranger's file names.")]
Partial = Annotated[bool, typer.Option("--partial", help="The leading thetas that are complete.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Make failed runs again, too.")]

app = typer.Typer(
    help="Runs of expensive simulators: made once, kept in one file, resumed after any kill.",
    no_args_is_help=True,
)


@contextmanager
def _report_mistakes(*, imports: bool = False) -> Iterator[None]:
    """Mistakes as one message, Ctrl-C as a promise.

    What is wrong with a result is written with it.

    imports: whether modules of this folder can be imported, where no others have their names.
    """
    from owlfi.results.health import keep_quiet

    if imports:
        import_from_here()
    try:
        with keep_quiet(), report_errors():
            yield
    except campaigns.TooManyFailuresError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("Stopped; every run that had ended is kept, and the same command goes on.")
        raise typer.Exit(1) from None


def _check_study(path: Path) -> Path:
    """What is wrong with the file itself, before anything else is imported."""
    from owlfi.cli.study_file import StudyFile

    with report_errors():
        StudyFile(path)
    return path


def _check_store(path: Path) -> Path:
    """The same."""
    from owlfi.campaign.database import explain_errors
    from owlfi.campaign.store import Store

    with report_errors(), explain_errors(path):
        Store.open(path, read_only=True).close()
    return path


StudyPath = Annotated[Path, typer.Argument(help="The study, a TOML file.", callback=_check_study)]
StorePath = Annotated[Path, typer.Argument(help="The file of the campaign.", callback=_check_store)]


@app.command(epilog="Example: owlfi campaign new study.toml")
@_report_mistakes(imports=True)
def new(study: StudyPath) -> None:
    """Make the campaign of a study: its simulator, thetas, points and weights. Nothing is run,
    but for the pilot runs of a rule that tunes its weights."""
    from owlfi.cli.study_steps import open_study, plan_study

    read, campaign = open_study(study)
    plan_study(read, campaign)
    typer.echo(f"{campaign.path}: {campaign.status().waiting} runs to make")


@app.command(epilog="Example: owlfi campaign run out/runs.sqlite --workers 2 --time-limit 600")
@_report_mistakes(imports=True)
def run(
    store: StorePath,
    workers: Workers = None,
    time_limit: Limit = None,
    retries: Annotated[int, typer.Option(min=0, help="Of time-outs and crashes.")] = 2,
    max_failures: Annotated[float, typer.Option(help="Share of failures that stops it.")] = 0.2,
    budget: Annotated[int | None, typer.Option(min=1, help="The most runs to make now.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no run after so many.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.")] = None,
    accept_changes: Changed = False,
    trust: Trust = False,
    retry_failed: RetryFailed = False,
) -> None:
    """Make all runs that have not ended; Ctrl-C stops, the same command goes on."""
    from owlfi.campaign.trust import describe_code
    from owlfi.cli.progress import show_progress

    campaign = campaigns.Campaign.open(store, trust=trust)
    campaign.check_trust()
    typer.echo(f"Running {describe_code(campaign.recipe)}")
    show_progress(
        campaign,
        campaign.run,
        executor=dask,
        workers=workers,
        time_limit=time_limit,
        retries=retries,
        max_failures=max_failures,
        budget=budget,
        seconds=seconds,
        accept_changes=accept_changes,
        trust=trust,
        retry_failed=retry_failed,
    )


@app.command(epilog="Example: owlfi campaign propose study.toml --count 20")
@_report_mistakes(imports=True)
def propose(
    study: StudyPath,
    count: Annotated[int, typer.Option(min=1, help="How many thetas.")] = 20,
) -> None:
    """Add thetas where the posterior is uncertain; run them with `run`, or `export` them."""
    from owlfi.cli.study_steps import open_study, propose_for_study

    read, campaign = open_study(study)
    propose_for_study(read, campaign, count)
    waiting = campaign.status().waiting
    typer.echo(f"{campaign.path}: {count} thetas more, {waiting} runs to make")


@app.command(epilog="Example: owlfi campaign status out/runs.sqlite --failures 5")
@_report_mistakes()
def status(
    store: StorePath,
    failures: Annotated[int, typer.Option(min=0, help="How many failures to show.")] = 0,
) -> None:
    """How far a campaign is, also while it runs."""
    from owlfi.cli.progress import print_status

    campaign = campaigns.Campaign.open(store)
    print_status(campaign)
    if failures:
        typer.echo(campaign.failures(failures))


@app.command(epilog="Example: owlfi campaign check out/runs.sqlite")
@_report_mistakes()
def check(
    store: StorePath,
    mend: Annotated[bool, typer.Option("--mend", help="Let damaged runs be made again.")] = False,
) -> None:
    """Whether the file is as it was written; ends with 1 where it is not."""
    faults = campaigns.Campaign.open(store).check(mend=mend)
    for fault in faults or [f"{store} is as it was written"]:
        typer.echo(fault)
    raise typer.Exit(bool(faults) and not mend)


@app.command(epilog="Example: owlfi campaign results out/runs.sqlite results.npz")
@_report_mistakes()
def results(
    store: StorePath,
    file: Written,
    partial: Partial = False,
    on_failure: Annotated[str, typer.Option(help="reject or reweight.")] = "reject",
) -> None:
    """Write thetas, u, weights and y, in the order of the design."""
    from owlfi.campaign.exchange import write_simulations

    campaign = campaigns.Campaign.open(store)
    runs = campaign.results(partial=partial, on_failure=on_failure)
    write_simulations(runs, campaign.outline.parameters, file)
    typer.echo(f"Written: {file} ({len(runs.thetas)} thetas)")
    for sentence in runs.warnings:
        typer.echo(f"Warning: {sentence}.")


@app.command(epilog="Example: owlfi campaign export out/runs.sqlite design.npz --slurm 100")
@_report_mistakes()
def export(
    store: StorePath,
    file: Written,
    slurm: Annotated[
        int | None, typer.Option(min=1, help="Also write job.sh, an array of so many tasks.")
    ] = None,
) -> None:
    """Write the runs that have not ended, to make them anywhere."""
    from owlfi.campaign.exchange import export_design, make_slurm_script

    script = file.with_name("job.sh")
    names = {"store": str(store), "design": file.name, "script": script.name}
    text = make_slurm_script(**names, tasks=slurm) if slurm else ""
    count = export_design(campaigns.Campaign.open(store), file)
    typer.echo(f"Written: {file} ({count} runs)")
    if text:
        script.write_text(text)
        typer.echo(f"Written: {script}")


@app.command("import", epilog="Example: owlfi campaign import out/runs.sqlite results-*.csv")
@_report_mistakes()
def import_(
    store: StorePath,
    files: Annotated[list[Path], typer.Argument(help="Results, .csv or .npz.")],
) -> None:
    """Read results back; what does not belong to the design is refused."""
    from owlfi.campaign.exchange import import_results
    from owlfi.cli.progress import print_status

    campaign = campaigns.Campaign.open(store)
    typer.echo(f"{import_results(campaign, files)} new runs")
    print_status(campaign)


@app.command(epilog="Example: owlfi campaign work design.npz --task 0 --tasks 10 --out out-0.csv")
@_report_mistakes(imports=True)
def work(
    design: Annotated[Path, typer.Argument(help="An exported design, .npz.")],
    out: Annotated[Path, typer.Option(help="The CSV file to append results to.")],
    task: Annotated[int, typer.Option(min=0, help="The number of this task.")] = 0,
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks there are.")] = 1,
    trust: Trust = False,
) -> None:
    """Make the runs of one task of a job array."""
    from owlfi.campaign import exchange

    typer.echo(f"{exchange.work(design, out, task=task, tasks=tasks, trust=trust)} runs made")


@_report_mistakes(imports=True)
def run_study(
    study: StudyPath,
    retry_failed: RetryFailed = False,
) -> None:
    """Do a whole study: simulate, infer, write the result; the same command resumes it."""
    from time import perf_counter

    from owlfi.cli.report import report_study
    from owlfi.cli.study_steps import describe_saving, infer, open_study, run_study_design

    read, campaign = open_study(study)
    began = perf_counter()
    with campaign.keep_workers(**read.workers):
        if read.thetas:
            run_study_design(read, campaign, retry_failed=retry_failed)
        result = infer(read, campaign)
    if result is not None:
        typer.echo(result.summary())
        typer.echo(f"Written: {result.save(read.output / f'{read.method}.npz')}")
    saving = describe_saving(read, campaign)
    if saving:
        typer.echo(saving)
    seconds = perf_counter() - began
    typer.echo(f"Written: {report_study(study, read, campaign, result, seconds)}")
