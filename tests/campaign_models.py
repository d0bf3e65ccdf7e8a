"""Simulators that worker processes can import, well behaved and not."""

import os
import signal
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from owlfi import Normal, Simulator, Uniform

FINE, RAISES, NAN, SHAPE, HANGS, DIES, WIDE = range(7)


def in_numpy(theta, u):
    return np.sin(theta[0] * u) + np.exp(u[:, :1])


def in_jax(theta, u):
    return jnp.sin(theta[0] * u) @ jnp.ones((2, 3)) / 3 + jnp.exp(u[:, :1])


def made_by_a_function():
    factor = 2.0
    return Simulator(lambda theta, u: factor * theta[0] * u, Normal(), ["scale"])


def misbehaving(theta, u):
    """theta[0] says how; only u > 0 is affected."""
    kind = int(theta[0]) if u[0, 0] > 0 else FINE
    if kind == RAISES:
        raise ArithmeticError("no solution here")
    if kind == HANGS:
        time.sleep(600)
    if kind == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    answers = {NAN: np.full((1, 1), np.nan), SHAPE: np.ones((2, 2, 1)), WIDE: np.ones((1, 2))}
    return answers.get(kind, u + theta[0])


def forgetful(theta, u):
    return u + np.random.default_rng().normal()


def logged(theta, u):
    """Takes 5 ms, and notes when it ended, after a kill of this process, too."""
    time.sleep(0.005)
    line = f"{float(theta[0])!r} {float(u[0, 0])!r} {time.time()!r}\n"
    file = os.open(os.environ["OWLFI_TEST_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
    return theta[0] * u


def drawing(theta, rng):
    """One row of a function that draws."""
    return theta[0] * rng.normal(size=1)


def scaled(theta, u):
    """What `logged` computes, at once."""
    return theta[0] * u


def dies_once(theta, u):
    """Kills its process the first time, and works from then on."""
    seen = Path(os.environ["OWLFI_TEST_LOG"]) / f"{float(u[0, 0])!r}"
    if u[0, 0] > 0 and not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return theta[0] * u


def fails_below(theta, u):
    """Two columns where u is above 0, an exception where it is not."""
    if u[0, 0] < 0:
        raise ArithmeticError("no solution below 0")
    return np.hstack([theta[0] * u, theta[0] * u + 1])


def needs_a_log(theta, u):
    """An exception above 0 where there is no log."""
    return theta[0] * u if u[0, 0] < 0 else logged(theta, u)


def pairs(theta, u):
    return theta[0] + 0.3 * u


def sums(rows):
    return rows.sum(1)


def slow(theta, u):
    time.sleep(0.1)
    return theta[0] * u


def trivial(theta, u):
    return u


def slow_and_forgetful(theta, u):
    return slow(theta, u) + np.random.default_rng().normal()


UNIFORM = Uniform()
