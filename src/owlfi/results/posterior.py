"""Weighted draws of the parameters."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_probability, brief, plain_number
from owlfi._tools.display import count
from owlfi._tools.keys import as_key, numpy_generator
from owlfi.problem.checks import as_theta
from owlfi.results.distribution import Distribution
from owlfi.results.files import register
from owlfi.results.tables import table_rows, write_numbers


@register
@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Distribution):
    """Weighted draws of the parameters.

    Raises ValueError where the chains have not equally many.

    `posterior["a"]` is the draws (n,) of the parameter a, which go with the `weights`.

    >>> import jax.numpy as jnp
    >>> posterior = Posterior(("a",), jnp.array([[1.0], [3.0]]), jnp.array([0.5, 0.5]))
    >>> posterior.mean, posterior.sd
    (Array([2.], dtype=float64), Array([1.], dtype=float64))
    >>> posterior
    Posterior(a: 2 ± 1; 2 draws; 0 simulator calls)
    >>> posterior["a"]
    Array([1., 3.], dtype=float64)
    """

    names: tuple[str, ...]
    draws: Float[Array | np.ndarray, "n p"]
    """Those of separate chains one after the other."""
    weights: Float[Array | np.ndarray, " n"]
    calls: int = 0
    chains: int = 1
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made, and how well: threshold, acceptance, beta, R-hat, ..."""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.draws) % as_count("chains", self.chains):
            raise ValueError(
                f"{len(self.draws)} draws are not those of {self.chains} chains; "
                "give as many for each"
            )

    def __getitem__(self, name: str) -> Float[Array, " n"]:
        return as_jax(np.asarray(self.draws)[:, self._place(name)])

    @property
    def mean(self) -> Float[Array, " p"]:
        return as_jax(self.center)

    @property
    def covariance(self) -> Float[Array, "p p"]:
        centred = np.asarray(self.draws) - self.center
        return as_jax((centred * np.asarray(self.weights)[:, None]).T @ centred)

    @property
    def sd(self) -> Float[Array, " p"]:
        return as_jax(self.spread)

    def quantile(self, level: float) -> Float[Array, " p"]:
        """The weighted quantile of each parameter, at a level from 0 to 1."""
        if not 0 <= plain_number("level", level) <= 1:
            raise ValueError(f"level must lie between 0 and 1, got {brief(level)}")
        draws, weights = np.asarray(self.draws), np.asarray(self.weights)
        return as_jax(np.array([_quantile(column, weights, level) for column in draws.T]))

    def interval(self, level: Any = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the central interval that holds this share of each parameter."""
        tail = (1 - as_probability("level", level)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    @property
    def center(self) -> Float[np.ndarray, " p"]:
        return np.asarray(self.weights) @ np.asarray(self.draws)

    @property
    def spread(self) -> Float[np.ndarray, " p"]:
        away = np.asarray(self.draws) - self.center[None]
        return np.sqrt(np.asarray(self.weights) @ away**2)

    @property
    def effective_draws(self) -> float:
        return float(1 / np.sum(np.asarray(self.weights) ** 2))

    def level_of(self, theta: Any) -> Float[np.ndarray, " p"]:
        draws, at = np.asarray(self.draws), np.asarray(as_theta(theta, self.names))[None]
        return np.asarray(self.weights) @ ((draws < at) + 0.5 * (draws == at))

    def resample(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n draws of equal weight."""
        shares = np.asarray(self.weights) / np.sum(np.asarray(self.weights))
        chosen = numpy_generator(key).choice(len(shares), as_count("n", n), p=shares)
        return as_jax(np.asarray(self.draws)[chosen])

    def _table(self) -> list[list[str]]:
        levels = {"5%": 0.05, "median": 0.5, "95%": 0.95}
        quantiles = {name: self.quantile(level) for name, level in levels.items()}
        return table_rows(self.names, {"mean": self.mean, "sd": self.sd, **quantiles})

    def _lines(self) -> list[str]:
        """The table, how many draws it is of, and why these."""
        lines = [*super()._lines(), f"{count(len(self.draws), 'draw')}, {self._worth()}"]
        if "threshold_because" in self.about:
            threshold, why = self.about["threshold"], self.about["threshold_because"]
            lines.append(f"squared MMD up to {threshold:.3g}: {why}")
        return lines

    def _worth(self) -> str:
        known = self.about.get("effective_draws", self.effective_draws)
        worth = f"worth {np.min(known):,.0f} independent ones"
        rests = self.about.get("support")
        return worth if rests is None else f"of a regression over {rests:,.0f} simulated parameters"

    def _facts(self) -> list[str]:
        return [write_numbers(self.names, self.mean, self.sd)]

    def _notes(self) -> list[str]:
        return [count(len(self.draws), "draw")]

    def to_arviz(self, key: Key[Array, ""] | None = None) -> Any:
        """An ArviZ object with a group `posterior`; unequal weights are resampled with the key.

        Raises ValueError for unequal weights without a key.
        """
        from owlfi._tools.libraries import arviz

        draws = self.draws
        if key is not None:
            key = as_key(key)
        if np.ptp(np.asarray(self.weights)) > 1e-12:
            if key is None:
                raise ValueError("the draws have unequal weights; give a key to resample them")
            draws = self.resample(key, len(draws))
        by_chain = np.asarray(draws).reshape(self.chains, -1, len(self.names))
        values = {name: by_chain[..., j] for j, name in enumerate(self.names)}
        return arviz().from_dict(**_group(arviz(), values))


def _group(arviz: Any, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """ArviZ 1 takes groups in one dictionary, those before it by name."""
    newer = int(arviz.__version__.split(".")[0]) >= 1
    return {"data": {"posterior": values}} if newer else {"posterior": values}


def _quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Where the weights of smaller values, each counted by half, reach the level."""
    order = np.argsort(values)
    shares = weights[order]
    return float(np.interp(level, np.cumsum(shares) - shares / 2, values[order]))
