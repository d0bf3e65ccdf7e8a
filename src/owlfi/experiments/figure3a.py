"""Figure 3a: which kernel k on the data and which base kernel c, against m."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
from jaxtyping import Array, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.curves import curve_picture, curve_table, make_point
from owlfi.experiments.excess import Setting, law_of, law_points, measure_excesses, sample
from owlfi.experiments.experiment import Experiment, Plan, Record
from owlfi.kernels import Kernel, Matern, SquaredExponential
from owlfi.kernels.median import median_heuristic
from owlfi.models import multivariate_g_and_k
from owlfi.weights.kernel_fit import product_matern

DIM = 10
_SIZES = (16, 32, 64, 128, 256, 512)
_QUICK_SIZES = (16, 64, 256)
_SAMPLE = 2000


def _matern(lengthscale: Any) -> Kernel:
    return Matern(nu=2.5, lengthscale=lengthscale)


DATA_KERNELS: dict[str, Callable[[Any], Kernel]] = {"SE": SquaredExponential, "Matérn": _matern}
BASE_KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "SE": SquaredExponential,
    "Matérn": partial(product_matern, 2.5),
}


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose(_SIZES, _QUICK_SIZES)


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Every pair of kernels at every m, on the same points, in the all-uniform form."""
    simulator = multivariate_g_and_k(DIM)
    uniform, theta = simulator.uniform(), as_array("theta", simulator.theta)
    law_key, sample_key, key = jax.random.split(key, 3)
    lengthscale = median_heuristic(sample(sample_key, simulator, theta, _SAMPLE))
    for k_name, data_family in DATA_KERNELS.items():
        data_kernel = data_family(lengthscale)
        law = law_of(law_key, simulator, theta, data_kernel, law_points(plan))
        setting = Setting(uniform, theta, data_kernel, law)
        for (c_name, family), m in product(BASE_KERNELS.items(), _sizes(plan)):
            keys = jax.random.split(jax.random.fold_in(key, m), plan.repeats)
            errors = measure_excesses(keys, setting, m, family=family)
            yield make_point(f"k {k_name}, c {c_name}", m, errors["ow"])


FIGURE3A = Experiment(
    name="figure3a",
    shows="kernels k and c: optimal weights do best where k is smooth",
    takes="2 min",
    repeats=20,
    quick_repeats=5,
    steps=lambda plan: len(DATA_KERNELS) * len(BASE_KERNELS) * len(_sizes(plan)),
    run=run,
    table=lambda records: curve_table(records, "Multivariate g-and-k, d = 10", "m"),
    picture=lambda records: curve_picture(records, "simulations $m$"),
)
