"""Draws of ABC, corrected by how simulations change with theta."""
