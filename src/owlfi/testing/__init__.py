"""Tests: do two samples agree, and could a model have produced the data?"""

from owlfi.testing.two_sample import two_sample

__all__ = ["two_sample"]
