"""The same noise in other coordinates: normal scores, rotated so that the first matter most.

The law of standard normal noise does not change under rotation. So u = F⁻¹(Φ(Q v)) with normal v is
the noise that was given, for any orthogonal Q; what changes is which part of it a point set fills
most evenly, and along which directions a base kernel looks.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.fields import check_fields
from owlfi.measures.base import Measure
from owlfi.measures.compound import Product, parts_of
from owlfi.measures.normal import Normal, ndtri
from owlfi.measures.rotation import Rotation
from owlfi.measures.scores import from_scores, has_scores, score_widths, to_scores


class Rotated(Measure):
    """A measure whose points come from the unit cube through a rotation of its normal scores.

    given: the measure itself. Its continuous independent coordinates are rotated; others, discrete
        ones among them, stay beside.
    rotation: of the scores, with as many directions as are known to matter, best first.
    shares: of all that k sees, how much lies along each direction.

    Points of the unit cube have the coordinates along the directions first, then those that stay,
    then the rest.

    >>> from owlfi.measures import brownian
    >>> path = brownian(16)
    >>> isinstance(path, Rotated), path.dim
    (True, 16)
    """

    given: Measure
    rotation: Rotation
    shares: Float[Array, " r"]

    def __check_init__(self) -> None:
        check_fields(self)

    @property
    def dim(self) -> int:
        return self.given.dim

    @property
    def law(self) -> Measure:
        return self.given

    @property
    def support(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        return self.given.support

    @property
    def smooth(self) -> bool:
        return self.given.smooth

    @property
    def traceable(self) -> bool:
        return self.given.traceable

    @property
    def traceable_density(self) -> bool:
        return self.given.traceable_density

    def log_density(self, u: Any) -> Float[Array, "..."]:
        return self.given.log_density(u)

    @property
    def rank(self) -> int:
        """How many directions are told."""
        return self.rotation.rank

    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        ends = self.rank, self.rank + self.dim - len(self.rotation.reflectors)
        leading, stay, rest = jnp.split(v, ends, axis=-1)
        z = self.rotation.turn(ndtri(jnp.concatenate([leading, rest], -1)))
        pieces = []
        for part in parts_of(self.given):
            if has_scores(part):
                own, z = jnp.split(z, [part.dim], axis=-1)
                pieces.append(from_scores(part, own))
            else:
                own, stay = jnp.split(stay, [part.dim], axis=-1)
                pieces.append(part.at_levels(own))
        return jnp.concatenate(pieces, -1)

    def along(
        self, u: Float[Array, "... s"], directions: int
    ) -> tuple[Measure, Float[Array, "... q"], Float[np.ndarray, "... n"]]:
        """Points along the first directions, beside them what is not rotated; the law of both; and
        the scores along all other directions, independent standard normal.

        On the host.
        """
        turned = np.asarray(self.rotation.turn_back(scores_of(self.given, u)))
        leading, rest = turned[..., :directions], turned[..., directions:]
        stay = [(part, own) for part, own in _pieces(self.given, u) if not has_scores(part)]
        laws = [Normal(dim=directions), *(part for part, _ in stay)]
        points = np.concatenate([leading, *(own for _, own in stay)], -1)
        return Product(*laws) if stay else laws[0], as_jax(points), rest


def scores_of(measure: Measure, u: Float[Array, "... s"]) -> Float[np.ndarray, "... n"]:
    """The normal scores of all coordinates that have one, on the host."""
    found = [to_scores(part, own) for part, own in _pieces(measure, u) if has_scores(part)]
    return np.concatenate(found, -1) if found else np.zeros((*u.shape[:-1], 0))


def by_scores(
    measure: Measure, u: Float[Array, "... s"], slopes: Float[np.ndarray, "... s"]
) -> Float[np.ndarray, "... n"]:
    """Derivatives by the normal scores at u, from those by u."""
    pieces, by_part = _pieces(measure, u), _pieces(measure, slopes)
    return np.concatenate(
        [
            slope * score_widths(part, own, to_scores(part, own))
            for (part, own), (_, slope) in zip(pieces, by_part, strict=True)
            if has_scores(part)
        ],
        -1,
    )


def _pieces(measure: Measure, rows: Any) -> list[tuple[Measure, np.ndarray]]:
    """Each part, with its columns."""
    parts = parts_of(measure)
    ends = np.cumsum([part.dim for part in parts])[:-1]
    return list(zip(parts, np.split(np.asarray(rows), ends, axis=-1), strict=True))
