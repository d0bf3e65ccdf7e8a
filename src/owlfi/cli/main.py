"""The command line."""

# Commands import what they need when they are called: help and mistakes wait for nothing else.

from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer
from rich.console import Console

from owlfi.cli import campaign as campaign_cli
from owlfi.cli.report import report_result
from owlfi.version import __version__

Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of all random numbers.")]

_OUT = Path("out")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
app.add_typer(campaign_cli.app, name="campaign")
app.command("run", epilog="Example: owlfi run study.toml")(campaign_cli.run_study)
app.command("report", epilog="Example: owlfi report out/abc.npz --problem study.toml")(
    report_result
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"owlfi {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Fit simulators to data with far fewer runs: optimally weighted discrepancies."""


@app.command(epilog="Example: owlfi demo --out results --seed 1")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = _OUT,
    seed: Seed = 0,
) -> None:
    """Fit the g-and-k distribution to exchange rates, from the data to a picture.

    Prints the estimate with its standard errors and writes the fit and the way of the search.
    """
    _make_folder(out)
    import jax

    from owlfi.cli.experiments import render_table
    from owlfi.experiments.demo import fit, picture, table
    from owlfi.results.health import keep_quiet

    console = Console()
    with console.status("Fitting"), keep_quiet():
        estimate = fit(jax.random.key(seed))
    console.print(render_table(table(estimate)))
    picture(estimate).savefig(out / "demo.png", dpi=200)
    console.print(f"Picture: {out / 'demo.png'}")


@app.command(epilog="Example: owlfi reproduce table1 --quick --out results")
def reproduce(
    name: Annotated[str, typer.Argument(help="Which; without a name they are listed.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A coarse answer in a minute.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats; more is sharper.")] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the numbers and the picture.")] = _OUT,
) -> None:
    """Make a table or figure of the paper again: prints it and writes NAME.json and NAME.png.

    What is finished is written when you stop it with Ctrl-C. Those that take hours go on where they
    stopped, however they stopped, when called again with the same seed and folder.
    """
    from owlfi.experiments import EXPERIMENTS

    if name and name not in EXPERIMENTS:
        raise typer.BadParameter(
            f"no experiment is called {name}; there are {', '.join(EXPERIMENTS)}"
        )
    if name:
        _make_folder(out)
    from owlfi.cli.experiments import collect_records, list_experiments, render_table

    console = Console()
    if not name:
        console.print(list_experiments(EXPERIMENTS.values()))
        return
    experiment = EXPERIMENTS[name]
    plan = experiment.plan(repeats, quick)
    records = collect_records(experiment, plan, seed=seed, out=out, console=console)
    if not records:
        raise typer.Exit(1)
    console.print(render_table(experiment.table(records)))
    for path in experiment.write(out, seed, plan, records):
        console.print(f"Written: {path}")
    if len(records) < experiment.steps(plan):
        raise typer.Exit(1)


def _make_folder(out: Path) -> None:
    """Make the folder before the work begins; BadParameter where nothing can be written to it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        raise typer.BadParameter(f"nothing can be written to --out {out}: {error}") from error
