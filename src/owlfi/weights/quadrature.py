"""Points with weights: what stands for a measure in every method."""

from dataclasses import replace
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, as_places, numpy_for
from owlfi._tools.checks import as_kind, is_traced
from owlfi._tools.display import count, html_table, write_facts
from owlfi._tools.fields import check_fields
from owlfi.measures import Rotated
from owlfi.weights.certificate import (
    Certificate,
    Verdict,
    describe_directions,
    explanation,
    tell_sum,
    without_estimate,
)


class Pilot(eqx.Module):
    """Simulations made to tune weights: kept, and counted."""

    thetas: Float[Array, "t p"]
    y: Float[Array, "t m d"]
    calls: int = eqx.field(static=True)
    """Rows that the simulator computed, those of thetas that failed included."""


class Quadrature(eqx.Module):
    """Points u with weights w: Σ w_i f(u_i) ≈ ∫ f dU. Leading axes are separate designs.

    >>> from owlfi import SquaredExponential, Uniform, optimal_weights
    >>> quadrature = optimal_weights(SquaredExponential(1.0), Uniform(), [0.2, 0.5, 0.8])
    >>> quadrature.points.shape, quadrature.weights.round(3)
    ((3, 1), Array([0.45, 0.1 , 0.45], dtype=float64))
    """

    points: Float[Array, "... m s"]
    weights: Float[Array, "... m"]
    squared_worst_case_error: Float[Array, "..."]
    """I - 2 wᵀz + wᵀCw; rounding leaves about 1e-16 I, of either sign; NaN without a kernel c."""
    condition: Float[Array, "..."]
    """An estimate of the condition number of C with its nugget."""
    nugget: Float[Array, "..."]
    """What was added to the diagonal of C to compute the weights."""
    unbiased: bool = eqx.field(static=True, default=False)
    """Whether the pairs i = j are left out of the squared MMD: the U-statistic."""
    certificate: Certificate | None = None
    """An estimate of the error, where the weights were tuned to simulations."""
    pilot: Pilot | None = None
    """The simulations they were tuned to, on the points of the quadrature."""
    independent: bool = eqx.field(static=True, default=False)
    """Whether the points are independent draws of the measure, equally weighted."""
    chosen: bool = eqx.field(static=True, default=False)
    """Whether points were chosen for the simulator: by weights alone they stand for the measure."""

    coordinates: Rotated | None = None
    """The noise in the coordinates that were learned for one design, where they were."""

    def __repr__(self) -> str:
        return write_facts(self, self._facts())

    def _repr_html_(self) -> str:
        return html_table("Quadrature", (), [[fact] for fact in self._facts()])

    def _facts(self) -> list[str]:
        *designs, m, s = self.points.shape
        size = f"{count(m, 'point')} in {count(s, 'dimension')}"
        size = f"{count(prod(designs), 'design')} of {size}" if designs else size
        return [size] if is_traced(self) else [size, self._weighting(), *self._known_error()]

    def _weighting(self) -> str:
        if self.unbiased:
            return "equal weights, U-statistic"
        if np.all(np.ptp(np.asarray(self.weights), -1) == 0):
            return "equal weights"
        return "optimal weights" if self.certificate is None else "weights tuned to simulations"

    def _known_error(self) -> list[str]:
        """Of the worst design; nothing where none is known."""
        if self.certificate is None:
            name, squared = "worst-case error", np.asarray(self.squared_worst_case_error)
            errors = np.sqrt(np.maximum(squared, 0.0))
        else:
            name, errors = "estimated excess MMD²", np.asarray(self.certificate.excess)
        known = errors[~np.isnan(errors)]
        return [f"{name} {known.max():.2g}"] if known.size else []

    @property
    def m(self) -> int:
        """The number of points of a design."""
        return self.points.shape[-2]

    @property
    def sum_of_weights(self) -> Float[Array, "..."]:
        """Near 1 where constants are integrated well."""
        return self.weights.sum(-1)

    @property
    def sum_of_absolute_weights(self) -> Float[Array, "..."]:
        """How much errors of single simulations are amplified; far above 1 is a warning."""
        return jnp.abs(self.weights).sum(-1)

    @property
    def tuning_calls(self) -> int:
        """Rows that the simulator computed to tune the weights."""
        return 0 if self.pilot is None else self.pilot.calls

    @property
    def excess(self) -> Float[Array, "..."] | None:
        """The squared error that the points add to the embedding, as far as it is known.

        None stands for that of independent points, 0 is taken where there is no estimate.
        """
        if self.independent:
            return None
        if self.certificate is None:
            return jnp.zeros(())
        excess = self.certificate.excess
        numpy = numpy_for(excess)
        return as_jax(numpy.maximum(numpy.nan_to_num(excess), 0.0))

    @property
    def shares(self) -> Float[Array, "... m"]:
        """By which rows scatter as they do under the measure.

        Those of its own points scatter so as they are; weights are for means.
        """
        return self.weights if self.chosen else equal_shares(self.points)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the weights, for the results of every method."""
        return tell_sum(self.points, self.weights, self.certificate)

    def at(self, thetas: Any) -> "Quadrature":
        """The designs of some thetas, where each has one of its own; otherwise the one of all.

        thetas: their places, or True or False for each; ValueError for anything else.
        """
        if self.points.ndim == 2:
            return self
        places = as_places("thetas", thetas, len(self.points))
        return jax.tree.map(lambda leaf: leaf[places], self)

    def __check_init__(self) -> None:
        check_fields(self)

    def explain(self) -> str:
        """In plain words: whether the weights help, what limits them, and what to do."""
        known = self.points, self.weights, self.condition, self.certificate
        learned = [] if self.coordinates is None else [describe_directions(self.coordinates)]
        return " ".join([explanation(*known), *learned])


def as_quadrature(quadrature: Any) -> Quadrature:
    """Raises ValueError for anything else."""
    expected = "a Quadrature, such as optimal_weights(...) or equal_weights(...)"
    return as_kind("quadrature", quadrature, Quadrature, expected)


def unweighted(
    points: Float[Array, "... m s"], *, independent: bool = False, unbiased: bool = False
) -> Quadrature:
    """Equal weights without a base kernel, so without a worst-case error."""
    none, one, zero = (as_jax(np.full(points.shape[:-2], each)) for each in (np.nan, 1.0, 0.0))
    shares, scalars = equal_shares(points), (none, one, zero)
    return Quadrature(points, shares, *scalars, unbiased=unbiased, independent=independent)


def unweighted_because(
    points: Float[Array, "... m s"], verdict: Verdict, *, independent: bool = False
) -> Quadrature:
    """Equal weights that say why they are."""
    equal = unweighted(points, independent=independent)
    return replace(equal, certificate=without_estimate(points, verdict))


def equal_shares(u: Float[Array, "... m s"]) -> Float[Array, "... m"]:
    """1/m for each point."""
    return as_jax(np.full(u.shape[:-1], 1 / u.shape[-2]))
