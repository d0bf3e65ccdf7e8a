"""Adaptive design: which u to run next, chosen for the simulator from what it has shown so far.

Greedy sequential Bayesian quadrature: each point lowers the worst-case error of the fitted kernel
by the most, residual² / (variance + nugget), among many candidates that reach into the tails.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, PRNGKeyArray

from owlfi._tools.checks import as_bound, as_count, as_rows
from owlfi._tools.fields import check_fields
from owlfi._tools.keys import as_key
from owlfi._tools.programs import compile_quickly
from owlfi.embeddings.embed import embed
from owlfi.kernels import Kernel, as_kernel
from owlfi.measures import Measure, Rotated, Uniform, as_measure, as_points
from owlfi.points.sequences import sobol
from owlfi.weights.certificate import Verdict
from owlfi.weights.coordinates import coordinate_systems, count_seen
from owlfi.weights.kernel_fit import FAMILIES
from owlfi.weights.quadrature import Quadrature
from owlfi.weights.tuned import FEWEST, Tuning, tune, weigh_runs

_CANDIDATES = 2048  # for each spread
_MOST_NUMBERS = 2**22  # of the candidates
_FARTHEST_SCORE = 8.0
_FEWEST_PILOTS = 32


class AdaptiveDesign(eqx.Module):
    """Runs so far, and the points they are to be joined by; `ask`, run, `tell`, until m are done.

    >>> import owlfi
    >>> k, noise = owlfi.SquaredExponential(1.0), owlfi.Normal()
    >>> design = adaptive_design(jax.random.key(0), k, noise, m=64)
    >>> while design.left:
    ...     u = design.ask()
    ...     design = design.tell(u, jnp.exp(u))  # an hour of simulation
    >>> design.quadrature().m
    64
    """

    data_kernel: Kernel
    measure: Measure
    sequence: Float[Array, "m s"]
    """Sobol points: the pilot, and all points where weights do not help."""
    candidates: Float[Array, "c s"]
    points: Float[Array, "n s"]
    y: Float[Array, "t n d"] | None
    most_noise: float = eqx.field(static=True, default=jnp.inf)
    """The bound on m Σ w_i² of its weights, as of `tuned_weights`."""

    def __check_init__(self) -> None:
        check_fields(self)

    @property
    def left(self) -> int:
        """How many runs are left."""
        return max(0, len(self.sequence) - len(self.points))

    def ask(self, count: int | None = None) -> Float[Array, "count s"]:
        """The points to run next: a pilot first, then as many again as there are.

        count: how many, at most those that are left.

        Raises ValueError when none is left.
        """
        n = len(self.points)
        if not self.left:
            raise ValueError(f"all {n} runs are done; take the quadrature()")
        pilots = _count_pilots(len(self.sequence), self.measure)
        usual = pilots - n if n < pilots else n
        count = min(self.left, usual if count is None else as_count("count", count))
        if n < pilots or self.y is None or n < FEWEST:
            return self._list_unused()[:count]
        tuning = self._tune(self.y)
        certificate = tuning.quadrature.certificate
        if certificate is None or int(certificate.verdict[0]) != Verdict.WEIGHTED:
            return self._list_unused()[:count]
        return _greedy(tuning, self.measure, self.candidates, count)

    def _tune(self, y: Array) -> Tuning:
        """Where weights do not help, those of the sequence count, and the chosen ones do not.

        Chosen points lie far out, where the simulator differs: a fit to all of them may suit the
        measure worse than the pilot's.
        """
        plain = self._in_sequence().astype(float)
        pilots = _count_pilots(len(self.sequence), self.measure)
        known = None
        if len(self.points) > pilots >= FEWEST:
            early = self.points[None, :pilots], y[None, :, :pilots]
            known = tune(self.data_kernel, self.measure, *early).fit
        whole = self.points[None], y[None]
        k, shares = self.data_kernel, plain / plain.sum()
        return tune(k, self.measure, *whole, shares, known, self.most_noise)

    def _in_sequence(self) -> Array:
        return (self.points[:, None] == self.sequence[None]).all(-1).any(1)

    def _list_unused(self) -> Array:
        used = (self.sequence[:, None] == self.points[None]).all(-1).any(1)
        return self.sequence[~used]

    def tell(self, u: Any, y: Any) -> "AdaptiveDesign":
        """The design with more runs: y (count, d) at points u (count, s), or (t, count, d).

        Raises ValueError for values that are not finite, and for other numbers of thetas or
        columns than before.
        """
        u = as_points("u", u, self.measure)
        rows = as_rows("y", y, batched=True)
        return self.join(u, rows[None] if rows.ndim == 2 else rows)

    def join(self, u: Float[Array, "count s"], rows: Float[Array, "t rows d"]) -> "AdaptiveDesign":
        """The same with NaN in rows that failed, at most half of those at each theta."""
        if rows.shape[1] != len(u):
            raise ValueError(f"y must have a row for each of the {len(u)} points, got {rows.shape}")
        if self.y is not None:
            if rows.shape[::2] != self.y.shape[::2]:
                raise ValueError(
                    f"y must have {self.y.shape[0]} thetas and {self.y.shape[2]} columns as "
                    f"before, got shape {rows.shape}"
                )
            rows = jnp.concatenate([self.y, rows], 1)
        return replace(self, points=jnp.concatenate([self.points, u]), y=rows)

    def quadrature(self) -> Quadrature:
        """Tuned weights for the runs so far.

        Raises ValueError before the first run.
        """
        if self.y is None:
            raise ValueError("no run is done yet; ask() for points, and tell(u, y) what they gave")
        if len(self.points) < FEWEST or not self._in_sequence().any():
            known = self.data_kernel, self.measure, self.points, self.y
            return replace(weigh_runs(*known, self.most_noise), chosen=True)
        found = jax.tree.map(lambda leaf: leaf[0], self._tune(self.y).quadrature)
        return replace(found, chosen=True)


def adaptive_design(
    key: PRNGKeyArray, data_kernel: Any, measure: Any, m: int, *, most_noise: float = jnp.inf
) -> AdaptiveDesign:
    """A design of m runs for the data kernel k and the measure of u, with no run done.

    m: counts every run, those of the pilot included.
    most_noise: a bound on m Σ w_i², as of `tuned_weights`.

    Raises ValueError for seeds, in which nothing is smooth.

    >>> from owlfi import Normal, SquaredExponential
    >>> design = adaptive_design(jax.random.key(0), SquaredExponential(1.0), Normal(), m=64)
    >>> design.left, design.ask().shape
    (64, (32, 1))
    """
    measure, m = as_measure(measure), as_count("m", m)
    if not measure.smooth:
        raise ValueError(
            "adaptive designs choose points by how y varies with u, which is a seed here; use "
            "OptimallyWeighted or VStatistic"
        )
    most_noise = as_bound("most_noise", most_noise)
    keys = jax.random.split(as_key(key), 3)
    candidates = min(_CANDIDATES, max(m, _MOST_NUMBERS // measure.dim))
    narrow, wide = (sobol(k, candidates, Uniform(dim=measure.dim)) for k in keys[1:])
    spread = 2.0 if measure.dim == 1 else 1 + 0.9 / count_seen(measure)
    both = jnp.concatenate([_spread(measure, narrow, 1.0), _spread(measure, wide, spread)])
    nothing = jnp.zeros((0, measure.dim))
    sequence = sobol(keys[0], m, measure)
    k = as_kernel(data_kernel)
    return AdaptiveDesign(k, measure, sequence, both, nothing, None, most_noise)


def _count_pilots(m: int, measure: Measure) -> int:
    return min(m, max(_FEWEST_PILOTS, 3 * count_seen(measure), m // 4))


def _spread(measure: Measure, v: Float[Array, "c s"], factor: float) -> Float[Array, "c s"]:
    """Points of the measure with their normal scores multiplied where its tail is infinite."""
    low, high = (end[None] for end in measure.support)
    scores = (factor * ndtri(v)).clip(-_FARTHEST_SCORE, _FARTHEST_SCORE)
    endless = jnp.isinf(low) | jnp.isinf(high)
    if isinstance(measure, Rotated):  # whose points of the cube begin with what a kernel sees
        endless = jnp.arange(measure.dim)[None] < measure.rank
    return measure.from_uniform(jnp.where(endless, ndtr(scores), v))


def _greedy(tuning: Tuning, measure: Measure, candidates: Array, count: int) -> Array:
    fit = jax.tree.map(lambda leaf: leaf[0], tuning.fit)
    law = tuning.laws[int(fit.coordinates)]
    c = FAMILIES[int(fit.family)](fit.lengthscale[: law.dim]) + fit.constant
    moved = coordinate_systems(measure, candidates)[int(fit.coordinates)].points
    points, embedding = tuning.points[0, :, : law.dim], embed(c, law)
    z = embedding.mean(jnp.concatenate([points, moved]))
    unseen = fit.nugget + fit.linear  # what lies beyond is noise to a choice along c
    return candidates[_choose(c, unseen, points, moved, z, count)]


@compile_quickly
def _choose(
    c: Kernel, nugget: Array, points: Array, candidates: Array, z: Array, count: int
) -> Array:
    """Indices of the candidates, by a Cholesky factor that grows a row at a time."""
    n, total = len(points), len(candidates)
    factor = jnp.linalg.cholesky(c.gram(points, points) + nugget * jnp.eye(n))
    known = solve_triangular(factor, c.gram(points, candidates), lower=True)
    residual = z[n:] - known.T @ solve_triangular(factor, z[:n], lower=True)
    variance = (c.diagonal(candidates) - (known**2).sum(0)).clip(0)
    rows = jnp.zeros((n + count, total)).at[:n].set(known)

    def add(i: Array, state: tuple) -> tuple:
        rows, residual, variance, chosen = state
        j = jnp.argmax(residual**2 / (variance + nugget))
        pivot = jnp.sqrt(variance[j] + nugget)
        column = c.gram(candidates[j][None], candidates)[0]
        row = (column - rows[:, j] @ rows) / pivot
        residual = residual - row * residual[j] / pivot
        return (
            rows.at[n + i].set(row),
            residual.at[j].set(0.0),
            (variance - row**2).clip(0),
            chosen.at[i].set(j),
        )

    start = rows, residual, variance, jnp.zeros(count, int)
    return jax.lax.fori_loop(0, count, add, start)[3]
