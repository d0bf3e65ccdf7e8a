"""Figures 3a to 3c and the appendix's on theta_3: errors for the multivariate g-and-k."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
from jaxtyping import Array, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.curves import curve_picture, curve_table, make_point
from owlfi.experiments.excess import Setting, law_of, law_points, measure_excesses, sample, set_up
from owlfi.experiments.experiment import Experiment, Plan, Record
from owlfi.kernels import Kernel, Matern, SquaredExponential
from owlfi.kernels.median_heuristic import median_heuristic
from owlfi.models import multivariate_g_and_k
from owlfi.problem.simulator import Simulator
from owlfi.weights.kernel_fit import product_matern

DIM = 10
SIMULATED = 500
EQUAL, GAUSSIAN, UNIFORM = "equal weights", "optimal, Gaussian noise", "optimal, uniform noise"
DATA_KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "SE": SquaredExponential,
    "Matérn": lambda lengthscale: Matern(nu=2.5, lengthscale=lengthscale),
}
BASE_KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "SE": SquaredExponential,
    "Matérn": partial(product_matern, 2.5),
}


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose((16, 32, 64, 128, 256, 512), (16, 64, 256))


def compare_kernels(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Every pair of kernels at every m, on the same points, in the all-uniform form."""
    simulator = multivariate_g_and_k(DIM)
    uniform, theta = simulator.uniform(), as_array("theta", simulator.theta)
    law_key, sample_key, key = jax.random.split(key, 3)
    lengthscale = median_heuristic(sample(sample_key, simulator, theta, 2000))
    for k_name, data_family in DATA_KERNELS.items():
        data_kernel = data_family(lengthscale)
        law = law_of(law_key, simulator, theta, data_kernel, law_points(plan))
        setting = Setting(uniform, theta, data_kernel, law)
        for (c_name, family), m in product(BASE_KERNELS.items(), _sizes(plan)):
            keys = jax.random.split(jax.random.fold_in(key, m), plan.repeats)
            errors = measure_excesses(keys, setting, m, family=family)
            yield make_point(f"k {k_name}, c {c_name}", m, errors["ow"])


Case = tuple[int, float, Simulator, Any]  # number for its key, place on the x axis, at which theta


def compare_forms(
    cases: Callable[[Plan], list[Case]], key: Key[Array, ""], plan: Plan
) -> Iterator[Record]:
    """Equal weights, and optimal ones with Gaussian and with uniform noise, in each case."""
    for number, x, simulator, theta in cases(plan):
        own_key = jax.random.fold_in(key, number)
        setting, own_key = set_up(own_key, simulator, law_points(plan), theta=theta)
        keys = jax.random.split(own_key, plan.repeats)
        native = measure_excesses(keys, setting, SIMULATED)
        yield make_point(EQUAL, x, native["v"])
        yield make_point(GAUSSIAN, x, native["ow"])
        uniform = measure_excesses(keys, setting._replace(simulator=simulator.uniform()), SIMULATED)
        yield make_point(UNIFORM, x, uniform["ow"])


def _vary_dimension(plan: Plan) -> list[Case]:
    dims = plan.choose((5, 10, 20, 40, 60, 80, 100), (5, 20, 60))
    return [(dim, dim, multivariate_g_and_k(dim), None) for dim in dims]


def _vary_theta(index: int, values: tuple[float, ...], plan: Plan) -> list[Case]:
    simulator = multivariate_g_and_k(DIM)
    usual = as_array("theta", simulator.theta)
    chosen = enumerate(plan.choose(values, values[::3]))
    return [(step, value, simulator, usual.at[index].set(value)) for step, value in chosen]


def _theta_experiment(name: str, place: int, values: tuple[float, ...], shows: str) -> Experiment:
    cases, title = partial(_vary_theta, place - 1, values), "Multivariate g-and-k, d = 10, m = 500"
    return Experiment(
        name=name,
        shows=shows,
        takes="1 min",
        repeats=(20, 5),
        steps=lambda plan: 3 * len(cases(plan)),
        run=partial(compare_forms, cases),
        table=partial(curve_table, title=title, x_name=f"theta_{place}"),
        picture=partial(curve_picture, x_label=rf"$\theta_{place}$", log_x=False),
    )


FIGURE3A = Experiment(
    name="figure3a",
    shows="kernels k and c: optimal weights do best where k is smooth",
    takes="2 min",
    repeats=(20, 5),
    steps=lambda plan: len(DATA_KERNELS) * len(BASE_KERNELS) * len(_sizes(plan)),
    run=compare_kernels,
    table=partial(curve_table, title="Multivariate g-and-k, d = 10", x_name="m"),
    picture=partial(curve_picture, x_label="simulations $m$"),
)
FIGURE3B = Experiment(
    name="figure3b",
    shows="dimension 5 to 100: Gaussian noise beats uniform noise while it is low",
    takes="2 min",
    repeats=(20, 5),
    steps=lambda plan: 3 * len(_vary_dimension(plan)),
    run=partial(compare_forms, _vary_dimension),
    table=partial(curve_table, title="Multivariate g-and-k, m = 500", x_name="d = s"),
    picture=partial(curve_picture, x_label="dimension $d = s$"),
)
FIGURE3C = _theta_experiment(
    "figure3c",
    4,
    (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    "theta_4 (kurtosis): optimal weights lose as the tails grow",
)
FIGURE_THETA3 = _theta_experiment(
    "figure-theta3",
    3,
    (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    "theta_3 (skewness): the same, but less so",
)
