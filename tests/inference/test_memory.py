"""Fits keep nothing of simulators that are gone, and compile nothing for those that stay."""

import gc
import weakref

import jax
import numpy as np
import pytest

import owlfi
from owlfi.problem.recorded_noise.dry_runs import run_dry

KEY, RULE = jax.random.key(0), owlfi.VStatistic(64, owlfi.sobol)
PRIOR = owlfi.Prior(a=owlfi.Uniform(-5, 5), b=owlfi.Uniform(0.1, 3))
X = np.random.default_rng(0).normal(size=(60, 2)).cumsum(1)


def in_jax(shift):
    def generate(theta, u):
        def step(last, z):
            return last + theta[1] * z, last + theta[1] * z + shift

        return jax.lax.scan(step, theta[0] + 0 * u[:, 0], u.T)[1].T

    return owlfi.Simulator(generate, owlfi.Normal(dim=2), PRIOR.names, prior=PRIOR), generate


def on_host(shift):
    def generate(theta, u):
        return theta[0] + theta[1] * u.cumsum(1) + shift

    noise = owlfi.Normal(dim=2)
    return owlfi.Simulator(generate, noise, PRIOR.names, prior=PRIOR, on_host=True), generate


def from_random(shift):
    def simulate(theta, rng):
        return theta[0] + theta[1] * rng.normal(size=2).cumsum() + shift

    return owlfi.Simulator.from_random(simulate, PRIOR.names, prior=PRIOR), simulate


def fit(problem, method):
    if method == "bootstrap":
        return owlfi.posterior_bootstrap(KEY, problem, RULE, draws=20)
    return owlfi.minimum_distance(KEY, problem, RULE, starts=8, refined=1, discrepancy=method)


@pytest.mark.slow
@pytest.mark.parametrize("make", [in_jax, on_host, from_random])
@pytest.mark.parametrize("method", ["mmd", "efficient", "bootstrap"])
def test_a_simulator_that_nobody_keeps_is_gone_after_its_fit(make, method):
    simulator, function = make(0.1)
    fit(owlfi.Problem(simulator, X), method)
    seen = weakref.ref(function)
    del simulator, function
    run_dry.cache_clear()  # keeps the last few
    gc.collect()
    assert seen() is None


@pytest.mark.slow
def test_an_efficient_fit_of_a_simulator_with_a_loop_compiles_once():
    compiled = []

    def listen(event, *_, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    problem = owlfi.Problem(in_jax(0.0)[0], X)
    fit(problem, "efficient")
    jax.monitoring.register_event_duration_secs_listener(listen)
    fit(problem, "efficient")
    jax.monitoring.unregister_event_duration_listener(listen)
    assert not compiled
