"""Beyond the paper: weights tuned to the simulator, and points chosen for it."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi import models
from owlfi.experiments.curves import label_models
from owlfi.experiments.designs import run_adaptive, run_learned, run_regressed
from owlfi.experiments.excess import LAW_POINTS, Setting, excesses, set_up, simulate_rows
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.paths import process, slow_epidemic, switch
from owlfi.points.sequences import iid, sobol
from owlfi.problem.simulator import Simulator
from owlfi.weights.paper import paper_weights
from owlfi.weights.quadrature import Quadrature
from owlfi.weights.tuned import tuned_weights

MODELS: dict[str, Callable[[], Simulator]] = {
    "g-and-k": models.g_and_k,
    "two moons": models.two_moons,
    "bivariate beta": models.bivariate_beta,
    "mv g-and-k, d = 5": lambda: models.multivariate_g_and_k(5),
    "M/G/1 queue": models.queue,
    "mv g-and-k, d = 10": lambda: models.multivariate_g_and_k(10),
    "MA(2)": models.moving_average,
    "Ornstein-Uhlenbeck": process,
    "SIR": slow_epidemic,
    "toggle switch": switch,
    "Lotka-Volterra": models.lotka_volterra,
}
_CHUNK = 5  # repeats a step
_POINTS = {"iid": iid, "sobol": sobol}
_RULES = ("v", "paper", "tuned")
_CHOSEN = {"learned": run_learned, "regressed": run_regressed, "adaptive": run_adaptive}
_CASES = [*product(_POINTS, _RULES), ("learned", "v"), *product(_CHOSEN, ("tuned",))]
_HEADINGS = (
    "iid V", "iid paper", "iid tuned", "Sobol V", "Sobol paper", "Sobol tuned", "learned V",
    "learned", "regressed", "adaptive",
)  # fmt: skip
_USUAL = 256
_LARGE = {"Lotka-Volterra": 1024}  # of the learned points alone


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.choose((64, _USUAL), (64,))


def _names(plan: Plan) -> list[str]:
    return plan.choose(list(MODELS), ["g-and-k", "two moons"])


def _list_steps(plan: Plan) -> list[tuple[range, str, int]]:
    """The repeats, the model and m of each: more repeats go on where fewer ended."""
    sizes = {name: (*_sizes(plan), *plan.choose(_more(name), ())) for name in _names(plan)}
    return [
        (chunk, name, m) for chunk in plan.chunks(_CHUNK) for name in sizes for m in sizes[name]
    ]


def _more(name: str) -> tuple[int, ...]:
    return (_LARGE[name],) if name in _LARGE else ()


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """Excesses and certificates of a few repeats of one model at one m."""
    names, points = _names(plan), plan.choose(LAW_POINTS, 2**13)

    @cache
    def set_up_model(name: str) -> tuple[Setting, Key[Array, ""]]:
        own_key = jax.random.fold_in(key, names.index(name))
        return set_up(own_key, MODELS[name](), points, exact=True)

    for chunk, name, m in _list_steps(plan)[skip:]:
        setting, repeat_key = set_up_model(name)
        keys = [jax.random.fold_in(jax.random.fold_in(repeat_key, m), r) for r in chunk]
        about = {"model": name, "s": setting.simulator.measure.dim, "m": m}
        yield about | _repeat(keys, setting, m)


def _repeat(keys: list[Array], setting: Setting, m: int) -> Record:
    simulator, theta, data_kernel, law = setting
    measure, uniform = simulator.measure, simulator.uniform().measure
    result: Record = {"excess": {}, "certificate": {}, "tails": {}, "pilot": {}}
    large = m > _USUAL
    for name, points in () if large else _POINTS.items():
        v = [points(key, m, uniform) for key in keys]
        u = jnp.stack([measure.from_uniform(cells) for cells in v])
        y = jnp.stack([simulate_rows(simulator, theta, design) for design in u])
        tuned = tuned_weights(data_kernel, measure, u, y)
        paper = jnp.stack([paper_weights(uniform, cells).weights for cells in v])
        weights = jnp.stack([jnp.full_like(paper, 1 / m), paper, tuned.weights], 1)
        table = np.asarray(excesses(data_kernel, law, y, weights))
        result["excess"][name] = dict(zip(_RULES, table.T.tolist(), strict=True))
        result["certificate"][name], result["tails"][name] = _read_certificate(tuned)
    for name, run_design in _CHOSEN.items() if not large else [("learned", run_learned)]:
        designs = [run_design(key, setting, m) for key in keys]
        y = jnp.stack([design.y for design in designs])
        found = jnp.stack([design.quadrature.weights for design in designs])
        weights = jnp.stack([jnp.full_like(found, 1 / m), found], 1)
        table = np.asarray(excesses(data_kernel, law, y, weights))
        result["excess"][name] = dict(zip(("v", "tuned"), table.T.tolist(), strict=True))
        read = [_read_certificate(design.quadrature) for design in designs]
        result["certificate"][name] = [number for numbers, _ in read for number in numbers]
        result["tails"][name] = [number for _, numbers in read for number in numbers]
        result["pilot"][name] = [design.pilot for design in designs]
    return result


def _read_certificate(quadrature: Quadrature) -> tuple[list[float], list[float]]:
    """The estimated excess of each design, and how badly its outermost points fit."""
    assert quadrature.certificate is not None
    excess, tails = quadrature.certificate.excess, quadrature.certificate.tails
    return np.atleast_1d(excess).tolist(), np.atleast_1d(tails).tolist()


def arrange(records: list[Record]) -> dict[str, Record]:
    """By model, m, points and rule: the excess, its ratios, and the certificate's to the excess.

    Ratios are medians of those in each repeat, on the same points; learned, regressed and
    adaptive points are compared with equal weights and the paper's on Sobol points.
    """
    results: dict[str, Record] = {}
    for name, of_model in group(records, "model").items():
        results[name] = {"s": of_model[0]["s"]}
        for m, chunks in group(of_model, "m").items():
            by_points = results[name][str(m)] = {}
            for points, rule in (case for case in _CASES if case[0] in chunks[0]["excess"]):
                by_points.setdefault(points, {})[rule] = _summarise(chunks, points, rule)
    return results


def _summarise(chunks: list[Record], points: str, rule: str) -> Record:
    def excess(points: str, rule: str) -> np.ndarray:
        return np.concatenate([chunk["excess"][points][rule] for chunk in chunks])

    found = excess(points, rule)
    peers = points if points in _POINTS else "sobol"
    summary = {"repeats": len(found), "excess_median": float(np.median(found))}
    for peer in ("v", "paper"):
        if peers in chunks[0]["excess"]:
            summary[f"ratio_to_{peer}"] = float(np.median(found / excess(peers, peer)))
    if points == "learned":
        summary["ratio_to_v_there"] = float(np.median(found / excess(points, "v")))
    if points not in _POINTS:
        pilots = np.concatenate([chunk["pilot"][points] for chunk in chunks])
        summary["pilot_median"] = float(np.median(pilots))
    if rule == "tuned":
        certificate, tails = (
            np.concatenate([chunk[what][points] for chunk in chunks])
            for what in ("certificate", "tails")
        )
        summary["certificate_ratio"] = float(np.median(certificate / np.maximum(found, 1e-300)))
        summary["tails_median"] = float(np.median(tails))
    return summary


def table(records: list[Record]) -> Table:
    """Median excesses; below the tuned ones, the gain over equal weights and the certificate."""
    rows = []
    for name, result in arrange(records).items():
        for m in (key for key in result if key != "s"):
            cells = [_cell(result[m].get(points, {}).get(rule), rule) for points, rule in _CASES]
            rows.append((f"{name}\ns = {result['s']}, m = {m}", *cells))
    return Table(
        "Median excess squared MMD",
        ("model", *_HEADINGS),
        rows,
        "The paper's weights are in its all-uniform form. Below: how many times smaller than with "
        "equal weights on the same points (learned, regressed, adaptive: on Sobol points), and the "
        "certificate over the true excess.",
    )


def _cell(summary: Record | None, rule: str) -> str:
    if summary is None:
        return "–"
    excess = summary["excess_median"]
    if rule != "tuned":
        return f"{excess:.1e}"
    seen = excess > 1e-10  # below, rounding of the reference decides
    certificate = f"\ncert. {summary['certificate_ratio']:.2g}" if seen else ""
    ratio = summary["ratio_to_v" if "ratio_to_v" in summary else "ratio_to_v_there"]
    return f"{excess:.1e}\n{1 / ratio:,.2g} x{certificate}"


def picture(records: list[Record]) -> Figure:
    """The excess of every rule at the largest m that all have."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 4.2))
    axes = figure.subplots()
    sizes = [
        max(int(m) for m in result if m != "s" and int(m) <= _USUAL) for result in results.values()
    ]
    largest = [result[str(m)] for result, m in zip(results.values(), sizes, strict=True)]
    for j, ((points, rule), marker) in enumerate(zip(_CASES, "os^os^*DXP", strict=True)):
        values = [max(cell[points][rule]["excess_median"], 1e-16) for cell in largest]
        color = {"v": "0.45", "paper": "C0", "tuned": "C1"}[rule]
        fill = "white" if points == "sobol" else color
        place = np.arange(len(values)) + 0.1 * (j - 3)
        label = points if points in ("regressed", "adaptive") else f"{points}, {rule}"
        axes.plot(place, values, marker, color=color, markerfacecolor=fill, label=label)
    y_label = "median excess squared MMD"
    label_models(axes, list(results), y_label, columns=4, rotation=20, ha="right")
    return figure


BEYOND = Experiment(
    name="beyond",
    shows="weights tuned to the simulator and adaptive points, against the paper's rule",
    takes="25 min",
    repeats=(20, 2),
    steps=lambda plan: len(_list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
