"""How well is the gradient of the squared MMD known, by which searches go?

With points and weights held fixed, the squared MMD is a smooth function of theta. The paper bounds
the error of its value; that of its gradient by theta is measured here.
"""

from collections.abc import Callable, Iterator
from itertools import product

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from owlfi.experiments.beyond import MODELS
from owlfi.experiments.curves import label_models
from owlfi.experiments.designs import run_adaptive, run_learned
from owlfi.experiments.excess import Setting, sample, set_up, simulate_rows
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.kernels import Kernel
from owlfi.mmd import squared_mmd
from owlfi.points.sequences import iid, sobol
from owlfi.problem.learned_coordinates import learn_coordinates
from owlfi.problem.simulator import Simulator
from owlfi.weights.paper import median_weights
from owlfi.weights.quadrature import Quadrature, unweighted
from owlfi.weights.tuned import tuned_weights

_POINTS = 256
_OBSERVED = 200
_CHUNK = 5  # repeats a step
_LAW_POINTS = 2**10  # the law itself is not needed, only k


def _weigh_equally(points: Callable) -> Callable[[Key[Array, ""], Setting], Quadrature]:
    return lambda key, setting: unweighted(points(key, _POINTS, setting.simulator.measure))


def _weigh_as_the_paper(key: Key[Array, ""], setting: Setting) -> Quadrature:
    measure = setting.simulator.measure
    return median_weights(measure, sobol(key, _POINTS, measure))


def _tune(key: Key[Array, ""], setting: Setting) -> Quadrature:
    measure = setting.simulator.measure
    u = sobol(key, _POINTS, measure)
    y = simulate_rows(setting.simulator, setting.theta, u)
    return tuned_weights(setting.data_kernel, measure, u, y)


RULES: dict[str, Callable[[Key[Array, ""], Setting], Quadrature]] = {
    "iid V": _weigh_equally(iid),
    "Sobol V": _weigh_equally(sobol),
    "Sobol paper": _weigh_as_the_paper,
    "Sobol tuned": _tune,
    "learned": lambda key, setting: run_learned(key, setting, _POINTS).quadrature,
    "adaptive": lambda key, setting: run_adaptive(key, setting, _POINTS).quadrature,
}


def _names(plan: Plan) -> list[str]:
    return plan.choose(list(MODELS), ["g-and-k", "two moons"])


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Errors of a few repeats of one model under every rule."""
    for number, name in enumerate(_names(plan)):
        own_key, points = jax.random.fold_in(key, number), plan.choose(2**14, 2**12)
        setting, repeat_key = set_up(own_key, MODELS[name](), _LAW_POINTS)
        x = sample(repeat_key, setting.simulator, setting.theta, _OBSERVED)
        there = _know_all(own_key, setting, points, x)
        for chunk in plan.chunks(_CHUNK):
            keys = [jax.random.fold_in(repeat_key, r) for r in chunk]
            errors = {
                rule_name: [_measure_errors(rule(key, setting), setting, x, there) for key in keys]
                for rule_name, rule in RULES.items()
            }
            yield {"model": name, "s": setting.simulator.measure.dim, "errors": errors}


def _know_all(
    key: Key[Array, ""], setting: Setting, points: int, x: Float[Array, "n d"]
) -> Float[np.ndarray, " q"]:
    """The value and its gradient, on very many points in learned coordinates."""
    simulator, theta, data_kernel, _ = setting
    noise = learn_coordinates(key, simulator, data_kernel, theta).measure
    return _measure(unweighted(sobol(key, points, noise)), setting, x)


def _measure_errors(
    quadrature: Quadrature, setting: Setting, x: Array, there: np.ndarray
) -> tuple[float, float]:
    """Squared errors of the value and of the gradient."""
    away = (_measure(quadrature, setting, x) - there) ** 2
    return float(away[0]), float(away[1:].sum())


def _measure(quadrature: Quadrature, setting: Setting, x: Array) -> Float[np.ndarray, " q"]:
    simulator, theta, data_kernel, _ = setting
    points, weights = quadrature.points, quadrature.weights
    value, slope = _value_and_slope(simulator, data_kernel, theta, points, weights, x)
    return np.append(value, np.asarray(slope) * _natural_scale(simulator, theta))


@eqx.filter_jit
def _value_and_slope(
    simulator: Simulator, k: Kernel, theta: Array, u: Array, weights: Array, x: Array
) -> tuple[Array, Array]:
    def distance(theta: Array) -> Array:
        return squared_mmd(k, simulator.rows(theta, u), x, weights=weights)

    return jax.value_and_grad(distance)(theta)


def _natural_scale(simulator: Simulator, theta: Array) -> np.ndarray:
    """So that parameters can be compared: the interquartile range of the prior, else theta."""
    if simulator.prior is None:
        return np.abs(np.asarray(theta))
    quartiles = np.repeat([[0.25], [0.75]], len(theta), axis=1)
    low, high = np.asarray(simulator.prior.measure.from_uniform(quartiles))
    return high - low


def arrange(records: list[Record]) -> dict[str, Record]:
    """By model and rule: mean squared errors of value and gradient, and their gains.

    A gain says how many times smaller than on independent points with equal weights.
    """
    results: dict[str, Record] = {}
    for name, chunks in group(records, "model").items():
        means = {
            rule: np.mean([pair for chunk in chunks for pair in chunk["errors"][rule]], axis=0)
            for rule in RULES
        }
        gains = {rule: means["iid V"] / np.maximum(mean, 1e-300) for rule, mean in means.items()}
        results[name] = {"s": chunks[0]["s"]} | {
            rule: {"mean_squared": means[rule].tolist(), "gain": gains[rule].tolist()}
            for rule in RULES
        }
    return results


def table(records: list[Record]) -> Table:
    """Mean squared errors of the gradient, with the gains of gradient and value."""
    rows = []
    for name, result in arrange(records).items():
        cells = [_cell(result[rule]) for rule in RULES]
        rows.append((f"{name}\ns = {result['s']}", *cells))
    return Table(
        f"Mean squared error of the gradient, m = {_POINTS}",
        ("model", *RULES),
        rows,
        "By parameters in units of the prior's interquartile range. Below: how many times smaller "
        "than on independent points with equal weights, of the gradient and (of the value).",
    )


def _cell(summary: Record) -> str:
    (_, slope), (value_gain, slope_gain) = summary["mean_squared"], summary["gain"]
    return f"{slope:.1e}\n{slope_gain:,.2g} x ({value_gain:,.2g} x)"


def picture(records: list[Record]) -> Figure:
    """The gain of each rule, of the gradient (filled) and of the value (open)."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 4.2))
    axes = figure.subplots()
    for j, (rule, which) in enumerate(product(RULES, (1, 0))):
        gains = [result[rule]["gain"][which] for result in results.values()]
        place, color = np.arange(len(gains)) + 0.06 * (j - len(RULES)), f"C{j // 2}"
        label = rule if which else None
        face = color if which else "white"
        axes.plot(place, gains, "o", color=color, markerfacecolor=face, label=label)
    y_label = "gain over independent points"
    label_models(axes, list(results), y_label, columns=3, rotation=20, ha="right")
    return figure


GRADIENTS = Experiment(
    name="gradients",
    shows="the error of the gradient of the squared MMD by theta, beside that of its value",
    takes="25 min",
    repeats=(20, 2),
    steps=lambda plan: len(_names(plan)) * len(plan.chunks(_CHUNK)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
