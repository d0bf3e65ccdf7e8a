"""How strongly the squared MMD speaks in a generalised posterior exp(-beta·MMD²)·prior.

Since MMD² is at most 2 for kernels up to 1, beta = 1 barely moves the prior, whatever the data.
One beta cannot be right for several parameters: draws of the calibrated posterior are therefore
stretched around their mode until their covariance is that of the estimate.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import chdtri

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import positive
from owlfi._tools.real_line import Ends, from_real, log_slope, to_real
from owlfi.inference.fit import Fit
from owlfi.inference.search.sandwich import Sandwich
from owlfi.problem.prior import Prior

_QUARTILES = 1.35  # standard deviations between them
_BEYOND, _REACH = 1e-4, 2.0  # a share of normal draws, and how much farther others may lie
_FEWEST = 20  # draws around the mode, for each parameter
_ROOM = 2.0  # standard errors between an estimate and an end of its prior
_PULLS = 20  # towards the mode of data and prior; of a normal prior, one leads there
_DIFFERENCE = 1e-4  # standard deviations of the prior


class Mode(NamedTuple):
    """Where a generalised posterior has its mode, and how uncertain the estimate is."""

    minimum: Float[np.ndarray, " p"]
    """Of the discrepancy on its points."""
    theta: Float[np.ndarray, " p"]
    """The estimate."""
    covariance: Float[np.ndarray, "p p"]
    hessian: Float[np.ndarray, "p p"]
    """Of the discrepancy."""
    ends: Ends
    widths: Float[np.ndarray, " p"]
    """Of the prior on the real line."""
    rivals: Float[np.ndarray, "k p"]
    """Other modes, from this one on the real line."""


def mode_of(fit: Fit) -> Mode:
    """The one that a fit ended at."""
    return Mode(
        minimum=np.asarray(fit.minimum.theta),
        theta=np.asarray(fit.theta),
        covariance=np.asarray(fit.sandwich.covariance),
        hessian=np.asarray(fit.sandwich.hessian),
        ends=fit.objective.ends,
        widths=np.asarray(fit.objective.widths),
        rivals=fit.rivals,
    )


def calibrated_beta(sandwich: Sandwich | Mode) -> float:
    """The beta at which the posterior is as wide as the estimate is uncertain; it grows with n.

    Near the estimate the posterior has precision beta·H, which should be Σ⁻¹ for the sandwich
    covariance Σ: tr(beta·H Σ) = p, over the parameters that the data determine.

    >>> import jax.numpy as jnp
    >>> nothing = jnp.zeros(2)
    >>> float(calibrated_beta(Sandwich(0.01 * jnp.eye(2), 4 * jnp.eye(2), *[nothing] * 5)))
    25.0
    """
    hessian, covariance = np.asarray(sandwich.hessian), np.asarray(sandwich.covariance)
    known = np.ix_(*2 * [np.isfinite(np.diag(covariance))])
    product = hessian[known] @ covariance[known]
    with np.errstate(invalid="ignore"):  # none
        return float(np.divide(len(product), np.trace(product)))


def check_beta(beta: float | None) -> None:
    """Raises ValueError where it is given and no positive number."""
    if beta is not None:
        positive("beta", beta, number=True)


def choose_beta(mode: Mode, beta: float | None) -> float:
    """The given beta, or the calibrated one.

    Raises ValueError where it cannot be calibrated.
    """
    found = calibrated_beta(mode) if beta is None else float(beta)
    if not 0 < found < float("inf"):
        raise ValueError(
            f"beta cannot be calibrated: the estimate {mode.minimum} has no finite standard "
            "errors; hold parameters with simulator.fix(...), give beta=, or use more observations"
        )
    return found


def real_covariance(mode: Mode) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """The mode and its covariance on the real line, at most as wide as the prior."""
    v = to_real(as_jax(mode.minimum), mode.ends)
    slope, known = np.exp(np.asarray(log_slope(v, mode.ends))), np.isfinite(mode.covariance)
    covariance = np.where(known, mode.covariance, 0.0) / np.outer(slope, slope)
    sd = np.sqrt(np.where(np.diag(known), np.diag(covariance), 1.0))
    shrink = np.minimum(1.0, mode.widths / sd)
    wide = np.diag(np.where(np.diag(known), 0.0, mode.widths**2))  # what changes nothing
    return v, as_jax(covariance * np.outer(shrink, shrink) + wide)


def match_covariance(
    mode: Mode, prior: Prior, beta: float, v: Float[np.ndarray, "chains n p"]
) -> Float[np.ndarray, "chains n p"]:
    """Draws on the real line, moved so that they are as uncertain as the estimate in every pair.

    Those around the mode are mapped by A with A C Aᵀ = Σ (Ribatet, Cooley and Davison 2012), C
    their own covariance and Σ the estimate's, with what the prior knows. Those around a rival are
    stretched around their own mean by the same A. Draws that are far beyond belong to a mode that
    nobody knows, and stay, and so do parameters within two standard errors of an end, where no real
    line is straight. Where a prior that is 0 cuts draws off, C is that of the
    mode without it, and a move to there is refused as by Metropolis: the draw before counts again.
    """
    inside, flat = _are_inside(mode), v.reshape(-1, v.shape[-1])
    if not inside.any():
        return v
    (drawn, centre), (wanted, end) = _describe(mode, prior, beta, inside)
    part, precision = flat[:, inside], np.linalg.inv(drawn)
    whose = _find_nearest(precision, part - centre, mode.rivals[:, inside])
    near = (whose == 0) & _are_near(precision, part - centre)
    if near.sum() < _FEWEST * inside.sum():
        return v

    def move(centre: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turn = np.linalg.cholesky(wanted) @ np.linalg.inv(np.linalg.cholesky(covariance))
        moved = flat.copy()
        moved[:, inside] = np.where(near[:, None], end + (part - centre) @ turn.T, part)
        for number in range(1, 1 + len(mode.rivals)):
            there = whose == number
            own = part[there].mean(0) if there.any() else 0.0
            moved[np.ix_(there, inside)] = own + (part[there] - own) @ turn.T
        return moved, prior.excludes(from_real(as_jax(moved), prior.bounds))

    moved, refused = move(part[near].mean(0), np.cov(part[near].T).reshape(wanted.shape))
    if refused.any():
        moved, refused = move(centre, drawn)
    refused = refused.reshape(v.shape[:-1])
    return v if refused.all(1).any() else _repeat_before(moved.reshape(v.shape), refused)


def _are_inside(mode: Mode) -> Bool[np.ndarray, " p"]:
    """Which parameters are not near an end of their prior, for their errors."""
    low, high = map(np.asarray, mode.ends)
    room = np.minimum(mode.theta - low, high - mode.theta)
    return room >= _ROOM * np.sqrt(np.diag(mode.covariance))  # not where these are NaN


def _describe(
    mode: Mode, prior: Prior, beta: float, some: Bool[np.ndarray, " p"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Covariance and mode of what is drawn from, and of what is wanted, of some parameters."""
    at, covariance = (np.asarray(array) for array in real_covariance(mode))
    known, block = np.diag((_QUARTILES / mode.widths) ** 2), np.ix_(some, some)
    drawn = np.linalg.inv(beta * _real_hessian(mode) + known)
    wanted = np.linalg.inv(np.linalg.inv(covariance[block]) + known[block])
    together = np.linalg.inv(np.linalg.inv(covariance) + known)
    estimate = np.asarray(to_real(as_jax(mode.theta), mode.ends))
    centre, end = _pull(prior, at, drawn, known), _pull(prior, estimate, together, known)
    return (drawn[block], centre[some]), (wanted, end[some])


def _repeat_before(
    draws: Float[np.ndarray, "chains n p"], refused: Bool[np.ndarray, "chains n"]
) -> Float[np.ndarray, "chains n p"]:
    """Each chain with its last draw that was not refused in the place of those that were."""
    last = np.maximum.accumulate(np.where(refused, -1, np.arange(refused.shape[1])), 1)
    first = np.argmin(refused, 1)[:, None]  # for those before any
    return np.take_along_axis(draws, np.where(last < 0, first, last)[..., None], 1)


def _real_hessian(mode: Mode) -> Float[np.ndarray, "p p"]:
    """Of the discrepancy on the real line."""
    v = to_real(as_jax(mode.minimum), mode.ends)
    slope = np.exp(np.asarray(log_slope(v, mode.ends)))
    return mode.hessian * np.outer(slope, slope)


def _find_nearest(
    precision: Float[np.ndarray, "p p"],
    moved: Float[np.ndarray, "n p"],
    rivals: Float[np.ndarray, "k p"],
) -> Int[np.ndarray, " n"]:
    """The mode that each draw belongs to: 0 for this one, and a number for each rival."""
    apart = moved[:, None] - np.concatenate([np.zeros((1, moved.shape[1])), rivals])
    return np.argmin(np.einsum("nkp,pq,nkq->nk", apart, precision, apart), 1)


def _are_near(
    precision: Float[np.ndarray, "p p"], moved: Float[np.ndarray, "n p"]
) -> Bool[np.ndarray, " n"]:
    """Whether draws, from the mode on, lie where those of one mode would."""
    distance = ((moved @ precision) * moved).sum(1)
    return distance < _REACH**2 * chdtri(moved.shape[1], _BEYOND)


def _pull(
    prior: Prior,
    at: Float[np.ndarray, " p"],
    covariance: Float[np.ndarray, "p p"],
    known: Float[np.ndarray, "p p"],
) -> Float[np.ndarray, " p"]:
    """Where a prior moves the centre of data alone: the mode of both, which flat ones leave.

    covariance: of the data with the prior, whose own precision is about the one known.
    """
    v = at
    for _ in range(_PULLS):
        moved = at + covariance @ (_prior_slope(prior, v, known) + known @ (v - at))
        if not np.isfinite(moved).all():
            break
        v = (v + moved) / 2 if np.any(v != at) else moved
    return v


def _prior_slope(
    prior: Prior, v: Float[np.ndarray, " p"], known: Float[np.ndarray, "p p"]
) -> Float[np.ndarray, " p"]:
    """The derivative by v of the log density of the parameters, by differences."""
    steps = np.diag(_DIFFERENCE / np.sqrt(np.diag(known)))
    places = from_real(as_jax(np.concatenate([v + steps, v - steps])), prior.bounds)
    ahead, behind = np.split(np.asarray(prior.log_density(places)), 2)
    with np.errstate(invalid="ignore"):  # ∞ - ∞ where the prior is 0
        return (ahead - behind) / (2 * np.diag(steps))
