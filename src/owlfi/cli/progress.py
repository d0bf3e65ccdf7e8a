"""What people see of a campaign while it runs, and of where it is."""

from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TextColumn, TimeElapsedColumn

from owlfi.campaign.campaign import Campaign
from owlfi.campaign.driver import Progress


def show_progress(campaign: Campaign, work: Callable[..., Any], **options: Any) -> None:
    """Do some work of a campaign with a line of progress, then print its status.

    work: takes the options, and `report` as in `Campaign.run`.
    """
    columns = TextColumn("{task.description}"), TimeElapsedColumn()
    with Bar(*columns, console=Console()) as bar:
        line = bar.add_task("starting", total=None)

        def report(progress: Progress) -> None:
            bar.update(line, description=_describe_progress(progress))

        work(report=report, **options)
    print_status(campaign)


def _describe_progress(progress: Progress) -> str:
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return (
        f"{progress.done} done, {progress.failed} failed, {progress.running} running, "
        f"{progress.waiting} waiting, {minutes // 60}:{minutes % 60:02}:{seconds:02} left"
    )


def print_status(campaign: Campaign) -> None:
    """How far a campaign is, in a line or three."""
    now = campaign.status()
    kinds = ", ".join(f"{count} {state}" for state, count in now.failures.items())
    typer.echo(
        f"{now.done} of {now.total} done, {now.failed} failed{f' ({kinds})' if kinds else ''}, "
        f"{now.running} running, {now.waiting - now.running} waiting"
    )
    if now.done:
        typer.echo(f"mean time of a run: {now.mean_seconds:.3g} s")
    if now.driver:
        typer.echo(f"run by {now.driver}")
