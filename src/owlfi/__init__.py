"""owlfi: optimally-weighted likelihood-free inference.

Importing owlfi switches JAX to double precision: weights and squared discrepancies cancel to many
digits, and single precision has too few.
"""

from importlib import import_module
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

from owlfi.adaptive import AdaptiveDesign, adaptive_design  # noqa: E402
from owlfi.certificate import Certificate, Verdict  # noqa: E402
from owlfi.embeddings import Embedding, embed  # noqa: E402
from owlfi.herding import herding, support_points  # noqa: E402
from owlfi.inference import (  # noqa: E402
    accepted,
    minimum_distance,
    mmd_bayes,
    posterior_bootstrap,
    pseudo_marginal,
    random_restarts,
    rejection_abc,
    sequential_abc,
    stored_simulations,
)
from owlfi.inference.proposals import Proposal, next_proposal  # noqa: E402
from owlfi.kernels import (  # noqa: E402
    Constant,
    FunctionKernel,
    InverseMultiquadric,
    Kernel,
    Korobov,
    Matern,
    RationalQuadratic,
    Separable,
    SquaredExponential,
)
from owlfi.measures import (  # noqa: E402
    Beta,
    Empirical,
    Exponential,
    Gamma,
    HalfNormal,
    Laplace,
    LogNormal,
    Measure,
    Mixture,
    Normal,
    Poisson,
    Product,
    StudentT,
    TruncatedNormal,
    Uniform,
    as_measure,
)
from owlfi.median import median_heuristic  # noqa: E402
from owlfi.mmd import data_term, squared_mmd  # noqa: E402
from owlfi.observed import read_csv  # noqa: E402
from owlfi.points import (  # noqa: E402
    halton,
    iid,
    latin_hypercube,
    lattice,
    sobol,
    tensor_grid,
)
from owlfi.pooled_weights import pooled_weights  # noqa: E402
from owlfi.prior import Prior  # noqa: E402
from owlfi.problem import Problem  # noqa: E402
from owlfi.quadrature import (  # noqa: E402
    Quadrature,
    equal_weights,
    optimal_weights,
    squared_worst_case_error,
)
from owlfi.recommend import Recommendation, recommend  # noqa: E402
from owlfi.results import Estimate, HypothesisTest, Posterior, load  # noqa: E402
from owlfi.rules import (  # noqa: E402
    Adaptive,
    OptimallyWeighted,
    UStatistic,
    VStatistic,
    continued_design,
)
from owlfi.simulator import Simulations, Simulator, simulate  # noqa: E402
from owlfi.testing import (  # noqa: E402
    Adam,
    goodness_of_fit,
    two_sample,
    wild_goodness_of_fit,
)
from owlfi.tuned_weights import tuned_weights  # noqa: E402
from owlfi.version import __version__  # noqa: E402
from owlfi.whitening import whitened  # noqa: E402

from owlfi import models  # noqa: E402  isort: skip
from owlfi.campaign import Campaign, Command  # noqa: E402  isort: skip

__all__ = [
    "Recommendation",
    "herding",
    "recommend",
    "support_points",
    "Adaptive",
    "AdaptiveDesign",
    "Certificate",
    "Verdict",
    "adaptive_design",
    "tuned_weights",
    "Adam",
    "Beta",
    "Campaign",
    "Command",
    "Constant",
    "Embedding",
    "Empirical",
    "Estimate",
    "Exponential",
    "FunctionKernel",
    "Gamma",
    "HalfNormal",
    "HypothesisTest",
    "InverseMultiquadric",
    "Kernel",
    "Korobov",
    "Laplace",
    "LogNormal",
    "Matern",
    "Measure",
    "Mixture",
    "Normal",
    "OptimallyWeighted",
    "Poisson",
    "Posterior",
    "Prior",
    "Problem",
    "Product",
    "Proposal",
    "Quadrature",
    "RationalQuadratic",
    "Separable",
    "Simulations",
    "Simulator",
    "SquaredExponential",
    "StudentT",
    "TruncatedNormal",
    "UStatistic",
    "Uniform",
    "VStatistic",
    "__version__",
    "accepted",
    "as_measure",
    "continued_design",
    "data_term",
    "embed",
    "equal_weights",
    "goodness_of_fit",
    "halton",
    "iid",
    "latin_hypercube",
    "lattice",
    "load",
    "median_heuristic",
    "minimum_distance",
    "mmd_bayes",
    "next_proposal",
    "models",
    "optimal_weights",
    "pooled_weights",
    "posterior_bootstrap",
    "pseudo_marginal",
    "random_restarts",
    "read_csv",
    "rejection_abc",
    "sequential_abc",
    "simulate",
    "sobol",
    "squared_mmd",
    "squared_worst_case_error",
    "stored_simulations",
    "tensor_grid",
    "whitened",
    "two_sample",
    "wild_goodness_of_fit",
]


def __getattr__(name: str) -> Any:
    """Pictures, whose libraries take a second to import."""
    if name in ("plots", "null_plot"):
        return import_module(f"owlfi.{name}")
    raise AttributeError(f"module 'owlfi' has no attribute {name!r}")
