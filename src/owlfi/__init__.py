"""owlfi: optimally-weighted likelihood-free inference.

Importing owlfi switches JAX to double precision: weights and squared discrepancies cancel to many
digits, and single precision has too few.
"""

from importlib import import_module
from typing import Any

import jax

from owlfi.version import __version__

jax.config.update("jax_enable_x64", True)

_WHERE = {  # each public name, by the module that is imported when it is first used
    "kernels": "Constant FunctionKernel InverseMultiquadric Kernel Korobov Matern"
    " RationalQuadratic Separable SquaredExponential",
    "kernels.default_kernel": "default_kernel",
    "kernels.median_heuristic": "median_heuristic",
    "kernels.transformed": "whitening_kernel",
    "measures": "Beta Empirical Exponential Gamma HalfNormal Laplace LogNormal Measure Mixture"
    " Normal Poisson Product StudentT TruncatedNormal Uniform as_measure",
    "embeddings.embed": "Embedding embed",
    "points.sequences": "halton iid latin_hypercube lattice sobol tensor_grid",
    "points.herding": "herding support_points",
    "weights.quadrature": "Quadrature",
    "weights.optimal": "equal_weights optimal_weights squared_worst_case_error",
    "weights.tuned": "tuned_weights",
    "weights.pooled": "pooled_weights",
    "weights.adaptive": "AdaptiveDesign adaptive_design",
    "weights.certificate": "Certificate Verdict",
    "mmd": "data_term squared_mmd",
    "problem.simulator": "Simulator",
    "problem.simulations": "Simulations simulate",
    "problem.prior": "Prior",
    "problem.observed": "read_csv",
    "problem.problem": "Problem",
    "problem.rules": "Adaptive OptimallyWeighted UStatistic VStatistic continue_design",
    "problem.recommend": "Recommendation recommend",
    "results": "Estimate HealthWarning HypothesisTest Posterior load",
    "inference": "accept minimum_distance mmd_bayes posterior_bootstrap pseudo_marginal"
    " random_restarts rejection_abc sequential_abc stored_simulations",
    "inference.proposals.proposal": "Proposal next_proposal",
    "testing": "Adam goodness_of_fit plan_goodness_of_fit two_sample wild_goodness_of_fit",
    "campaign": "Campaign Command",
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
