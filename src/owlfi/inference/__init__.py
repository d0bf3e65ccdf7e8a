"""Inference: one file for each method, each a function of a key, a problem and a rule."""

from owlfi.inference.abc import accept, rejection_abc, stored_simulations
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.inference.mmd_bayes import mmd_bayes
from owlfi.inference.posterior_bootstrap import posterior_bootstrap
from owlfi.inference.pseudo_marginal import pseudo_marginal
from owlfi.inference.random_restarts import random_restarts
from owlfi.inference.sequential_abc import sequential_abc
