"""The wind farm: ABC on the published runs, and on runs of the wake model made here.

The posterior has two modes (directions near 9.5 and 20 degrees have the same mean), so that rules
are compared by how many of the accepted directions a near-exact posterior accepts, too.
"""

from collections.abc import Callable, Iterator
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure
from scipy.stats import norm

from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.inference.prior_runs import measure_distances
from owlfi.kernels import SquaredExponential
from owlfi.measures import Normal
from owlfi.mmd import squared_mmd
from owlfi.models.wind_farm import StoredRuns, stored_runs, wind_farm
from owlfi.points.sequences import iid
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations, simulate
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.pooled import pooled_weights
from owlfi.weights.quadrature import Quadrature, unweighted
from owlfi.weights.tuned import tuned_weights

TRUTH = 20.0
SHARES = (0.05, 0.1)
_NOISE = Normal(0, 1)

Weighting = Callable[[Problem, Array, Array], Quadrature]

RULES: dict[str, Weighting] = {
    "V": lambda problem, u, y: unweighted(u),
    "U": lambda problem, u, y: unweighted(u, unbiased=True),
    "OW": lambda problem, u, y: optimal_weights(SquaredExponential(jnp.array(1.0)), _NOISE, u),
    "tuned alone": lambda problem, u, y: tuned_weights(problem.data_kernel, _NOISE, u, y),
    "tuned": lambda problem, u, y: pooled_weights(problem.data_kernel, _NOISE, u, y),
}
"""Each direction has its own ten points. "tuned alone" fits a kernel to them, "tuned" fits one to
the points of all directions."""


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Every rule on the stored runs, then on live ones of the same size or a part of it."""
    stored = stored_runs()
    yield from _compare("stored", stored)
    yield from _compare("live", _run_live(key, stored, plan.choose(200, 20)))


def _compare(runs: str, stored: StoredRuns) -> Iterator[Record]:
    problem = Problem(wind_farm(), stored.x)
    exact = near_exact_distances(problem, stored)
    for name in ("near-exact", *RULES):
        found = exact
        if name in RULES:
            quadrature = RULES[name](problem, stored.u, stored.y)
            found = measure_distances(problem, Simulations(stored.theta, quadrature, stored.y, 0))
        for share in SHARES:
            about = {"runs": runs, "rule": name, "share": share}
            yield about | _summarise(share, stored.theta, found, exact)


def near_exact_distances(problem: Problem, stored: StoredRuns) -> Float[np.ndarray, " t"]:
    """The squared MMD of 300 quantiles of a quadratic fit of y on u, for each direction."""
    z = jnp.asarray(norm.ppf((np.arange(300) + 0.5) / 300))

    def fit_quantiles(u: Array, y: Array) -> Array:
        coefficients = jnp.linalg.lstsq(jnp.vander(u[:, 0], 3), y)[0]
        return jnp.vander(z, 3) @ coefficients

    y = jax.vmap(fit_quantiles)(stored.u, stored.y)
    term = problem.data_term()
    return np.asarray(squared_mmd(problem.data_kernel, y, problem.observed, data_term=term))


def _run_live(key: Key[Array, ""], stored: StoredRuns, directions: int) -> StoredRuns:
    """Directions spread over the prior with noise of their own, run through the wake model."""
    theta = jnp.linspace(0, 30, directions + 2)[1:-1, None]
    u = iid(key, directions * stored.u.shape[1], _NOISE).reshape(directions, -1, 1)
    made = simulate(wind_farm(), theta, unweighted(u), check=False)
    return StoredRuns(theta, u, made.y, stored.x)


def _summarise(share: float, theta: Array, found: np.ndarray, exact: np.ndarray) -> Record:
    count = round(share * len(found))
    kept, right = (np.argsort(d, kind="stable")[:count] for d in (found, exact))
    draws = np.asarray(theta)[kept, 0]
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std()),
        "rmse": float(np.sqrt(np.mean((draws - TRUTH) ** 2))),
        "width95": float(np.diff(np.quantile(draws, [0.025, 0.975]))[0]),
        "share_within_1": float(np.mean(np.abs(draws - TRUTH) < 1)),
        "overlap": len(np.intersect1d(kept, right)) / count,
        "draws": draws.tolist(),
    }


def arrange(records: list[Record]) -> dict[str, Record]:
    """By rule and share; the live runs by themselves."""
    result: dict[str, Record] = {}
    for record in records:
        numbers = {k: v for k, v in record.items() if k not in ("runs", "rule", "share")}
        rules = result if record["runs"] == "stored" else result.setdefault("live", {})
        rules.setdefault(record["rule"], {})[f"{record['share']:.0%}"] = numbers
    return result


_COLUMNS = ("mean", "sd", "rmse", "width95", "share_within_1", "overlap")


def table(records: list[Record]) -> Table:
    """A row for each rule and share."""
    rows = [
        (r["runs"], r["rule"], f"{r['share']:.0%}", *(f"{r[c]:.3g}" for c in _COLUMNS))
        for r in records
    ]
    return Table(
        "ABC posterior of the wind direction (truth 20 degrees)",
        ("runs", "rule", "kept", "mean", "sd", "RMSE", "width", "within 1°", "overlap"),
        rows,
        "The posterior has modes near 9.5 and 20 degrees. Width: of the central 95%. Overlap: the "
        "share of the kept directions that the near-exact squared MMD keeps, too.",
    )


def picture(records: list[Record]) -> Figure:
    """Histograms of the accepted directions, near-exact ones behind each rule."""
    draws = {(r["rule"], r["share"]): r["draws"] for r in records if r["runs"] == "stored"}
    figure = Figure(figsize=(9, 2 * len(SHARES) + 0.4))
    axes = figure.subplots(len(SHARES), len(RULES), sharex=True, sharey="row")
    bins = np.linspace(0, 30, 31)
    for ax, (share, name) in zip(axes.flat, product(SHARES, RULES), strict=True):
        ax.hist(draws.get(("near-exact", share), []), bins, color="0.8", label="near-exact")
        ax.hist(draws.get((name, share), []), bins, histtype="step", color="C0", label=name)
        ax.axvline(TRUTH, color="k", linewidth=0.8)
        ax.set_title(f"{name}, {share:.0%}", fontsize=9)
    axes[0, 0].legend(["near-exact", "rule", "truth"], fontsize=7)
    for ax in axes[-1]:
        ax.set_xlabel("direction (degrees)", fontsize=8)
    return figure


WINDFARM = Experiment(
    name="windfarm",
    shows="ABC on the wind farm: optimal weights find what the exact posterior finds",
    takes="2 min",
    repeats=(1, 1),
    steps=lambda plan: 2 * len(SHARES) * (1 + len(RULES)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
