"""Simulators: functions that return a `Simulator` with its usual theta and prior."""

from owlfi.models.bivariate_beta import bivariate_beta
from owlfi.models.exchange_rates import exchange_rates
from owlfi.models.g_and_k import g_and_k, multivariate_g_and_k
from owlfi.models.lotka_volterra import lotka_volterra
from owlfi.models.moving_average import moving_average
from owlfi.models.queue import queue
from owlfi.models.two_moons import two_moons
from owlfi.models.wind_farm import wind_farm

__all__ = [
    "bivariate_beta",
    "exchange_rates",
    "g_and_k",
    "lotka_volterra",
    "moving_average",
    "multivariate_g_and_k",
    "queue",
    "two_moons",
    "wind_farm",
]
