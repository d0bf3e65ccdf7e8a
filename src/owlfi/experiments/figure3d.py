"""Figure 3d: the error against what it costs, with m = n equal or m = 2 n^(2/3) optimal weights."""

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.curves import NOTE, draw_curve, label_axes, make_point
from owlfi.experiments.excess import Setting, excesses, law_points, sample, set_up, simulate_rows
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.mmd import squared_mmd
from owlfi.models import multivariate_g_and_k
from owlfi.points.sequences import iid
from owlfi.weights.paper import paper_weights

SECONDS_A_SIMULATION = 1e-3  # of the paper's implementation
EQUAL, OPTIMAL = "equal weights, $m = n$", "optimal weights, $m = 2 n^{2/3}$"


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose((200, 500, 1000, 2000), (200, 1000))


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """The excess and the seconds of each way at each n; the seconds differ from run to run."""
    setting, key = set_up(key, multivariate_g_and_k(5), law_points(plan))
    for n in _sizes(plan):
        keys = jax.random.split(jax.random.fold_in(key, n), plan.repeats + 1)
        for name, m in ((EQUAL, n), (OPTIMAL, round(2 * n ** (2 / 3)))):
            runs = (_time_estimate(k, setting, n, m, optimal=name == OPTIMAL) for k in keys)
            errors, seconds = zip(*runs, strict=True)
            cost = float(np.median(seconds[1:]))  # the first repeat compiles
            yield make_point(name, n, list(errors[1:]), m=m, seconds=cost)


def _time_estimate(
    key: Key[Array, ""], setting: Setting, n: int, m: int, *, optimal: bool
) -> tuple[float, float]:
    """The excess of one estimate and the seconds it took, from points to squared MMD."""
    simulator, theta, data_kernel, law = setting
    data_key, point_key = jax.random.split(key)
    x = sample(data_key, simulator, theta, n).block_until_ready()
    start = time.perf_counter()
    u = iid(point_key, m, simulator.measure)
    y = simulate_rows(simulator, theta, u)
    weights = paper_weights(simulator.measure, u).weights if optimal else jnp.full(m, 1 / m)
    squared_mmd(data_kernel, y, x, weights).block_until_ready()
    seconds = time.perf_counter() - start
    return float(excesses(data_kernel, law, y[None], weights[None, None])[0, 0]), seconds


def costs(point: Record) -> tuple[float, float]:
    """Seconds as measured, and with a simulator of a millisecond a run."""
    return point["seconds"], point["seconds"] + SECONDS_A_SIMULATION * point["m"]


def table(records: list[Record]) -> Table:
    """A row for each way and n."""
    rows = []
    for p in records:
        weights, times = p["series"].split(",")[0], (f"{seconds:.4f}" for seconds in costs(p))
        rows.append((weights, str(p["x"]), str(p["m"]), f"{p['median']:.2e}", *times))
    headings = ("weights", "n", "m", "excess", "seconds measured", "at 1 ms a simulation")
    title = "Multivariate g-and-k, d = 5: error and cost of one estimate"
    return Table(title, headings, rows, NOTE)


def picture(records: list[Record]) -> Figure:
    """Errors against seconds, as measured and for a simulator of a millisecond."""
    figure = Figure(figsize=(7.2, 3.4))
    titles = ("as measured here", "with a simulator of 1 ms a run")
    for j, (axes, title) in enumerate(zip(figure.subplots(1, 2, sharey=True), titles, strict=True)):
        for number, (name, points) in enumerate(group(records, "series").items()):
            draw_curve(axes, [costs(point)[j] for point in points], points, number, name)
        label_axes(axes, "seconds an estimate", "excess squared MMD" if j == 0 else "")
        axes.set_title(title, fontsize=9)
    return figure


FIGURE3D = Experiment(
    name="figure3d",
    shows="error against cost: optimal weights are below equal ones at equal cost",
    takes="1 min",
    repeats=(50, 10),
    steps=lambda plan: 2 * len(_sizes(plan)),
    run=run,
    table=table,
    picture=picture,
)
