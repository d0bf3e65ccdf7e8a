"""Simulators, one file each."""
