"""The command line."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from owlfi.version import __version__

app = typer.Typer(
    help="Fit simulators to data with far fewer runs: optimally weighted discrepancies.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
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
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
) -> None:
    """Estimate a squared MMD with equal and with optimal weights, for more and more simulations.

    Simulates data from the g-and-k distribution, estimates the squared MMD between them and the
    model, prints the median error of both ways and writes a picture of it.
    """
    import jax
    import numpy as np

    from owlfi.experiments.demo import REPEATS, SIMULATIONS, errors, picture

    console = Console()
    steps = errors(jax.random.key(seed))
    rows = list(track(steps, description="Simulating", total=len(SIMULATIONS), console=console))
    table = Table(title=f"Median error of the squared MMD over {REPEATS} repeats (g-and-k)")
    for heading in ("simulations", "equal weights", "optimal weights", "smaller by"):
        table.add_column(heading, justify="right")
    for row in rows:
        equal, optimal = np.median(row.equal), np.median(row.optimal)
        table.add_row(str(row.m), f"{equal:.1e}", f"{optimal:.1e}", f"{equal / optimal:,.0f} x")
    console.print(table)
    out.mkdir(parents=True, exist_ok=True)
    picture(rows).savefig(out / "demo.png", dpi=200)
    console.print(f"Picture: {out / 'demo.png'}")
