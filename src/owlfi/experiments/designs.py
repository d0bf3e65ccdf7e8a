"""Points that the library chooses for a simulator at one theta, and what is simulated on them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array
from owlfi.experiments.excess import Setting, simulate_rows
from owlfi.points.sequences import sobol
from owlfi.problem.learned_coordinates import Learned, learn_coordinates, learn_from_runs
from owlfi.problem.tuned_design import learns
from owlfi.weights.adaptive import adaptive_design
from owlfi.weights.directions import MOST_GIVEN
from owlfi.weights.quadrature import Quadrature
from owlfi.weights.tuned import tuned_weights

_THETAS = 12  # at which rules tune


class Design(NamedTuple):
    """Points with weights, what was simulated on them, and the runs that this took besides."""

    quadrature: Quadrature
    y: Float[Array, "m d"]
    pilot: int

    @property
    def excess(self) -> float:
        """As the certificate says."""
        assert self.quadrature.certificate is not None
        return float(self.quadrature.certificate.excess)


def _learn(key: Key[Array, ""], setting: Setting, m: int) -> Learned:
    simulator, theta, data_kernel, _ = setting
    if not learns(simulator.measure):
        return Learned(simulator.measure, 0)
    return learn_coordinates(jax.random.fold_in(key, 1), simulator, data_kernel, theta)


def _regress(key: Key[Array, ""], setting: Setting, m: int) -> Learned:
    """From as many runs as a rule tunes on, without derivatives."""
    simulator, theta, data_kernel, _ = setting
    measure, runs = simulator.measure, _THETAS * m
    if not learns(measure):
        return Learned(measure, 0)
    u = sobol(jax.random.fold_in(key, 1), runs, measure.law)
    y = simulate_rows(simulator, theta, u)
    return Learned(learn_from_runs(measure, data_kernel, u[None], y[None]), runs)


Learn = Callable[[Key[Array, ""], Setting, int], Learned]


def run_regressed(key: Key[Array, ""], setting: Setting, m: int) -> Design:
    """The same as `run_learned` where the simulator has no derivatives."""
    return run_learned(key, setting, m, _regress)


def run_learned(key: Key[Array, ""], setting: Setting, m: int, learn: Learn = _learn) -> Design:
    """Points in learned coordinates; with few, also as given, and the smaller certificate."""
    simulator, theta, data_kernel, _ = setting
    noise, pilot = learn(key, setting, m)
    twice = noise.law is not noise and noise.dim <= MOST_GIVEN
    designs = []
    for drawn in (noise, noise.law) if twice else (noise,):
        u = sobol(key, m, drawn)
        y = simulate_rows(simulator, theta, u)
        found = tuned_weights(data_kernel, noise, u, y)
        designs.append(Design(found, y, pilot + m * twice))
    return min(designs, key=lambda design: design.excess)


def run_adaptive(key: Key[Array, ""], setting: Setting, m: int) -> Design:
    """Adaptive points in learned coordinates."""
    simulator, theta, data_kernel, _ = setting
    noise, pilot = _learn(key, setting, m)
    design = adaptive_design(key, data_kernel, noise, m)
    while design.left:
        u = design.ask()
        design = design.tell(u, simulate_rows(simulator, theta, u))
    return Design(design.quadrature(), as_array("y", design.y)[0], pilot)
