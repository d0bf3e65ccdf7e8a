"""Tests: do two samples agree, and could a model have produced the data?"""

from owlfi.testing.adam import Adam
from owlfi.testing.composite import goodness_of_fit
from owlfi.testing.two_sample import two_sample

__all__ = ["Adam", "goodness_of_fit", "two_sample"]
