"""Thousands of calls with one wrong argument each: a ValueError in words, or what was meant."""

import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

import campaign_models as models
import owlfi
from owlfi import Normal, Prior, Problem, Simulator, SquaredExponential, Uniform, VStatistic
from owlfi.campaign import Campaign, Command
from owlfi.problem.rules import Rule
from strictness import unchecked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]
KEY = jax.random.key(0)
K, NOISE = SquaredExponential(1.0), Normal()
U = jnp.linspace(-1.0, 1.0, 8)[:, None]
PRIOR = Prior(a=Uniform(0, 2))
MODEL = Simulator(models.scaled, NOISE, ["a"], prior=PRIOR)
PROBLEM = Problem(MODEL, np.linspace(-1, 1, 9))
QUADRATURE = owlfi.equal_weights(K, NOISE, U)
RUNS = owlfi.simulate(MODEL, [0.5, 1.0, 1.5, 2.0], QUADRATURE)
RULE = VStatistic(m=8)
FOLDER = Path(tempfile.mkdtemp())
LONGEST = 300  # seconds for a call, on a busy machine


def new_path():
    return Path(tempfile.mkdtemp(dir=FOLDER)) / "runs.sqlite"


def run_campaign(**options):
    return Campaign.create(new_path(), MODEL, [1.0], QUADRATURE).run(executor="here", **options)


DONE = Campaign.create(new_path(), MODEL, [1.0], QUADRATURE)
DONE.run(executor="here")


class Silent:
    """An object of a type that nobody knows."""


class Hostile:
    """An object that raises whatever it is asked."""

    def _refuse(self, *_, **__):
        raise RuntimeError("not me")

    __repr__ = __str__ = __array__ = __bool__ = __eq__ = __len__ = __iter__ = __float__ = _refuse
    __index__ = __getitem__ = __hash__ = __call__ = __fspath__ = _refuse


def nest(depth):
    """A list in a list in a list."""
    found = [1.0]
    for _ in range(depth):
        found = [found]
    return found


WRONG = {
    "None": None,
    "zero": 0,
    "minus one": -1,
    "a half": 0.5,
    "NaN": np.nan,
    "infinity": np.inf,
    "text": "abc",
    "no text": "",
    "bytes": b"abc",
    "no list": [],
    "a dict": {"a": 1},
    "a set": {1.0},
    "texts": ["a", "b"],
    "ragged": [[1.0], [1.0, 2.0]],
    "an object": Silent(),
    "a type": Normal,
    "a function": lambda *_: None,
    "a number beyond doubles": 10**400,
    "a large number": 10**12,
    "three axes": np.ones((2, 2, 2)),
    "complex": np.ones(8) * 1j,
    "NaNs": np.full((8, 1), np.nan),
    "no rows": np.zeros((0, 1)),
    "a masked array": np.ma.masked_all(8),
    "a frame of text": pd.DataFrame({"a": ["x"]}),
    "a generator": (x for x in ()),
    "a kernel": K,
    "a measure": NOISE,
    "a distribution": scipy.stats.norm,
    "a quadrature": QUADRATURE,
    "a problem": PROBLEM,
    "a rule": RULE,
    "a key": KEY,
    "a path": Path("nowhere.csv"),
    "a sparse matrix": scipy.sparse.eye(8, format="csr"),
    "a sparse array of JAX": jax.experimental.sparse.BCOO.fromdense(jnp.eye(8)),
    "a structured array": np.zeros(8, [("a", float), ("b", float)]),
    "a hostile object": Hostile(),
    "a list of hostile objects": [Hostile(), Hostile()],
    "a deep list": nest(2000),
    "a long name": "x" * 5000,
    "a name with a zero": "a\0b",
}

CALLS = {
    "Normal": (Normal, {"mean": 0.0, "sd": 1.0, "dim": 2}),
    "Uniform": (Uniform, {"low": 0.0, "high": 1.0, "dim": 2}),
    "Gamma": (owlfi.Gamma, {"shape": 2.0, "rate": 1.0, "dim": 1}),
    "StudentT": (owlfi.StudentT, {"df": 3.0, "dim": 1}),
    "Poisson": (owlfi.Poisson, {"rate": 3.0, "dim": 1}),
    "Empirical": (owlfi.Empirical, {"data": np.arange(3.0)}),
    "Prior": (Prior, {"a": NOISE}),
    "SquaredExponential": (SquaredExponential, {"lengthscale": 1.0}),
    "Matern": (owlfi.Matern, {"nu": 1.5, "lengthscale": 1.0}),
    "median_heuristic": (owlfi.median_heuristic, {"data": U}),
    "default_kernel": (owlfi.default_kernel, {"data": U}),
    "whitening_kernel": (
        owlfi.whitening_kernel,
        {"observed": np.random.default_rng(0).normal(size=(9, 2))},
    ),
    "embed": (owlfi.embed, {"kernel": K, "measure": NOISE}),
    "squared_mmd": (
        owlfi.squared_mmd,
        {"data_kernel": K, "y": U, "x": U, "weights": np.ones(8) / 8},
    ),
    "data_term": (owlfi.data_term, {"data_kernel": K, "x": U}),
    "optimal_weights": (
        owlfi.optimal_weights,
        {"base_kernel": K, "measure": NOISE, "points": U, "nugget": 1e-9},
    ),
    "equal_weights": (owlfi.equal_weights, {"base_kernel": K, "measure": NOISE, "points": U}),
    "tuned_weights": (
        owlfi.tuned_weights,
        {"data_kernel": K, "measure": NOISE, "points": U, "y": U, "most_noise": 4.0},
    ),
    **{
        name: (getattr(owlfi, name), {"key": KEY, "m": 8, "measure": NOISE})
        for name in ("iid", "sobol", "halton", "latin_hypercube", "lattice")
    },
    "tensor_grid": (owlfi.tensor_grid, {"nodes": 3, "measure": NOISE}),
    "herding": (owlfi.herding, {"key": KEY, "base_kernel": K, "measure": NOISE, "m": 4}),
    "adaptive_design": (
        owlfi.adaptive_design,
        {"key": KEY, "data_kernel": K, "measure": NOISE, "m": 8, "most_noise": 4.0},
    ),
    "Simulator": (
        Simulator,
        {
            "generator": models.scaled,
            "measure": NOISE,
            "parameters": ["a"],
            "prior": PRIOR,
            "theta": [1.0],
            "on_host": True,
        },
    ),
    "a simulator's call": (MODEL, {"theta": [1.0], "u": U}),
    "Simulator.fix": (MODEL.fix, {"a": 1.0}),
    "Problem": (
        Problem,
        {"simulator": MODEL, "observed": U, "prior": PRIOR, "data_kernel": K, "columns": ["y"]},
    ),
    "simulate": (
        owlfi.simulate,
        {"simulator": MODEL, "thetas": [1.0, 2.0], "quadrature": QUADRATURE},
    ),
    "VStatistic": (VStatistic, {"m": 8, "points": owlfi.sobol}),
    "OptimallyWeighted": (
        owlfi.OptimallyWeighted,
        {"m": 8, "points": owlfi.sobol, "base_kernel": "median"},
    ),
    "rule.quadrature": (RULE.quadrature, {"key": KEY, "problem": PROBLEM}),
    "continue_design": (
        owlfi.continue_design,
        {"key": KEY, "problem": PROBLEM, "runs": RUNS, "more": 2},
    ),
    "recommend": (owlfi.recommend, {"simulator": MODEL, "budget": 16, "theta": [1.0], "key": KEY}),
    "prior.sample": (PRIOR.sample, {"key": KEY, "n": 4}),
    "prior.starts": (PRIOR.starts, {"key": KEY, "n": 4}),
    "read_csv": (owlfi.read_csv, {"path": "nowhere.csv", "columns": ["a"]}),
    "load": (owlfi.load, {"path": "nowhere.npz"}),
    "Command": (Command, {"template": "echo {theta} {u}", "time_limit": 1.0}),
    "Campaign.create": (
        lambda **given: Campaign.create(**{"path": new_path()} | given),
        {"simulator": MODEL, "thetas": [1.0], "quadrature": QUADRATURE},
    ),
    "Campaign.open": (Campaign.open, {"path": "nowhere.sqlite"}),
    "Campaign.run": (
        run_campaign,
        {"retries": 1, "max_failures": 0.5, "budget": 1, "seconds": 1.0, "workers": 1},
    ),
}

POSTERIOR = owlfi.Posterior(("a",), np.linspace(0.5, 1.5, 20)[:, None], np.full(20, 0.05))
ESTIMATE = owlfi.Estimate(("a",), jnp.ones(1), jnp.eye(1), jnp.array(0.1))
CALLS |= {
    "FunctionKernel": (
        lambda function: owlfi.squared_mmd(function, U, U),
        {"function": lambda a, b: jnp.exp(-jnp.sum((a - b) ** 2))},
    ),
    "kernel.gram": (K.gram, {"x": U, "y": U}),
    "kernel.stretch": (K.stretch, {"factor": 2.0}),
    "whitening_kernel's options": (
        owlfi.whitening_kernel,
        {"observed": np.eye(3)[:, :2], "scale": 1.0, "covariance": np.eye(2)},
    ),
    "TruncatedNormal": (owlfi.TruncatedNormal, {"low": -1.0, "high": 2.0}),
    "MultivariateNormal": (
        owlfi.MultivariateNormal,
        {"mean": [0.0, 1.0], "covariance": np.eye(2)},
    ),
    "of_draws": (
        owlfi.MultivariateNormal.of_draws,
        {"draws": np.eye(3)[:, :2], "weights": np.ones(3)},
    ),
    "Smoothed": (
        owlfi.Smoothed,
        {"draws": np.arange(10.0).reshape(5, 2) ** 2 % 7, "weights": np.ones(5), "low": -1.0,
         "high": [8.0, 9.0]},
    ),
    "LogDensity": (
        owlfi.LogDensity,
        {"function": lambda u: -jnp.sum(u**2), "low": [-1.0], "high": [1.0]},
    ),
    "Mixture": (owlfi.Mixture, {"components": [NOISE, NOISE], "weights": [0.5, 0.5]}),
    "Product": (lambda part: owlfi.Product(NOISE, part), {"part": NOISE}),
    "support_points": (owlfi.support_points, {"key": KEY, "m": 4, "measure": NOISE}),
    "Prior.joint": (
        Prior.joint,
        {"names": ["a", "b"], "measure": owlfi.MultivariateNormal([0.0, 0.0], np.eye(2))},
    ),
    "prior.of": (PRIOR.of, {"names": ("a",)}),
    "from_random": (
        Simulator.from_random,
        {"function": models.drawing, "parameters": ["a"], "prior": PRIOR, "theta": [1.0],
         "argument": "rng", "draws": 1, "vectorised": False, "workers": 1},
    ),
    "runs.at": (RUNS.at, {"chosen": [0, 1]}),
    "runs.join": (lambda more: RUNS.join(more), {"more": RUNS}),
    "learn_coordinates": (
        owlfi.learn_coordinates,
        {"key": KEY, "simulator": MODEL, "data_kernel": K, "thetas": [1.0], "observed": U,
         "rows": 16},
    ),
    "simulate's options": (
        lambda **options: owlfi.simulate(MODEL, [1.0], QUADRATURE, **options),
        {"check": True, "columns": 1, "keep_failed": False},
    ),
    "a problem's summaries": (
        lambda summaries: Problem(MODEL, U, data_kernel=K, summaries=summaries),
        {"summaries": lambda y: y**2},
    ),
    "problem.squared_mmd": (PROBLEM.squared_mmd, {"y": U, "quadrature": QUADRATURE}),
    "Posterior": (
        lambda **given: owlfi.Posterior(**given).summary(),
        {"names": ("a",), "draws": POSTERIOR.draws, "weights": POSTERIOR.weights, "chains": 1},
    ),
    "Estimate": (
        lambda **given: owlfi.Estimate(**given).summary(),
        {"names": ("a",), "theta": jnp.ones(1), "covariance": jnp.eye(1),
         "squared_mmd": jnp.array(0.1)},
    ),
    **{
        f"{type(result).__name__}.{method}": (getattr(result, method), given)
        for result in (POSTERIOR, ESTIMATE)
        for method, given in {
            "interval": {"level": 0.9},
            "level_of": {"theta": [1.0]},
            "scores_of": {"theta": [1.0]},
            "resample": {"key": KEY, "n": 4},
        }.items()
    },
    "posterior.quantile": (POSTERIOR.quantile, {"level": 0.5}),
    "posterior.predictive": (
        POSTERIOR.predictive,
        {"key": KEY, "simulator": MODEL, "samples": 2, "rows": 3},
    ),
    "marginals": (
        owlfi.plots.marginals,
        {"posterior": POSTERIOR, "axes": None, "truth": [1.0], "label": "a"},
    ),
    "pairs": (owlfi.plots.pairs, {"posterior": POSTERIOR, "axes": None, "truth": [1.0]}),
    "trace": (owlfi.plots.trace, {"result": POSTERIOR, "axes": None}),
    "predictive": (
        owlfi.plots.predictive,
        {"problem": PROBLEM, "samples": U[None], "axes": None},
    ),
    "weights": (owlfi.plots.weights, {"quadrature": QUADRATURE, "ax": None}),
    "new_axes": (owlfi.plots.new_axes, {"rows": 1, "columns": 1, "size": 2.0}),
    "report": (
        lambda **given: owlfi.report(POSTERIOR, FOLDER / "page.html", **given),
        {"title": "a", "problem": PROBLEM, "rule": RULE, "quadrature": QUADRATURE, "check": None,
         "seconds": 1.0, "seed": 1, "code": "a"},
    ),
    "flags of campaigns": (
        run_campaign,
        {"check": True, "accept_changes": False, "trust": False, "retry_failed": False},
    ),
    "Campaign.results": (
        lambda **options: DONE.results(**options),
        {"partial": False, "on_failure": "reject", "base_kernel": K},
    ),
    "Campaign.failures": (lambda most: DONE.failures(most), {"most": 1}),
    "Campaign.check": (lambda mend: DONE.check(mend=mend), {"mend": False}),
}  # fmt: skip

PARTS = {"key": KEY, "problem": PROBLEM, "rule": RULE}
METHODS = {
    "minimum_distance": (
        owlfi.minimum_distance,
        {"starts": 2, "refined": 1, "steps": 3, "whiten": False, "retune": None},
    ),
    "random_restarts": (
        owlfi.random_restarts,
        {"starts": 2, "restarts": 1, "steps": 2, "optimizer": None},
    ),
    "rejection_abc": (
        owlfi.rejection_abc,
        {"draws": 20, "share": 0.5, "adjust": False, "on_failure": "reject"},
    ),
    "sequential_abc": (owlfi.sequential_abc, {"draws": 8, "rounds": 2, "keep": 4}),
    "pseudo_marginal": (
        owlfi.pseudo_marginal,
        {"beta": 1.0, "draws": 5, "chains": 1, "designs": 2},
    ),
    "posterior_bootstrap": (
        owlfi.posterior_bootstrap,
        {"draws": 3, "prior_strength": 0.0, "pseudo_samples": 2},
    ),
    "mmd_bayes": (owlfi.mmd_bayes, {"beta": 1.0, "draws": 4, "chains": 1, "warmup": 20}),
    "goodness_of_fit": (
        owlfi.goodness_of_fit,
        {"theta": [1.0], "resamples": 19, "level": 0.05, "designs": 1, "restarts": 1,
         "search": "newton", "aggregate": False},
    ),
    "wild_goodness_of_fit": (
        owlfi.wild_goodness_of_fit, {"resamples": 19, "designs": 2, "level": 0.05}
    ),
}  # fmt: skip
OTHERS = {
    "accept": (
        owlfi.accept,
        {"problem": PROBLEM, "simulations": RUNS, "share": 0.5, "threshold": None,
         "on_failure": "reject", "base_kernel": None},
    ),
    "stored_simulations": (
        owlfi.stored_simulations,
        {"problem": PROBLEM, "thetas": RUNS.thetas, "u": U, "y": RUNS.y, "base_kernel": None},
    ),
    "next_proposal": (
        owlfi.next_proposal,
        {"key": KEY, "problem": PROBLEM, "runs": RUNS, "seconds": None, "share": 0.1,
         "safety": 0.1, "before": None},
    ),
    "plan_goodness_of_fit": (
        owlfi.plan_goodness_of_fit,
        {"problem": PROBLEM, "rule": RULE, "theta": [1.0], "resamples": 19, "level": 0.05,
         "designs": 1, "restarts": 1, "search": "newton"},
    ),
    "two_sample": (
        owlfi.two_sample, {"key": KEY, "x": U, "y": U + 1, "resamples": 19, "level": 0.05}
    ),
}  # fmt: skip


class HangError(Exception):
    """A call that takes too long."""


@contextmanager
def time_limit():
    def stop(*_):
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def complaint(call, given):
    """What is wrong with how a call ends, empty where nothing is."""
    try:
        with unchecked(), time_limit():
            found = call(**given)
    except (ValueError, FileNotFoundError):
        return ""
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:90]}"
    numbers = found if isinstance(found, jax.Array) and found.dtype == float else jnp.zeros(1)
    return "" if jnp.isfinite(numbers).all() else "numbers that are not finite, without a word"


def count_calls(calls):
    return sum(len(given) for _, given in calls.values()) * len(WRONG)


def is_flattened_first(call):
    """Whether equinox, which fails for deep lists, sees the arguments before owlfi does."""
    return isinstance(call, type) and issubclass(call, owlfi.Kernel | Rule)


def complaints(call, given):
    """Of the call with each of its arguments replaced by each of the wrong ones, in turn."""
    if "path" not in given:  # of files that are not there
        call(**given)
    found = {
        (name, what): complaint(call, given | {name: value})
        for name in given
        for what, value in WRONG.items()
        if what != f"a {name}" and not (what == "a deep list" and is_flattened_first(call))
    }
    return {where: text for where, text in found.items() if text}


def test_there_are_thousands_of_calls():
    assert count_calls(CALLS) >= 3000


@pytest.mark.parametrize(("call", "given"), CALLS.values(), ids=CALLS)
def test_wrong_arguments_are_refused_in_words(call, given, monkeypatch):
    monkeypatch.chdir(FOLDER)
    assert complaints(call, given) == {}


@pytest.mark.parametrize(("call", "options"), METHODS.values(), ids=METHODS)
def test_wrong_arguments_are_refused_by_methods(call, options):
    assert complaints(call, PARTS | options) == {}


@pytest.mark.parametrize(("call", "given"), OTHERS.values(), ids=OTHERS)
def test_wrong_objects_are_refused_where_runs_are_used(call, given):
    assert complaints(call, given) == {}
