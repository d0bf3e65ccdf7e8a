"""What methods return: estimates, posteriors and tests that can be read and kept."""

from owlfi.results.calibration import Calibration
from owlfi.results.comparison import Comparison
from owlfi.results.distribution import Distribution
from owlfi.results.estimate import Estimate
from owlfi.results.files import load
from owlfi.results.health import HealthWarning, announce
from owlfi.results.hypothesis_test import HypothesisTest
from owlfi.results.posterior import Posterior
from owlfi.results.predictive_check import PredictiveCheck
