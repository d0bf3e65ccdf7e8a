"""Ordinary simulators, which draw their own random numbers, as functions of theta and u."""
