"""Inference: one file for each method, each a function of a key, a problem and a rule."""

from owlfi.inference.minimum_distance import minimum_distance

__all__ = ["minimum_distance"]
