"""The noise of a simulator as a table: what is drawn, where, and what it does to y."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from owlfi._tools.display import count, html_table
from owlfi.problem.recorded_noise.dry_runs import DryRuns
from owlfi.problem.recorded_noise.kinds import Block
from owlfi.problem.recorded_noise.places import count_draws, share_beyond
from owlfi.problem.recorded_noise.shares import share_variation
from owlfi.problem.recorded_noise.sites import Draw

_HEADINGS = ("draws", "method", "coordinate", "where", "share of y")


@dataclass(frozen=True)
class Site:
    """Draws of one line of the source."""

    method: str
    kinds: tuple[str, ...]
    where: str
    fewest: int
    most: int
    places: tuple[int, ...] = field(repr=False)
    """The coordinates of u that a usual run takes there."""

    @property
    def draws(self) -> str:
        """How many a run makes, as text."""
        return str(self.most) if self.fewest == self.most else f"{self.fewest} to {self.most}"


@dataclass(frozen=True, repr=False)
class Noise:
    """What a simulator draws, and the coordinates of u that it comes from; shown as a table."""

    sites: tuple[Site, ...]
    blocks: tuple[Block, ...]
    runs: int
    """Dry runs that were made."""
    draws: tuple[int, int]
    """The fewest and the most draws of a run."""
    beyond: float
    """The share of all draws that have no place in u, but come from a stream fixed by it."""
    shares: tuple[float, ...] | None = None
    """Of the variation of y, for each site and for what none explains alone."""

    @property
    def dim(self) -> int:
        """The number of coordinates of u."""
        return sum(number for _, number in self.blocks)

    def __str__(self) -> str:
        rows = [_HEADINGS[: 4 + (self.shares is not None)], *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([self._head(), "", *lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        headings = _HEADINGS[: 4 + (self.shares is not None)]
        return html_table("; ".join([self._head(), *self._notes()]), headings, self._rows())

    def _head(self) -> str:
        found = ", ".join(f"{site.draws} {site.method}" for site in self.sites)
        kinds = ", ".join(sorted({kind.capitalize() for kind, _ in self.blocks}))
        return f"{found} draws -> {kinds}, dim = {self.dim}"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for i, site in enumerate(self.sites):
            row = (site.draws, site.method, ", ".join(site.kinds), site.where)
            yield row if self.shares is None else (*row, f"{self.shares[i]:.0%}")

    def _notes(self) -> Iterator[str]:
        fewest, most = self.draws
        if fewest < most:
            yield f"A run makes {fewest} to {most} draws ({count(self.runs, 'dry run')})."
        if self.beyond:
            yield (
                f"{self.beyond:.1%} of all draws have no place in u: they come from a stream that "
                "u fixes, and are noise to the weights."
            )
        if self.shares is not None:
            yield f"{self.shares[-1]:.0%} of y: jointly, not smooth, or beyond u."

    def weigh(self, quadrature: Any) -> "Noise":
        """The table with the share of the variation of y that each site carries.

        quadrature: of a rule that has simulated on its points (base_kernel="tuned").

        Raises ValueError where it has no simulations.
        """
        if quadrature.pilot is None:
            raise ValueError(
                "quadrature has no simulations; take that of OptimallyWeighted(base_kernel='tuned')"
            )
        groups = [site.places for site in self.sites]
        return replace(self, shares=share_variation(quadrature.points, quadrature.pilot.y, groups))


def describe_noise(found: DryRuns, blocks: tuple[Block, ...]) -> Noise:
    """The table of dry runs."""
    counts = count_draws(found.draws)
    places = sum(number for _, number in blocks)
    return Noise(
        tuple(_list_sites(found, places)),
        blocks,
        found.tried,
        (int(counts.min()), int(counts.max())),
        share_beyond(found.draws, places),
    )


def _list_sites(found: DryRuns, places: int) -> Iterator[Site]:
    usual = max(found.draws, key=lambda run: sum(draw.number for draw in run))
    spots = _place_draws(usual)
    keys = dict.fromkeys(_key(draw) for run in found.draws for draw in run)
    for method, where in keys:
        own = [[draw for draw in run if _key(draw) == (method, where)] for run in found.draws]
        counts = [sum(draw.number for draw in run) for run in own]
        kinds = dict.fromkeys(draw.kind for run in own for draw in run)
        taken = tuple(i for i in spots.get((method, where), ()) if i < places)
        yield Site(method, tuple(kinds), where, min(counts), max(counts), taken)


def _place_draws(run: tuple[Draw, ...]) -> dict[tuple[str, str], list[int]]:
    """The places that each site takes, in a run."""
    spots: dict[tuple[str, str], list[int]] = {}
    position = 0
    for key, draws in groupby(run, _key):
        number = sum(draw.number for draw in draws)
        spots.setdefault(key, []).extend(range(position, position + min(number, 10**6)))
        position += number
    return spots


def _key(draw: Draw) -> tuple[str, str]:
    return draw.method, draw.where
