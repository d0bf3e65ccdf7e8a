"""Weights for points: optimal ones, tuned ones, and what is known of their error."""
