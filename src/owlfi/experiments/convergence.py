"""Errors against m for each simulator, beside the rate of Theorem 3."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi import models
from owlfi._tools.checks import as_array
from owlfi.experiments.curves import NOTE, draw, record
from owlfi.experiments.excess import law_of, law_points, median_kernel, repeated_excesses
from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.kernels import Kernel, Matern, Separable

SMOOTHNESS = 2.5
EQUAL, OPTIMAL = "equal weights", "optimal weights"
MODELS = {
    "g-and-k": models.g_and_k,
    "two moons": models.two_moons,
    "bivariate beta": models.bivariate_beta,
    "M/G/1 queue": models.queue,
    "multivariate g-and-k": models.multivariate_g_and_k,
    "MA(2)": models.moving_average,
}
_SIZES = (16, 32, 64, 128, 256, 512)
_QUICK_SIZES = (16, 128)


def _sizes(plan: Plan) -> tuple[int, ...]:
    return _QUICK_SIZES if plan.quick else _SIZES


def _base_kernel(lengthscale: Any) -> Kernel:
    return Separable(Matern(nu=SMOOTHNESS, lengthscale=lengthscale))


def slope(s: int) -> float:
    """The exponent of m in Theorem 3, for the squared MMD."""
    return -(2 * SMOOTHNESS / s + 1)


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Both weights on the same independent uniform points, with a Matérn 5/2 base kernel."""
    for number, (name, make) in enumerate(MODELS.items()):
        law_key, kernel_key, own_key = jax.random.split(jax.random.fold_in(key, number), 3)
        simulator = make()
        theta = as_array("theta", simulator.theta)
        kernel = median_kernel(kernel_key, simulator, theta)
        law = law_of(law_key, simulator, theta, kernel, law_points(plan))
        for m in _sizes(plan):
            keys = jax.random.split(jax.random.fold_in(own_key, m), plan.repeats)
            errors = repeated_excesses(
                keys, simulator.uniform(), theta, m, law, kernel, _base_kernel
            )
            about = {"model": name, "s": simulator.measure.dim}
            yield {
                **about,
                "points": [record(EQUAL, m, errors["v"]), record(OPTIMAL, m, errors["ow"])],
            }


def measured_slope(points: list[Record]) -> float:
    """The slope of the logarithm of the median excess against that of m."""
    x, medians = zip(*((point["x"], point["median"]) for point in points), strict=True)
    return float(np.polyfit(np.log(x), np.log(medians), 1)[0]) if len(x) > 1 else float("nan")


def arrange(records: list[Record]) -> dict[str, Record]:
    """By model: its points, and the slopes beside those of the theory."""
    results: dict[str, Record] = {}
    for step in records:
        result = results.setdefault(step["model"], {"s": step["s"], "points": []})
        result["points"] += step["points"]
    for result in results.values():
        by_name = {
            name: [point for point in result["points"] if point["series"] == name]
            for name in (EQUAL, OPTIMAL)
        }
        result["slopes"] = {name: measured_slope(points) for name, points in by_name.items()}
        result["theory"] = {EQUAL: -1.0, OPTIMAL: slope(result["s"])}
    return results


def table(records: list[Record]) -> Table:
    """Slopes as measured and as predicted."""
    rows = []
    for name, result in arrange(records).items():
        pairs = ((result["slopes"][way], result["theory"][way]) for way in (EQUAL, OPTIMAL))
        rows.append((name, str(result["s"]), *(f"{value:.2f}" for pair in pairs for value in pair)))
    headings = ("model", "s", "equal", "theory", "optimal", "theory")
    note = (
        f"{NOTE} Theory is asymptotic and for generators smooth on the closed cube; quantiles of "
        "normal and exponential noise are not."
    )
    return Table("Slope of log excess against log m (Matérn 5/2 base kernel)", headings, rows, note)


def picture(records: list[Record]) -> Figure:
    """A panel for each model, with lines of the predicted slopes."""
    results = arrange(records)
    figure = Figure(figsize=(8.4, 5.0), layout="constrained")
    panels = figure.subplots(2, 3, squeeze=False).ravel()
    for axes, (name, result) in zip(panels, results.items(), strict=False):
        for way, style, rate in (
            (EQUAL, (0, (1, 3)), "$m^{-1}$"),
            (OPTIMAL, (0, (5, 3)), "theory"),
        ):
            points = [point for point in result["points"] if point["series"] == way]
            m = np.array([point["x"] for point in points], float)
            line = points[0]["median"] * (m / m[0]) ** result["theory"][way]
            axes.plot(m, line, color="k", linewidth=0.7, linestyle=style, label=rate)
        draw(axes, result["points"], "simulations $m$")
        axes.legend(frameon=False, fontsize=6)
        axes.set_title(f"{name} ($s = {result['s']}$)", fontsize=9)
    for axes in panels[len(results) :]:
        axes.set_visible(False)
    return figure


CONVERGENCE = Experiment(
    name="convergence",
    shows="error against m for each simulator, beside the rate of Theorem 3",
    takes="4 min",
    repeats=20,
    quick_repeats=5,
    steps=lambda plan: len(MODELS) * len(_sizes(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
