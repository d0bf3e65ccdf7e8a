"""Base measures: the distributions of a simulator's noise."""

from owlfi.measures.base import Family, LineFamily, Measure, as_points
from owlfi.measures.brownian import brownian
from owlfi.measures.compound import (
    Mixture,
    Product,
    coordinate,
    independent_blocks,
    marginal,
    parts_of,
)
from owlfi.measures.discrete import DiscreteFamily, Empirical, Poisson
from owlfi.measures.families import Beta, Exponential, Gamma, Laplace, StudentT, Uniform
from owlfi.measures.frozen import FrozenContinuous, FrozenDiscrete, as_measure
from owlfi.measures.joint import LogDensity, MultivariateNormal
from owlfi.measures.normal import HalfNormal, LogNormal, Normal, TruncatedNormal
from owlfi.measures.rotated import Rotated, by_scores, scores_of
from owlfi.measures.rotation import Rotation, rotation_to
from owlfi.measures.seed import Seed
from owlfi.measures.smoothed import Smoothed
