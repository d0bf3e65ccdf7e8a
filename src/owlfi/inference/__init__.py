"""Inference: one file for each method, each a function of a key, a problem and a rule."""
