"""Figure 3b: growing dimension, with Gaussian and with uniform noise."""

from collections.abc import Iterator

import jax
from jaxtyping import Array, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.both_forms import compare_forms
from owlfi.experiments.curves import curve_picture, curve_table
from owlfi.experiments.experiment import Experiment, Plan, Record
from owlfi.models import multivariate_g_and_k

_SIZES = (5, 10, 20, 40, 60, 80, 100)
_QUICK_SIZES = (5, 20, 60)


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose(_SIZES, _QUICK_SIZES)


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Equal weights, and optimal ones in both forms of the noise, at each dimension."""
    for dim in _sizes(plan):
        simulator = multivariate_g_and_k(dim)
        theta = as_array("theta", simulator.theta)
        yield from compare_forms(jax.random.fold_in(key, dim), simulator, theta, dim, plan)


FIGURE3B = Experiment(
    name="figure3b",
    shows="dimension 5 to 100: Gaussian noise beats uniform noise while it is low",
    takes="2 min",
    repeats=20,
    quick_repeats=5,
    steps=lambda plan: 3 * len(_sizes(plan)),
    run=run,
    table=lambda records: curve_table(records, "Multivariate g-and-k, m = 500", "d = s"),
    picture=lambda records: curve_picture(records, "dimension $d = s$"),
)
