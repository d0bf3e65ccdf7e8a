"""Data of which some rows come from elsewhere: draws of the bootstrap beside published posteriors.

Published: Huang, Bharti, Souza, Acerbi and Kaski, Learning robust statistics for simulation-based
inference under model misspecification (NeurIPS 2023), medians over 100 repeats of the authors'
result files: neural posteriors (NPE), ABC, and those with robust statistics (R, RS). They simulate
100 rows at each of 1,000 thetas.
"""

import time
from collections.abc import Iterator
from itertools import product
from math import inf
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.ou_and_ricker import OU_ELSEWHERE, RICKER_ELSEWHERE, ROWS, ornstein_uhlenbeck
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.inference.posterior_bootstrap import posterior_bootstrap
from owlfi.points.sequences import sobol
from owlfi.problem.rules import VStatistic
from owlfi.results.health import keep_quiet

SHARES = (0.0, 0.1, 0.2)
BUDGET = 100_000
DRAWS = 200
METHODS = ("NPE", "RNPE", "NPE-RS", "ABC", "ABC-RS")


class Setting(NamedTuple):
    """A problem, where its stray rows come from, and the published RMSE by share and method."""

    case: Case
    stray: Case
    published: dict[float, tuple[float, ...]]


_OU = PROBLEMS["Ornstein-Uhlenbeck"]._replace(rule=VStatistic(128, sobol))
_RICKER = PROBLEMS["Ricker"]
SETTINGS = {
    "Ornstein-Uhlenbeck": Setting(
        _OU,
        _OU._replace(make=lambda: ornstein_uhlenbeck(noise=1.0), theta=OU_ELSEWHERE),
        {
            0.0: (0.86, 0.78, 0.79, 0.49, 0.44),
            0.1: (1.04, 0.88, 0.43, 1.35, 0.61),
            0.2: (1.42, 0.94, 0.46, 6.39, 0.76),
        },
    ),
    "Ricker": Setting(
        _RICKER,
        _RICKER._replace(theta=RICKER_ELSEWHERE),
        {
            0.0: (0.83, 3.22, 0.79, 1.43, 1.21),
            0.1: (7.39, 5.51, 2.48, 6.95, 2.99),
            0.2: (10.9, 7.17, 2.90, 9.81, 2.84),
        },
    ),
}


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """One fit after the other; the shares of a repeat have the other rows in common."""
    for repeat, model, share in _steps(plan)[skip:]:
        place = list(SETTINGS).index(model)
        own = jax.random.fold_in(jax.random.fold_in(key, place), repeat)
        yield {"model": model, "share": share, "repeat": repeat} | _fit(
            own, SETTINGS[model], share, plan.choose(DRAWS, 20)
        )


def _steps(plan: Plan) -> list[tuple[int, str, float]]:
    return list(product(range(plan.repeats), SETTINGS, SHARES))


def observe(key: Key[Array, ""], setting: Setting, share: float) -> Float[Array, "n d"]:
    """Rows at the truth, the first share of them replaced by stray ones."""
    usual_key, stray_key = jax.random.split(key)
    x, others = setting.case.observe(usual_key), setting.stray.observe(stray_key)
    return jnp.concatenate([others, x])[ROWS - round(share * ROWS) :][:ROWS]


def _fit(key: Key[Array, ""], setting: Setting, share: float, draws: int) -> Record:
    data_key, fit_key = jax.random.split(key)
    case, x = setting.case, observe(data_key, setting, share)
    begin, problem = time.perf_counter(), case.pose(x)
    try:
        with keep_quiet():
            posterior = posterior_bootstrap(fit_key, problem, case.rule, draws=draws)
    except ValueError as error:  # no draw at all
        return {"rmse": None, "error": str(error), "seconds": time.perf_counter() - begin}
    found = np.asarray(posterior.draws)
    return {
        "rmse": float(np.sqrt(((found - np.array(case.theta)) ** 2).mean())),
        "mean": found.mean(0).tolist(),
        "sd": found.std(0).tolist(),
        "draws": len(found),
        "calls": posterior.calls,
        "seconds": time.perf_counter() - begin,
    }


def arrange(records: list[Record]) -> dict[str, dict[str, Record]]:
    """By model and share: the median RMSE, ours and published, and what it took."""
    return {
        model: {
            f"{share:.0%}": _summarise(part, SETTINGS[model].published[share])
            for share, part in group(of_model, "share").items()
        }
        for model, of_model in group(records, "model").items()
    }


def _summarise(records: list[Record], published: tuple[float, ...]) -> Record:
    """Fits without a draw count as the farthest."""
    errors = [inf if r["rmse"] is None else r["rmse"] for r in records]
    median = float(np.median(errors)) if np.mean(np.isinf(errors)) < 0.5 else None
    return {
        "repeats": len(records),
        "failed": int(np.isinf(errors).sum()),
        "rmse": median,
        "published": dict(zip(METHODS, published, strict=True)),
        "best_published": min(published),
        "most_calls": max((r["calls"] for r in records if "calls" in r), default=0),
        "seconds": float(np.median([r["seconds"] for r in records])),
    }


def table(records: list[Record]) -> Table:
    """A row for each model and share of stray rows."""
    rows = []
    for model, shares in arrange(records).items():
        for share, cell in shares.items():
            ours = "failed" if cell["rmse"] is None else f"{cell['rmse']:.3g}"
            theirs = (f"{value:g}" for value in cell["published"].values())
            cost = f"{cell['most_calls']:,}", f"{cell['seconds']:.1f}"
            rows.append((f"{model}, {share}", *theirs, ours, *cost))
    return Table(
        f"RMSE of posteriors from {ROWS} rows of which some come from elsewhere",
        ("model, stray rows", *METHODS, "owlfi", "most calls", "seconds"),
        rows,
        "Root of the mean squared error over draws and both parameters, median over repeats. "
        f"Published with {BUDGET:,} simulated rows.",
    )


def picture(records: list[Record]) -> Figure:
    """The best published posterior beside ours, a panel for each model."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 3.0))
    panels = figure.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (model, shares) in zip(panels, results.items(), strict=True):
        _draw_bars(axes, shares)
        axes.set(title=model, xlabel="rows from elsewhere", yscale="log")
    panels[0].set_ylabel("RMSE of draws, median")
    panels[0].legend(fontsize=8)
    return figure


def _draw_bars(axes: Axes, shares: dict[str, Record]) -> None:
    places = np.arange(len(shares))
    best = [cell["best_published"] for cell in shares.values()]
    ours = [np.nan if cell["rmse"] is None else cell["rmse"] for cell in shares.values()]
    axes.bar(places - 0.2, best, 0.4, color="0.6", label="best published")
    axes.bar(places + 0.2, ours, 0.4, color="C0", label="owlfi")
    axes.set_xticks(places, list(shares))


CONTAMINATION = Experiment(
    name="contamination",
    shows="posteriors from data with stray rows, beside published ones",
    takes="30 min",
    repeats=(100, 2),
    steps=lambda plan: len(_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
