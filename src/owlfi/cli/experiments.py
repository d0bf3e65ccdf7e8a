"""Experiments on the console: their list, their steps, their tables."""

from collections.abc import Iterable
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import track
from rich.table import Table

from owlfi.experiments import experiment
from owlfi.experiments.experiment import Experiment, Plan, Record
from owlfi.results.health import keep_quiet


def collect_records(
    chosen: Experiment, plan: Plan, *, seed: int, out: Path, console: Console
) -> list[Record]:
    """The records of all steps, or of those finished when interrupted."""
    key, total = jax.random.key(seed), chosen.steps(plan)
    records = chosen.read_kept(out, seed, plan)
    skip = [len(records)] if chosen.resumable else []
    steps, left = chosen.run(key, plan, *skip), total - len(records)
    with keep_quiet():  # of single fits among many
        try:
            for record in track(steps, description=chosen.name, total=left, console=console):
                records.append(record)
                if chosen.resumable:
                    chosen.keep(out, seed, plan, record)
        except KeyboardInterrupt:
            console.print(f"Stopped after {len(records)} of {total} steps.")
    return records


def list_experiments(experiments: Iterable[Experiment]) -> Table:
    """A table of what can be reproduced."""
    table = Table("name", "shows", "takes about", title="owlfi reproduce NAME")
    for one in experiments:
        table.add_row(one.name, one.shows, one.takes)
    return table


def render_table(table: experiment.Table) -> Table:
    """A table of an experiment for the console."""
    shown = Table(title=table.title, caption=table.note or None, show_lines=True)
    for j, heading in enumerate(table.headings):
        shown.add_column(heading, justify="right" if j else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown
