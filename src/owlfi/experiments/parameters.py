"""The error against one parameter of the multivariate g-and-k distribution."""

from collections.abc import Iterator
from functools import partial

import jax
from jaxtyping import Array, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.both_forms import compare_forms
from owlfi.experiments.curves import curve_picture, curve_table
from owlfi.experiments.experiment import Experiment, Plan, Record
from owlfi.models import multivariate_g_and_k

DIM = 10


def _run(
    place: int, values: tuple[float, ...], key: Key[Array, ""], plan: Plan
) -> Iterator[Record]:
    simulator = multivariate_g_and_k(DIM)
    usual = as_array("theta", simulator.theta)
    for number, value in enumerate(plan.choose(values, values[::3])):
        theta = usual.at[place].set(value)
        yield from compare_forms(jax.random.fold_in(key, number), simulator, theta, value, plan)


def parameter_experiment(
    name: str, place: int, values: tuple[float, ...], *, shows: str, takes: str
) -> Experiment:
    """Equal weights, and optimal ones in both forms of the noise, at values of one parameter."""
    symbol = f"theta_{place + 1}"
    return Experiment(
        name=name,
        shows=shows,
        takes=takes,
        repeats=20,
        quick_repeats=5,
        steps=lambda plan: 3 * len(plan.choose(values, values[::3])),
        run=partial(_run, place, values),
        table=lambda records: curve_table(records, "Multivariate g-and-k, d = 10, m = 500", symbol),
        picture=lambda records: curve_picture(records, rf"$\theta_{place + 1}$", log_x=False),
    )
