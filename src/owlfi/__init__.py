"""owlfi: optimally-weighted likelihood-free inference.

Importing owlfi switches JAX to double precision: weights and squared discrepancies cancel to many
digits, and single precision has too few. Compiled programs are kept in the user's cache folder;
JAX_ENABLE_COMPILATION_CACHE=0 turns that off, and JAX_COMPILATION_CACHE_DIR names another folder.
"""

from importlib import import_module
from typing import Any

from owlfi._tools.jax_settings import set_up_jax
from owlfi.version import __version__

set_up_jax()

_WHERE = {  # each public name, by the module that is imported when it is first used
    "kernels": "Constant FunctionKernel InverseMultiquadric Kernel Korobov Matern"
    " RationalQuadratic Separable SquaredExponential",
    "kernels.default_kernel": "default_kernel",
    "kernels.median_heuristic": "median_heuristic",
    "kernels.transformed": "whitening_kernel",
    "measures": "Beta Empirical Exponential Gamma HalfNormal Laplace LogDensity LogNormal Measure"
    " Mixture MultivariateNormal Normal Poisson Product Rotated Seed Smoothed StudentT"
    " TruncatedNormal Uniform as_measure brownian",
    "embeddings.embed": "Embedding embed",
    "points.sequences": "halton iid latin_hypercube lattice sobol tensor_grid",
    "points.herding": "herding support_points",
    "weights.quadrature": "Quadrature",
    "weights.optimal": "equal_weights optimal_weights squared_worst_case_error",
    "weights.paper": "median_weights",
    "weights.tuned": "tuned_weights",
    "weights.pooled": "pooled_weights",
    "weights.adaptive": "AdaptiveDesign adaptive_design",
    "weights.certificate": "Certificate Verdict",
    "mmd": "data_term squared_mmd",
    "problem.simulator": "Simulator",
    "problem.simulations": "Simulations simulate",
    "problem.learned_coordinates": "learn_coordinates",
    "problem.prior": "Prior",
    "problem.observed": "read_csv",
    "problem.problem": "Problem",
    "problem.rules": "OptimallyWeighted UStatistic VStatistic",
    "problem.adaptive_rule": "Adaptive continue_design",
    "problem.recommend": "Recommendation recommend",
    "results": "Calibration Comparison Estimate HealthWarning HypothesisTest Posterior"
    " PredictiveCheck load",
    "inference.minimum_distance": "minimum_distance",
    "inference.random_restarts": "random_restarts",
    "inference.abc": "accept rejection_abc",
    "inference.stored_runs": "stored_simulations",
    "inference.sequential_abc": "sequential_abc",
    "inference.mmd_bayes": "mmd_bayes",
    "inference.pseudo_marginal": "pseudo_marginal",
    "inference.posterior_bootstrap": "posterior_bootstrap",
    "inference.proposals.proposal": "Proposal next_proposal",
    "testing.searches": "Adam",
    "testing.cost": "plan_goodness_of_fit",
    "testing.goodness_of_fit": "goodness_of_fit",
    "testing.two_sample": "two_sample",
    "testing.wild": "wild_goodness_of_fit",
    "checking.calibrate": "calibrate",
    "checking.check": "check",
    "checking.compare": "compare",
    "campaign": "Campaign Command",
    "show.report": "report",
}
_MODULE_OF = {name: f"owlfi.{module}" for module, names in _WHERE.items() for name in names.split()}
_MODULES = {"models": "owlfi.models", "plots": "owlfi.show.plots"}

__all__ = ["__version__", *_MODULE_OF, *_MODULES]


def __getattr__(name: str) -> Any:
    """Import what is used: nobody waits for what is not."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'owlfi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
