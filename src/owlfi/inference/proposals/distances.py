"""What the squared MMD would be at thetas that were not run, with its uncertainty, as samples."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.programs import compile_quickly
from owlfi.inference.prior_runs import measure_distances
from owlfi.inference.proposals.surrogate import Surrogate, fit_surrogate
from owlfi.kernels import Kernel
from owlfi.mmd import squared_mmd
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations

_FEWEST = 4
_SAMPLES = (4, 16)
_EFFORT = 2e9  # evaluations of k that samples may take
_MOST_OBSERVED = 200
_MOST_COMPONENTS = 8
_SMALL_COMPONENT = 1e-3  # of the spread of the observations
_LEAST_SUCCESS = 0.02


def predict_distances(
    key: Key[Array, ""],
    problem: Problem,
    runs: Simulations,
    v: Float[np.ndarray, "t p"],
    new: Float[np.ndarray, "c p"],
) -> Float[np.ndarray, "c samples"]:
    """Samples of the root of the squared MMD at new points of the prior's unit cube.

    v: the points of the unit cube where the runs were made.

    With one design of u for all thetas, the surrogate is of the simulations themselves: thetas that
    are all far away, where the squared MMD is flat, still say where y comes near the observations.
    Otherwise it is of the root of the squared MMD. A run that may fail is +∞ as often as it may.

    Raises ValueError for fewer than 4 thetas that did not fail.
    """
    found = measure_distances(problem, runs)
    fine = np.isfinite(found)
    if fine.sum() < _FEWEST:
        raise ValueError(
            f"proposals need at least {_FEWEST} thetas without failures, got {fine.sum()} of "
            f"{len(fine)}; run more thetas from the prior first"
        )
    if runs.quadrature.points.ndim == 2 and not runs.quadrature.unbiased:
        roots = _by_simulations(key, problem, runs, v, fine, new)
    else:
        mean, sd = fit_surrogate(v[fine], _root(found[fine])[:, None]).predict(new)
        roots = mean + sd * jax.random.normal(key, (len(new), _SAMPLES[1]))
    return np.where(_failing(key, v, fine, new, roots.shape[1]), np.inf, roots)


def _failing(
    key: Key[Array, ""], v: np.ndarray, fine: Bool[np.ndarray, " t"], new: np.ndarray, samples: int
) -> Bool[np.ndarray, "c samples"]:
    """Which samples are failures, by a surrogate of what failed."""
    if fine.all():
        return np.zeros((len(new), samples), bool)
    success, _ = fit_surrogate(v, fine[:, None].astype(float)).predict(new)
    chance = jax.random.uniform(jax.random.fold_in(key, 1), (len(new), samples))
    return np.asarray(chance > success.clip(_LEAST_SUCCESS, 1))


def _root(squared: Array | np.ndarray) -> Array:
    return jnp.sign(squared) * jnp.sqrt(jnp.abs(squared))


class _Emulator(NamedTuple):
    """Simulations (m, d) as a centre and principal components, whose scores depend on theta."""

    surrogate: Surrogate
    centre: Float[Array, "m d"]
    components: Float[Array, "q m d"]


def _by_simulations(
    key: Key[Array, ""],
    problem: Problem,
    runs: Simulations,
    v: np.ndarray,
    fine: np.ndarray,
    new: np.ndarray,
) -> Float[Array, "c samples"]:
    n, m = problem.observed.shape[0], runs.quadrature.m
    x = problem.observed[np.linspace(0, n - 1, min(n, _MOST_OBSERVED)).astype(int)]
    samples = int(np.clip(_EFFORT / (len(new) * m * (m + len(x))), *_SAMPLES))
    emulator = _emulate(np.asarray(problem.observed), np.asarray(runs.y)[fine], v[fine])
    # Zeros for the components left out, so that one shape is compiled.
    missing = _MOST_COMPONENTS - len(emulator.components)
    mean, sd = (jnp.pad(s, ((0, 0), (0, missing))) for s in emulator.surrogate.predict(new))
    noise = jax.random.normal(key, (len(new), samples, _MOST_COMPONENTS))
    scores = mean[:, None] + sd[:, None] * noise
    basis = jnp.pad(emulator.components, ((0, missing), (0, 0), (0, 0)))
    k, w = problem.data_kernel, runs.quadrature.weights
    return _root_of_emulated(k, x, emulator.centre, basis, w, scores)


def _emulate(x: np.ndarray, y: Float[np.ndarray, "t m d"], v: np.ndarray) -> _Emulator:
    """Principal components with a surrogate of their scores (Higdon et al. 2008)."""
    spread = np.where(x.std(0) > 0, x.std(0), y.std((0, 1)) + np.finfo(float).tiny)
    centre = y.mean(0)
    flat = ((y - centre) / spread).reshape(len(y), -1)
    left, size, right = np.linalg.svd(flat, full_matrices=False)
    large = (size > _SMALL_COMPONENT * np.sqrt(flat.size)).sum()
    count = int(np.clip(large, 1, _MOST_COMPONENTS))
    surrogate = fit_surrogate(v, left[:, :count] * size[:count])
    components = right[:count].reshape(count, *centre.shape) * spread
    return _Emulator(surrogate, jnp.asarray(centre), jnp.asarray(components))


@compile_quickly
def _root_of_emulated(
    kernel: Kernel,
    x: Array,
    centre: Float[Array, "m d"],
    basis: Float[Array, "q m d"],
    weights: Array,
    scores: Float[Array, "c s q"],
) -> Float[Array, "c s"]:
    def one(row: Float[Array, "s q"]) -> Array:
        return _root(squared_mmd(kernel, centre[None] + jnp.tensordot(row, basis, 1), x, weights))

    return jax.lax.map(one, scores)
