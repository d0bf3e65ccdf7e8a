"""Table 1: six simulators, equal and optimal weights, independent and Sobol points."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi import models
from owlfi.experiments.curves import label_models
from owlfi.experiments.excess import LAW_POINTS, Setting, excesses, sample, set_up, simulate_rows
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.mmd import data_term, squared_mmd
from owlfi.points.sequences import iid, sobol
from owlfi.problem.simulator import Simulator
from owlfi.weights.paper import paper_weights

OBSERVED = 10_000
SIMULATED = 256
_CHUNK = 10  # repeats a step
_POINTS = {"iid": iid, "rqmc": sobol}
_ESTIMATORS = ("v", "ow")
_CASES = {
    ("iid", "v"): "iid, V-statistic",
    ("iid", "ow"): "iid, optimal weights",
    ("rqmc", "v"): "RQMC, V-statistic",
    ("rqmc", "ow"): "RQMC, optimal weights",
}


ROWS: dict[str, Callable[[], Simulator]] = {
    "g-and-k": models.g_and_k,
    "two moons": models.two_moons,
    "bivariate beta": models.bivariate_beta,
    "MA(2)": models.moving_average,
    "M/G/1 queue": models.queue,
    "Lotka-Volterra": models.lotka_volterra,
}
PAPER = {  # means and standard deviations in units of 1e-3, for each of the cases
    "g-and-k": ((2.25, 1.52), (0.086, 0.049), (0.060, 0.037), (0.059, 0.037)),
    "two moons": ((2.36, 1.94), (0.057, 0.054), (0.056, 0.044), (0.055, 0.044)),
    "bivariate beta": ((2.13, 1.17), (0.555, 0.227), (0.222, 0.111), (0.193, 0.088)),
    "MA(2)": ((2.42, 0.80), (0.705, 0.107), (0.381, 0.054), (0.322, 0.052)),
    "M/G/1 queue": ((2.52, 1.19), (1.71, 0.568), (0.595, 0.134), (0.646, 0.202)),
    "Lotka-Volterra": ((2.13, 1.10), (2.04, 0.956), (1.44, 0.955), (1.42, 0.942)),
}


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Estimates between 256 simulations and 10,000 observations, and excesses, of a few repeats."""
    for number, (name, make) in enumerate(ROWS.items()):
        own_key, points = jax.random.fold_in(key, number), plan.choose(LAW_POINTS, 2**13)
        setting, repeat_key = set_up(own_key, make(), points, exact=True)
        for chunk in plan.chunks(_CHUNK):
            keys = [jax.random.fold_in(repeat_key, repeat) for repeat in chunk]
            about = {"model": name, "s": setting.simulator.measure.dim}
            yield about | {"floor": setting.law.floor(OBSERVED)} | _repeat(keys, setting)


def _repeat(keys: list[Array], setting: Setting) -> Record:
    """All four estimates and excesses by each key, the simulator in its all-uniform form."""
    simulator, theta, data_kernel, law = setting
    uniform, equal = simulator.uniform(), jnp.full(SIMULATED, 1 / SIMULATED)
    samples, weights, estimates = [], [], []
    for key in keys:
        data_key, *point_keys = jax.random.split(key, 1 + len(_POINTS))
        x = sample(data_key, simulator, theta, OBSERVED)
        term = data_term(data_kernel, x)
        for points, point_key in zip(_POINTS.values(), point_keys, strict=True):
            u = points(point_key, SIMULATED, uniform.measure)
            samples.append(y := simulate_rows(uniform, theta, u))
            optimal = paper_weights(uniform.measure, u).weights
            weights.append(w := jnp.stack([equal, optimal]))
            estimates.append(squared_mmd(data_kernel, jnp.stack([y, y]), x, w, data_term=term))
    errors = excesses(data_kernel, law, jnp.stack(samples), jnp.stack(weights))
    d = samples[0].shape[1]
    return {"d": d, "estimates": _by_points(estimates), "excesses": _by_points(errors)}


def _by_points(values: Any) -> dict[str, list[list[float]]]:
    """The values of both estimators, one repeat after the other, for each kind of points."""
    table = np.asarray(values).reshape(-1, len(_POINTS), len(_ESTIMATORS))
    return {name: table[:, j].tolist() for j, name in enumerate(_POINTS)}


def arrange(records: list[Record]) -> dict[str, Record]:
    """Means, standard deviations and excesses by model, points and estimator."""
    return {name: _summarise(name, part) for name, part in group(records, "model").items()}


def _summarise(name: str, records: list[Record]) -> Record:
    result: Record = {key: records[0][key] for key in ("s", "d", "floor")}
    result["repeats"] = sum(len(record["estimates"]["iid"]) for record in records)
    for (points, estimator), paper in zip(_CASES, PAPER[name], strict=True):
        column = _ESTIMATORS.index(estimator)
        values, errors = (
            np.concatenate([np.array(record[what][points])[:, column] for record in records])
            for what in ("estimates", "excesses")
        )
        result.setdefault(points, {})[estimator] = {
            "mean": values.mean(),
            "std": values.std(ddof=1) if len(values) > 1 else 0.0,
            "excess_mean": errors.mean(),
            "excess_median": float(np.median(errors)),
            "paper": {"mean": paper[0] * 1e-3, "std": paper[1] * 1e-3},
        }
    return result


def table(records: list[Record]) -> Table:
    """Ours above the paper's, and the excess below."""
    rows = []
    for name, result in arrange(records).items():
        cells = [_cell(result[points][estimator]) for points, estimator in _CASES]
        rows.append((f"{name}\ns = {result['s']}, d = {result['d']}", *cells))
    return Table(
        f"Squared MMD in units of 1e-3 (m = {SIMULATED}, n = {OBSERVED:,}): mean (standard "
        "deviation)",
        ("model", *_CASES.values()),
        rows,
        "Every mean holds the floor (1 - E k(x, x')) / n, about 0.06, which comes from the "
        "observations; the excess is the estimator's own error, against the law of y.",
    )


def _cell(result: Record) -> str:
    paper = result["paper"]
    return (
        f"{1e3 * result['mean']:.3g} ({1e3 * result['std']:.2g})\n"
        f"paper {1e3 * paper['mean']:.3g} ({1e3 * paper['std']:.2g})\n"
        f"excess {1e3 * result['excess_mean']:.2g}"
    )


def picture(records: list[Record]) -> Figure:
    """Our means with two standard errors, the paper's beside them, and the excess of each."""
    results = arrange(records)
    repeats = np.array([result["repeats"] for result in results.values()])
    figure = Figure(figsize=(7.2, 4.2))
    axes = figure.subplots()
    for j, ((points, estimator), label) in enumerate(_CASES.items()):
        cells = [result[points][estimator] for result in results.values()]
        place = np.arange(len(results)) + 0.18 * (j - 1.5)
        color = "0.45" if estimator == "v" else "C0"
        fill = color if points == "iid" else "white"
        means, stds = ([cell[what] for cell in cells] for what in ("mean", "std"))
        bars = 2 * np.array(stds) / np.sqrt(repeats)
        drawn = axes.errorbar(place, means, bars, fmt="os^D"[j], color=color, linewidth=0.8)
        drawn[0].set(markerfacecolor=fill, label=label)
        axes.plot(place + 0.06, [c["paper"]["mean"] for c in cells], "k_", markersize=7)
        axes.plot(place, [c["excess_mean"] for c in cells], "x", color=color, markersize=4)
    axes.plot([], [], "k_", label="the paper's mean")
    axes.plot([], [], "x", color="0.3", markersize=4, label="excess over the exact law")
    label_models(axes, list(results), "squared MMD", columns=3)
    return figure


TABLE1 = Experiment(
    name="table1",
    shows="six simulators: optimal against equal weights, beside the paper's Table 1",
    takes="5 min",
    repeats=(100, 2),
    steps=lambda plan: len(ROWS) * len(plan.chunks(_CHUNK)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
