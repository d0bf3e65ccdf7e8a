"""Trust that can be seen: calibration, predictive checks, and models beside each other."""
