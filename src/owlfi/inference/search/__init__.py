"""Minimising the squared MMD: objective, derivatives, and how far the minimum may be off."""
