"""Errors against m for each simulator, beside the rate of Theorem 3."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi import models
from owlfi.experiments.curves import NOTE, draw_curves, make_point
from owlfi.experiments.excess import law_points, measure_excesses, set_up
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.weights.kernel_fit import product_matern

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


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose((16, 32, 64, 128, 256, 512), (16, 128))


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Both weights on the same independent uniform points, with a Matérn 5/2 base kernel."""
    for number, (name, make) in enumerate(MODELS.items()):
        simulator = make()
        native, own_key = set_up(jax.random.fold_in(key, number), simulator, law_points(plan))
        setting = native._replace(simulator=simulator.uniform())
        for m in _sizes(plan):
            keys = jax.random.split(jax.random.fold_in(own_key, m), plan.repeats)
            errors = measure_excesses(keys, setting, m, family=partial(product_matern, SMOOTHNESS))
            points = [make_point(EQUAL, m, errors["v"]), make_point(OPTIMAL, m, errors["ow"])]
            yield {"model": name, "s": simulator.measure.dim, "points": points}


def measured_slope(points: list[Record]) -> float:
    """The slope of the logarithm of the median excess against that of m."""
    x, medians = zip(*((point["x"], point["median"]) for point in points), strict=True)
    return float(np.polyfit(np.log(x), np.log(medians), 1)[0]) if len(x) > 1 else float("nan")


def arrange(records: list[Record]) -> dict[str, Record]:
    """By model: its points, and the slopes beside those of the theory."""
    results: dict[str, Record] = {}
    for name, steps in group(records, "model").items():
        s, points = steps[0]["s"], [point for step in steps for point in step["points"]]
        slopes = {way: measured_slope(own) for way, own in group(points, "series").items()}
        theory = {EQUAL: -1.0, OPTIMAL: -(2 * SMOOTHNESS / s + 1)}  # Theorem 3, for squared MMDs
        results[name] = {"s": s, "points": points, "slopes": slopes, "theory": theory}
    return results


def table(records: list[Record]) -> Table:
    """Slopes as measured and as predicted."""
    rows = []
    for name, result in arrange(records).items():
        pairs = ((result["slopes"][way], result["theory"][way]) for way in (EQUAL, OPTIMAL))
        rows.append((name, str(result["s"]), *(f"{value:.2f}" for pair in pairs for value in pair)))
    return Table(
        "Slope of log excess against log m (Matérn 5/2 base kernel)",
        ("model", "s", "equal", "theory", "optimal", "theory"),
        rows,
        f"{NOTE} Theory is asymptotic and for generators smooth on the closed cube; quantiles of "
        "normal and exponential noise are not.",
    )


def picture(records: list[Record]) -> Figure:
    """A panel for each model, with lines of the predicted slopes."""
    results = arrange(records)
    figure = Figure(figsize=(8.4, 5.0))
    panels = figure.subplots(2, 3, squeeze=False).ravel()
    for axes, (name, result) in zip(panels, results.items(), strict=False):
        for way, dashes, rate in ((EQUAL, (1, 3), "$m^{-1}$"), (OPTIMAL, (5, 3), "theory")):
            points = group(result["points"], "series")[way]
            m = np.array([point["x"] for point in points], float)
            line = points[0]["median"] * (m / m[0]) ** result["theory"][way]
            axes.plot(m, line, color="k", linewidth=0.7, linestyle=(0, dashes), label=rate)
        draw_curves(axes, result["points"], "simulations $m$")
        axes.legend(fontsize=6)
        axes.set_title(f"{name} ($s = {result['s']}$)", fontsize=9)
    for axes in panels[len(results) :]:
        axes.set_visible(False)
    return figure


CONVERGENCE = Experiment(
    name="convergence",
    shows="error against m for each simulator, beside the rate of Theorem 3",
    takes="4 min",
    repeats=(20, 5),
    steps=lambda plan: len(MODELS) * len(_sizes(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
