"""An ordinary simulator as a generator y = G(theta, u)."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from owlfi.problem.recorded_noise.dry_runs import as_table
from owlfi.problem.recorded_noise.kinds import Block
from owlfi.problem.recorded_noise.processes import share_rows
from owlfi.problem.recorded_noise.rows import Row, as_row, join_rows, try_row
from owlfi.problem.recorded_noise.sources import Function, Source
from owlfi.problem.recorded_noise.tape import Tape, TracedTape

_MANY_BEYOND = 0.1  # share of draws


class Recorded(eqx.Module):
    """A function of theta and random numbers whose draws are the coordinates of u."""

    simulate: Function
    source: Source = eqx.field(static=True)
    blocks: tuple[Block, ...] = eqx.field(static=True)
    on_host: bool = eqx.field(static=True)
    vectorised: bool = eqx.field(static=True)
    workers: int = eqx.field(static=True)
    beyond: float = eqx.field(static=True)
    """The share of all draws that have no place in u."""
    asked: bool | None = eqx.field(static=True, default=None)
    """Whether it should run on the host, where the user said so."""

    def __call__(self, theta: Any, u: Any) -> Any:
        if not self.on_host:
            return jax.vmap(lambda row: self._run_traced(theta, row))(u)
        theta, u = np.asarray(theta), np.asarray(u)
        if self.workers > 1 and len(u) > 1:
            return join_rows(share_rows(self._try_rows, theta, u, self.workers))
        return join_rows(self._try_rows(theta, u))

    def _try_rows(self, theta: np.ndarray, u: np.ndarray) -> list[Row]:
        if self.vectorised:
            y = self.source.run(self.simulate, theta.copy(), Tape(u, self.blocks))
            return list(as_table(y, len(u)))
        return [try_row(self._run_row, theta.copy(), row) for row in u]

    def _run_row(self, theta: np.ndarray, row: np.ndarray) -> np.ndarray:
        return as_row(self.source.run(self.simulate, theta, Tape(row, self.blocks)))

    def _run_traced(self, theta: Any, row: Any) -> Any:
        return as_row(self.source.run(self.simulate, theta, TracedTape(row, self.blocks)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence where many draws have no place in u, or none."""
        if self.beyond <= _MANY_BEYOND:
            return ()
        return (
            f"{self.beyond:.0%} of the simulator's draws have no place in u, but come from a "
            "stream that u fixes: results hold, but weights can do little about them; give "
            "from_random(..., draws=...) more, or draw the important numbers first",
        )


class Seeded(eqx.Module):
    """A function of theta and a seed that draws where nobody sees it: u is the seed."""

    simulate: Function
    source: Source = eqx.field(static=True)

    def __call__(self, theta: Any, u: Any) -> np.ndarray:
        """One run for each seed u (m, 1)."""
        seeds = np.asarray(u)[:, 0]
        return join_rows([try_row(self._run_row, np.array(theta), int(seed)) for seed in seeds])

    def _run_row(self, theta: np.ndarray, seed: int) -> np.ndarray:
        return as_row(self.source.call(self.simulate, theta, seed))
