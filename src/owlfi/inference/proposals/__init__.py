"""Which theta to run next, by a surrogate of what is simulated."""
