"""What the methods return: estimates, posteriors and tests that can be read and kept."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import norm

from owlfi.keys import as_key
from owlfi.simulator import Simulator


class Estimate(eqx.Module):
    """A point estimate with its standard errors, and what it cost.

    >>> estimate = Estimate(("a",), jnp.array([2.0]), jnp.array([[0.01]]), jnp.array(0.001))
    >>> print(estimate.summary())
    parameter  estimate  std. error     5%    95%
    a                 2         0.1  1.836  2.164
    """

    names: tuple[str, ...] = eqx.field(static=True)
    theta: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    squared_mmd: Float[Array, ""]
    calls: int = eqx.field(static=True, default=0)
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    gradient_calls: int = eqx.field(static=True, default=0)
    """Derivatives of such a row by one parameter, computed beside."""
    converged: bool = eqx.field(static=True, default=True)
    trace_thetas: Float[Array, "t p"] | None = None
    """The best theta after each evaluation of the searches that led to the estimate."""
    trace_values: Float[Array, " t"] | None = None

    @property
    def standard_errors(self) -> Float[Array, " p"]:
        """The square roots of the variances."""
        return jnp.sqrt(jnp.diag(self.covariance))

    def interval(self, level: float = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the normal interval that covers each parameter with this probability."""
        reach = norm.ppf(0.5 + _as_level(level) / 2) * self.standard_errors
        return self.theta - reach, self.theta + reach

    def summary(self) -> str:
        """A table: a row for each parameter."""
        columns = [self.theta, self.standard_errors, *self.interval(0.9)]
        return _table(self.names, ("estimate", "std. error", "5%", "95%"), columns)

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return _save(self, path)


class Posterior(eqx.Module):
    """Weighted draws of the parameters.

    >>> posterior = Posterior(("a",), jnp.array([[1.0], [3.0]]), jnp.array([0.5, 0.5]))
    >>> posterior.mean, posterior.sd
    (Array([2.], dtype=float64), Array([1.], dtype=float64))
    """

    names: tuple[str, ...] = eqx.field(static=True)
    draws: Float[Array, "n p"]
    """Those of separate chains one after the other."""
    weights: Float[Array, " n"]
    calls: int = eqx.field(static=True, default=0)
    chains: int = eqx.field(static=True, default=1)
    about: dict[str, Any] = eqx.field(static=True, default_factory=dict)
    """How it was made, and how well: threshold, acceptance, beta, R-hat, ..."""

    @property
    def mean(self) -> Float[Array, " p"]:
        return self.weights @ self.draws

    @property
    def covariance(self) -> Float[Array, "p p"]:
        centred = self.draws - self.mean
        return (centred * self.weights[:, None]).T @ centred

    @property
    def sd(self) -> Float[Array, " p"]:
        return jnp.sqrt(jnp.diag(self.covariance))

    def quantile(self, level: float) -> Float[Array, " p"]:
        """The weighted quantile of each parameter."""
        return jnp.array([_quantile(column, self.weights, level) for column in self.draws.T])

    def interval(self, level: float = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the central interval that holds this share of each parameter."""
        tail = (1 - _as_level(level)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def resample(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n draws of equal weight."""
        chosen = jax.random.choice(as_key(key), len(self.weights), (n,), p=self.weights)
        return self.draws[chosen]

    def predictive(
        self, key: Key[Array, ""], simulator: Simulator, samples: int, rows: int
    ) -> Float[Array, "samples rows d"]:
        """Data sets of `rows` rows, each simulated at a draw of the posterior."""
        theta_key, noise_key = jax.random.split(as_key(key))
        keys = jax.random.split(noise_key, samples)
        pairs = zip(self.resample(theta_key, samples), keys, strict=True)
        return jnp.stack([simulator(t, simulator.measure.sample(k, rows)) for t, k in pairs])

    def summary(self) -> str:
        """A table: a row for each parameter."""
        columns = [self.mean, self.sd, *(self.quantile(level) for level in (0.05, 0.5, 0.95))]
        return _table(self.names, ("mean", "sd", "5%", "median", "95%"), columns)

    def to_arviz(self, key: Key[Array, ""] | None = None) -> Any:
        """An ArviZ object with a group `posterior`; unequal weights are resampled with the key.

        Raises ValueError for unequal weights without a key.
        """
        from owlfi.optional import arviz

        draws = self.draws
        if np.ptp(np.asarray(self.weights)) > 1e-12:
            if key is None:
                raise ValueError("the draws have unequal weights; give a key to resample them")
            draws = self.resample(key, len(draws))
        by_chain = np.asarray(draws).reshape(self.chains, -1, len(self.names))
        values = {name: by_chain[..., j] for j, name in enumerate(self.names)}
        return arviz().from_dict(**_group(arviz(), values))

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return _save(self, path)


class HypothesisTest(eqx.Module):
    """A statistic, how it compares with the null hypothesis, and what that took to know.

    >>> test = HypothesisTest(0.02, 0.01, 0.015, 0.05, jnp.array([0.005, 0.01, 0.015]))
    >>> test.rejected
    True
    >>> print(test.summary())
    p = 0.01: rejected at level 0.05
    statistic 0.02, critical value 0.015, 3 null statistics
    """

    statistic: float = eqx.field(static=True)
    p_value: float = eqx.field(static=True)
    critical_value: float = eqx.field(static=True)
    """What the statistic must exceed; the same decision as p ≤ level."""
    level: float = eqx.field(static=True)
    null: Float[Array, " b"]
    """Statistics under the null hypothesis, +∞ where a fit failed."""
    names: tuple[str, ...] = eqx.field(static=True, default=())
    theta: Float[Array, " p"] | None = None
    """The estimate of the parameters, where a model was fitted."""
    null_thetas: Float[Array, "b p"] | None = None
    calls: int = eqx.field(static=True, default=0)
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    about: dict[str, Any] = eqx.field(static=True, default_factory=dict)
    """How it was made: failed fits, bandwidths, ..."""

    @property
    def rejected(self) -> bool:
        return self.p_value <= self.level

    def summary(self) -> str:
        """The decision in words, the numbers behind it, and the estimate."""
        decision = "rejected" if self.rejected else "not rejected"
        lines = [
            f"p = {self.p_value:.3g}: {decision} at level {self.level:g}",
            f"statistic {self.statistic:.4g}, critical value {self.critical_value:.4g}, "
            f"{len(self.null)} null statistics",
        ]
        if self.theta is not None and self.names:
            heading = "given" if self.about.get("method") == "simple" else "estimate"
            lines.append(_table(self.names, (heading,), [self.theta]))
        if self.about.get("failed"):
            lines.append(f"{self.about['failed']} fits failed and count as +∞")
        if self.calls:
            lines.append(f"{self.calls:,} simulator calls")
        return "\n".join(lines)

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return _save(self, path)


def load(path: Any) -> Any:
    """An estimate, a posterior or a test from the file that its `save` wrote.

    Raises ValueError for any other file.
    """
    try:
        with np.load(_file(path), allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            arrays = {name: jnp.asarray(file[name]) for name in file.files if name != "about"}
        kind = {kind.__name__: kind for kind in _KINDS}[about.pop("kind")]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no file that owlfi saved ({error})") from error
    return kind(**{**about, "names": tuple(about["names"])}, **arrays)


_KINDS: tuple[Any, ...] = (Estimate, Posterior, HypothesisTest)


def _file(path: Any) -> Path:
    """With its ending, whether or not it was given: dots in a name are no ending."""
    return Path(path) if str(path).endswith(".npz") else Path(f"{path}.npz")


def _save(result: Estimate | Posterior | HypothesisTest, path: Any) -> Path:
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    arrays = {n: v for n, v in values.items() if isinstance(v, jax.Array)}
    plain = {name: value for name, value in values.items() if name not in arrays}
    target = _file(path)
    about = json.dumps({**plain, "kind": type(result).__name__})
    content: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(target, about=np.array(about), **content)
    return target


def _group(arviz: Any, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """ArviZ 1 takes groups in one dictionary, those before it by name."""
    newer = int(arviz.__version__.split(".")[0]) >= 1
    return {"data": {"posterior": values}} if newer else {"posterior": values}


def _quantile(values: Array, weights: Array, level: float) -> float:
    """Where the weights of smaller values, each counted by half, reach the level."""
    order = np.argsort(np.asarray(values))
    shares = np.asarray(weights)[order]
    return float(np.interp(level, np.cumsum(shares) - shares / 2, np.asarray(values)[order]))


def _as_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


def _table(names: tuple[str, ...], headings: tuple[str, ...], columns: list[Array]) -> str:
    cells = [
        [heading, *(f"{float(v):.4g}" for v in column)]
        for heading, column in zip(headings, columns, strict=True)
    ]
    first = ["parameter", *names]
    widths = [max(map(len, column)) for column in cells]
    margin = max(map(len, first))
    lines = []
    for i, name in enumerate(first):
        row = (column[i].rjust(width) for column, width in zip(cells, widths, strict=True))
        lines.append("  ".join([name.ljust(margin), *row]))
    return "\n".join(lines)
