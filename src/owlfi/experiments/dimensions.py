"""How errors grow with the dimension of the noise: one law of y, driven by ever more increments.

A price that follows geometric Brownian motion, seen at five times, has the same law however many
increments its path is made of. So all that changes with s is how hard the noise is to integrate.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from owlfi.experiments.curves import curve_picture, curve_table, make_point
from owlfi.experiments.designs import Design, run_learned
from owlfi.experiments.excess import Setting, excesses, law_points, set_up, simulate_rows
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.measures import Measure, Normal, brownian
from owlfi.points.sequences import iid, sobol
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import unweighted
from owlfi.weights.tuned import tuned_weights

_SEEN = 5
_POINTS = 256
_SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)


@cache
def price(steps: int) -> Simulator:
    """Logarithms with drift theta_1 and volatility theta_2 over a unit of time; d = 5, s = steps.

    steps: a multiple of 5.
    """
    noise = Normal(dim=steps)
    return Simulator(_follow, noise, ["drift", "volatility"], theta=(0.05, 0.5))


def _follow(theta: Float[Array, " 2"], u: Float[Array, "m s"]) -> Float[Array, "m 5"]:
    drift, volatility = theta
    s = u.shape[1]
    path = jnp.cumsum((drift - volatility**2 / 2) / s + volatility * s**-0.5 * u, 1)
    return jnp.exp(path[:, s // _SEEN - 1 :: s // _SEEN])


Run = Callable[[Key[Array, ""], Setting], Design]


def _weigh_equally(points: Callable[[Key[Array, ""], int, Measure], Array]) -> Run:
    def run(key: Key[Array, ""], setting: Setting) -> Design:
        u = points(key, _POINTS, setting.simulator.measure)
        return Design(unweighted(u), simulate_rows(setting.simulator, setting.theta, u), 0)

    return run


def _tune_on(choose: Callable[[int], Measure]) -> Run:
    """Weights tuned on Sobol points of a measure."""

    def run(key: Key[Array, ""], setting: Setting) -> Design:
        noise = choose(setting.simulator.measure.dim)
        u = sobol(key, _POINTS, noise)
        y = simulate_rows(setting.simulator, setting.theta, u)
        return Design(tuned_weights(setting.data_kernel, noise, u, y), y, 0)

    return run


RULES: dict[str, Run] = {
    "independent, equal weights": _weigh_equally(iid),
    "Sobol, equal weights": _weigh_equally(sobol),
    "Sobol, tuned": _tune_on(lambda s: Normal(dim=s)),
    "learned": lambda key, setting: run_learned(key, setting, _POINTS),
    "known to be Brownian": _tune_on(brownian),
}


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose(_SIZES, _SIZES[:3])


def _list_steps(plan: Plan) -> list[tuple[int, int, str]]:
    """The repeat, s and the rule of each."""
    return list(product(range(plan.repeats), _sizes(plan), RULES))


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """The excess of one rule at one s."""
    law_key, key = jax.random.split(key)
    setting, _ = set_up(law_key, price(_SEEN), law_points(plan))
    for repeat, s, name in _list_steps(plan)[skip:]:
        own = setting._replace(simulator=price(s))
        design = RULES[name](jax.random.fold_in(jax.random.fold_in(key, s), repeat), own)
        weights = design.quadrature.weights[None, None]
        found = excesses(own.data_kernel, own.law, design.y[None], weights)
        yield {"series": name, "x": s, "excess": float(found[0, 0]), "pilot": design.pilot}


def arrange(records: list[Record]) -> list[Record]:
    """The points of each curve."""
    return [
        make_point(name, s, [r["excess"] for r in part], pilot=part[0]["pilot"])
        for name, curve in group(records, "series").items()
        for s, part in group(curve, "x").items()
    ]


def table(records: list[Record]) -> Table:
    """Median excesses by s and rule."""
    title = f"Geometric Brownian motion by s increments, m = {_POINTS}"
    return curve_table(arrange(records), title, "s")


def picture(records: list[Record]) -> Figure:
    """A curve for each rule."""
    return curve_picture(arrange(records), "dimension $s$ of the noise")


DIMENSIONS = Experiment(
    name="dimensions",
    shows="error against the dimension of the noise, from 10 to 10,000",
    takes="15 min",
    repeats=(10, 2),
    steps=lambda plan: len(_list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
