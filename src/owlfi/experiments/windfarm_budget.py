"""The wind farm from a tenth of its runs: thetas proposed by a campaign, against the full design.

The full design is the paper's: 1,000 directions from the prior, ten points u of its own for each,
optimal weights. The campaign has at most 1,000 calls in all, its pilot and its check included. Both
keep 5% of the prior, and are compared with the near-exact posterior by the 1-Wasserstein distance.

Many repeats run on a table of the wake model: quadratic in u, linear in theta between near
directions. Its error is measured, and one campaign runs the wake model itself.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import wasserstein_distance

from owlfi.campaign import Campaign
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.inference.abc import accept
from owlfi.kernels import SquaredExponential
from owlfi.mmd import squared_mmd
from owlfi.models.wind_farm import stored_runs, wind_farm
from owlfi.points.sequences import iid, sobol
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import simulate
from owlfi.problem.simulator import Simulator
from owlfi.results import Posterior
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.quadrature import Quadrature

SHARE = 0.05
THETAS, POINTS = 1000, 10
BUDGET = 1000
PILOT, BATCH = 30, 23
_NODES = np.array([-3.0, 0.0, 3.0])
_DENSE = 12_000
_BASE_KERNEL = SquaredExponential(jnp.array(1.0))


class WakeTable(eqx.Module):
    """y = a + b u + c u², the coefficients linear between the directions of a table."""

    directions: Float[Array, " n"]
    coefficients: Float[Array, "3 n"]

    def __call__(self, theta: Any, u: Any) -> Array:
        a, b, c = (jnp.interp(theta[0], self.directions, row) for row in self.coefficients)
        return a + u * (b + u * c)


def tabulate_wakes(directions: int) -> Simulator:
    """The wind farm with its wake model run at so many directions, three points u each."""
    model = wind_farm()
    theta = jnp.linspace(0, 30, directions + 1)[:-1] + 15 / directions
    u = optimal_weights(_BASE_KERNEL, model.measure, _NODES)
    y = np.asarray(simulate(model, theta[:, None], u, check=False).y)[..., 0]
    coefficients = np.linalg.solve(np.vander(_NODES, increasing=True), y.T)
    table = WakeTable(theta, jnp.asarray(coefficients))
    return Simulator(table, model.measure, model.parameters, prior=model.prior)


def table_errors(key: Key[Array, ""], table: Simulator, count: int) -> Float[np.ndarray, " count"]:
    """|y of the table - y of the wake model| at random directions and u."""
    model, keys = wind_farm(), jax.random.split(key)
    assert model.prior is not None
    thetas = model.prior.sample(keys[0], count)
    u = iid(keys[1], count, model.measure)[:, None]
    pairs = optimal_weights(_BASE_KERNEL, model.measure, u)
    both = [simulate(one, thetas, pairs, check=False).y for one in (table, model)]
    return np.abs(np.asarray(both[0] - both[1])).ravel()


def near_exact_directions(problem: Problem) -> Float[np.ndarray, " n"]:
    """The directions of a dense grid that the squared MMD by a fine Gauss rule over u accepts."""
    nodes, weights = (jnp.asarray(part) for part in hermegauss(60))
    thetas = 30 * (np.arange(_DENSE) + 0.5)[:, None] / _DENSE
    y = jax.lax.map(lambda t: problem.simulator.rows(t, nodes[:, None]), jnp.asarray(thetas))
    found = squared_mmd(problem.data_kernel, y, problem.observed, weights / weights.sum())
    return thetas[np.argsort(np.asarray(found), kind="stable")[: round(SHARE * _DENSE)], 0]


def run_full_design(key: Key[Array, ""], problem: Problem, *, own_points: bool = True) -> Posterior:
    """The paper's design; or with the campaign's ten Sobol points for all directions."""
    theta_key, noise_key = jax.random.split(key)
    if own_points:
        u = iid(noise_key, THETAS * POINTS, problem.simulator.measure).reshape(THETAS, POINTS, 1)
        quadrature = optimal_weights(_BASE_KERNEL, problem.simulator.measure, u)
    else:
        quadrature = _weigh_sobol_points(noise_key, problem.simulator)
    thetas = problem.prior.sample(theta_key, THETAS)
    runs = simulate(problem.simulator, thetas, quadrature, check=False)
    return accept(problem, runs, share=SHARE)


def run_campaign(key: Key[Array, ""], problem: Problem, store: Path) -> tuple[Posterior, Campaign]:
    """A campaign of at most 1,000 calls that proposes its own directions."""
    pilot_key, noise_key, explore_key = jax.random.split(key, 3)
    pilot = problem.prior.starts(pilot_key, PILOT)
    quadrature = _weigh_sobol_points(noise_key, problem.simulator)
    campaign = Campaign.create(store, problem.simulator, pilot, quadrature)
    campaign.explore(
        explore_key,
        problem,
        budget=BUDGET,
        batch=BATCH,
        share=SHARE,
        costs=False,  # the design is the same however long its runs took
        executor="here",
    )
    return accept(problem, campaign.results(partial=True), share=SHARE), campaign


def _weigh_sobol_points(key: Key[Array, ""], simulator: Simulator) -> Quadrature:
    return optimal_weights(_BASE_KERNEL, simulator.measure, sobol(key, POINTS, simulator.measure))


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Each repeat on the table; the first also with the wake model itself."""
    size, checked = plan.choose((3000, 300), (300, 30))  # directions
    x = stored_runs().x
    table = Problem(tabulate_wakes(size), x)
    errors = table_errors(jax.random.fold_in(key, plan.repeats), table.simulator, checked)
    exact = near_exact_directions(table)
    about = {"table_size": size, "largest_error": float(errors.max())}
    about |= {"median_error": float(np.median(errors)), "checked": checked}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(plan.repeats):
            keys = jax.random.split(jax.random.fold_in(key, number), 3)
            store = Path(folder) / f"{number}.sqlite"
            record = _record("table", number, exact, *run_campaign(keys[0], table, store))
            paper = run_full_design(keys[1], table)
            shared = run_full_design(keys[1], table, own_points=False)
            record |= {"full": _distance(paper, exact), "full, shared u": _distance(shared, exact)}
            record |= {"exact": exact.tolist(), "full_draws": paper.draws[:, 0].tolist()}
            yield record | about
        problem = Problem(wind_farm(), x)
        key = jax.random.split(jax.random.fold_in(key, 0), 3)[0]
        made = run_campaign(key, problem, Path(folder) / "wakes.sqlite")
        yield _record("wake model", 0, exact, *made) | about


def _record(
    model: str, number: int, exact: np.ndarray, posterior: Posterior, campaign: Campaign
) -> Record:
    return {
        "model": model,
        "repeat": number,
        "calls": campaign.status().calls,
        "budgeted": _distance(posterior, exact),
        "draws": np.asarray(posterior.draws)[:, 0].tolist(),
        "weights": np.asarray(posterior.weights).tolist(),
        "proposed": campaign.design.thetas[PILOT:, 0].tolist(),
    }


def _distance(posterior: Posterior, exact: np.ndarray) -> float:
    draws, weights = np.asarray(posterior.draws)[:, 0], np.asarray(posterior.weights)
    return float(wasserstein_distance(draws, exact, weights))


_DESIGNS = {
    "full": "full, the paper's points",
    "full, shared u": "full, the campaign's points",
    "budgeted": "campaign",
}


def arrange(records: list[Record]) -> Record:
    """The distances of all repeats, and what they come to."""
    repeats, wakes = _split_records(records)
    distances = {name: [r[name] for r in repeats] for name in _DESIGNS}
    table = ("table_size", "checked", "largest_error", "median_error")
    return {
        "median": {name: float(np.median(values)) for name, values in distances.items()},
        "no_farther": {name: _no_farther(repeats, name) for name in ("full", "full, shared u")},
        "repeats": len(repeats),
        "most_calls": max(r["calls"] for r in records),
        "wake_model": [{"calls": r["calls"], "budgeted": r["budgeted"]} for r in wakes],
        "distances": distances,
        "table": {name: records[0][name] for name in table},
    }


def _split_records(records: list[Record]) -> tuple[list[Record], list[Record]]:
    by_model = group(records, "model")
    return by_model.get("table", []), by_model.get("wake model", [])


def _no_farther(repeats: list[Record], name: str) -> int:
    return sum(r["budgeted"] <= r[name] for r in repeats)


def table(records: list[Record]) -> Table:
    """A row for each design."""
    repeats, wakes = _split_records(records)
    rows = []
    for name, label in _DESIGNS.items():
        found = np.array([r[name] for r in repeats])
        calls = max(r["calls"] for r in repeats) if name == "budgeted" else THETAS * POINTS
        beaten = "" if name == "budgeted" else f"{_no_farther(repeats, name)} of {len(repeats)}"
        numbers = (f"{value:.3g}" for value in (np.median(found), found.min(), found.max()))
        rows.append((label, f"{calls:,}", *numbers, beaten))
    for record in wakes:
        value = f"{record['budgeted']:.3g}"
        rows.append(("campaign, wake model", f"{record['calls']:,}", *[value] * 3, ""))
    return Table(
        "Distance of ABC posteriors of the wind direction from the near-exact one (degrees)",
        ("design", "calls", "median", "least", "most", "campaign no farther"),
        rows,
        f"1-Wasserstein, 5% of the prior kept. The repeats use a table of the wake model, off by "
        f"at most {records[0]['largest_error']:.1g} in y at {records[0]['checked']} random places.",
    )


def picture(records: list[Record]) -> Figure:
    """Distances of all repeats, and the posteriors of the first."""
    repeats, _ = _split_records(records)
    figure = Figure(figsize=(9, 3.6))
    left, right = figure.subplots(1, 2)
    for name, marker in (("full", "o"), ("full, shared u", "x")):
        pairs = np.array([(r[name], r["budgeted"]) for r in repeats]).reshape(-1, 2)
        left.plot(*pairs.T, marker, markersize=4, label=_DESIGNS[name])
    line = np.array([0, 1.05 * max((r[name] for r in repeats for name in _DESIGNS), default=1.0)])
    left.plot(line, line, color="0.6", linewidth=0.8)
    left.set(xlabel="distance of the full design, 10,000 runs (degrees)", xlim=line, ylim=line)
    left.set_ylabel("distance of the campaign, 1,000 runs")
    left.legend(fontsize=8, loc="upper left")
    for record in repeats[:1]:
        _draw_posteriors(right, record)
    return figure


def _draw_posteriors(ax: Any, record: Record) -> None:
    """Distribution functions: the distance is the area between two of them."""
    for name, label, color, width in (
        ("exact", "near-exact", "0.6", 3.0),
        ("full_draws", "full design", "C0", 1.0),
        ("draws", "campaign", "C2", 1.0),
    ):
        draws = np.array(record[name])
        weights = np.array(record["weights"]) if name == "draws" else np.full_like(draws, 1)
        order = np.argsort(draws)
        places = np.concatenate([[8.0], draws[order], [22.0]])
        heights = np.concatenate([[0.0], np.cumsum(weights[order]) / weights.sum(), [1.0]])
        ax.step(places, heights, where="post", color=color, label=label, linewidth=width)
    ax.plot(record["proposed"], np.full(len(record["proposed"]), -0.03), "|", color="k")
    ax.set(xlabel="direction (degrees); ticks: those proposed", xlim=(8, 22), ylim=(-0.06, 1.02))
    ax.set_ylabel("distribution function, first repeat")
    ax.legend(fontsize=8, loc="upper center")


WINDFARM_BUDGET = Experiment(
    name="windfarm-budget",
    shows="ABC on the wind farm from a tenth of the runs, at directions that a campaign proposes",
    takes="5 min",
    repeats=(20, 2),
    steps=lambda plan: plan.repeats + 1,
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
