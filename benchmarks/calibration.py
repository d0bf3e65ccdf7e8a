"""How long a calibration of 200 data sets takes, once it is compiled."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax

import owlfi
from benchmarks.report import Bar, Row

_DATA_SETS, _ROWS, _POINTS = 200, 100, 64
_WARM_UP = 10  # other data sets first, on which everything is compiled


def _time(method: Callable[..., Any]) -> tuple[float, float]:
    """Seconds, and seconds of the processor, which other programs hardly change."""
    model = owlfi.models.g_and_k()
    x = model(model.theta, owlfi.iid(jax.random.key(0), _ROWS, model.measure))
    problem, rule = owlfi.Problem(model, x), owlfi.OptimallyWeighted(_POINTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", owlfi.HealthWarning)
        owlfi.calibrate(jax.random.key(3), problem, method, rule, data_sets=_WARM_UP)
        wall, used = time.perf_counter(), time.process_time()
        owlfi.calibrate(jax.random.key(7), problem, method, rule, data_sets=_DATA_SETS)
    return time.perf_counter() - wall, time.process_time() - used


def _measure(method: Callable[..., Any], limit: float) -> list[Row]:
    wall, used = _time(method)
    what = f"calibration of {method.__name__}, {_DATA_SETS} data sets of g-and-k"
    bar = Bar(limit, "s", at_least=False)
    return [
        Row(what, "owlfi", wall, "s", bar=bar),
        Row(f"{what}, of the processor", "owlfi", used, "s"),
    ]


def minimum_distance() -> list[Row]:
    return _measure(owlfi.minimum_distance, 60.0)


def posterior_bootstrap() -> list[Row]:
    return _measure(owlfi.posterior_bootstrap, 180.0)


BENCHMARKS = {
    "minimum_distance": minimum_distance,
    "posterior_bootstrap": posterior_bootstrap,
}
