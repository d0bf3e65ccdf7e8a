"""A composite test at the paper's settings, and a two-sample test of large samples."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import Bar, Row, memory_row
from benchmarks.timing import peak_memory, time_call

_N, _M, _DIM, _BOOTSTRAP = 500, 100, 5, 200
_TRIALS, _RESTARTS, _STEPS = 50, 10, 200  # of Algorithm 2
_TIMED_STEPS = 3
_LARGE = 100_000
_WHAT = f"composite test, d = {_DIM}, n = {_N}, m = {_M}, B = {_BOOTSTRAP}"
OWLFI = "owlfi.goodness_of_fit"


def _problem() -> tuple[Any, Any]:
    import jax

    from owlfi.experiments.composite_cases import MEDIAN, g_and_k_law, model, prior
    from owlfi.problem.problem import Problem

    return Problem(model(), g_and_k_law(0.1)(jax.random.key(0)), prior=prior()), MEDIAN


def composite() -> list[Row]:
    import jax

    import owlfi

    problem, rule = _problem()

    def newton(**options: Any) -> float:
        def test() -> Any:
            return owlfi.goodness_of_fit(jax.random.key(1), problem, rule, **options)

        test()
        return min(time_call(test) for _ in range(3))

    seconds, many = newton(), newton(aggregate=True)
    plain = _plain_step_seconds() * (1 + _BOOTSTRAP) * (_TRIALS + _RESTARTS * _STEPS)
    ratio = plain / seconds
    return [
        Row(_WHAT, OWLFI, seconds, "s", bar=Bar(3, "s", at_least=False)),
        Row(_WHAT, f"{OWLFI}, aggregate", many, "s", bar=Bar(8, "s", at_least=False)),
        Row(_WHAT, "the plain way, extrapolated", plain / 3600, "h", ratio, "speed: owlfi / this"),
    ]


def algorithm2() -> list[Row]:
    """With a bank of designs; 1 + 19 fits are timed and extrapolated to 1 + 200."""
    import jax

    import owlfi

    problem, rule = _problem()

    def adam(bootstrap: int) -> Any:
        return owlfi.goodness_of_fit(
            jax.random.key(1), problem, rule, resamples=bootstrap, designs=64, search=owlfi.Adam()
        )

    adam(19)
    few, more = time_call(lambda: adam(19)), time_call(lambda: adam(39))
    seconds = few + (more - few) / 20 * (_BOOTSTRAP - 19)
    return [Row(_WHAT, f"{OWLFI}, Adam", seconds, "s", bar=Bar(150, "s", at_least=False))]


def _plain_step_seconds() -> float:
    """One gradient step as the formulas are written.

    Fresh simulations and weights by an explicit inverse, a sort for the median of all pooled
    pairs, and the Gram matrix of the data again.
    """
    import jax
    import jax.numpy as jnp

    problem, _ = _problem()
    x, rows = problem.observed, problem.simulator.rows

    def squares(a: Any, b: Any) -> Any:
        return jnp.sum((a[:, None] - b[None]) ** 2, -1)

    def loss(theta: Any, key: Any) -> Any:
        u = jax.random.normal(key, (_M, _DIM))
        between = squares(u, u)
        c2 = jnp.median(between) / 2
        gram = jnp.exp(-between / (2 * c2)) + 1e-7 * jnp.eye(_M)
        z = (c2 / (c2 + 1)) ** (_DIM / 2) * jnp.exp(-jnp.sum(u**2, 1) / (2 * (c2 + 1)))
        w = jnp.linalg.inv(gram) @ z
        y = rows(theta, u)
        pooled = jnp.concatenate([y, x])
        k2 = jnp.median(squares(pooled, pooled)) / 2

        def k(a: Any, b: Any) -> Any:
            return jnp.exp(-squares(a, b) / (2 * k2))

        return w @ k(y, y) @ w - 2 * w @ k(y, x).mean(1) + k(x, x).mean()

    step = jax.jit(jax.value_and_grad(loss))
    theta = jnp.array([2.5, 1.2, 0.2, 0.2])
    jax.block_until_ready(step(theta, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(1), _TIMED_STEPS)
    return min(time_call(lambda k=k: jax.block_until_ready(step(theta, k))) for k in keys)


def _large_two_sample(pairs: str) -> Callable[[], Any]:
    import jax

    import owlfi

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(_LARGE, _DIM)), 1.01 * rng.normal(size=(_LARGE, _DIM))
    return lambda: owlfi.two_sample(jax.random.key(0), x, y, pairs=pairs)


def _by_features() -> Callable[[], Any]:
    return _large_two_sample("features")


def two_sample() -> list[Row]:
    what = f"two samples of {_LARGE:,}, d = {_DIM}, B = 499"
    rows = []
    for pairs in ("features", "blocks"):
        call = _large_two_sample(pairs)
        call()
        name = f'owlfi.two_sample, pairs="{pairs}"'
        rows.append(Row(what, name, time_call(call), "s", bar=Bar(10, "s", at_least=False)))
    memory = peak_memory(_by_features)
    return [*rows, memory_row(what, 'owlfi.two_sample, pairs="features"', memory)]


BENCHMARKS = {"composite": composite, "algorithm2": algorithm2, "two_sample": two_sample}
