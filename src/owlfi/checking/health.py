"""What a calibration says of a method, in words: each function has sentences, or none."""

import numpy as np

from owlfi.results.calibration import Calibration, bounded_scores
from owlfi.results.uniformity import (
    Uniformity,
    binomial_band,
    is_narrow,
    kolmogorov_p,
    look_at_levels,
    width_p,
)

_FEW = 50
_FAILED = 0.01  # share of data sets
_UNBOUNDED = 0.05
_REMEDY = "calibration.correct(result) gives intervals that cover as often as they say"


def describe(found: Calibration, alarms: float) -> tuple[str, ...]:
    """All that is wrong; of a calibrated method anything at all with probability `alarms`."""
    n, p = np.shape(found.levels)
    level = alarms / (len(Uniformity._fields) * p + (2 if p > 1 else 0))  # Bonferroni
    told = [sentence for j in range(p) for sentence in _describe_parameter(found, j, level)]
    return (
        *told,
        *_tell_unbounded(found),
        *(_describe_joint(np.asarray(found.joint), level) if p > 1 else ()),
        *_tell_failed(found.about.get("failed", 0), n),
        *_tell_few(n),
    )


def _describe_parameter(found: Calibration, j: int, level: float) -> list[str]:
    name, (v, theta, center) = (
        found.names[j],
        (np.asarray(part)[:, j] for part in (found.levels, found.thetas, found.centers)),
    )
    seen = look_at_levels(v, theta, center)
    told = []
    if seen.width < level:
        told.append(_tell_width(name, v))
    if seen.bias < level:
        told.append(_tell_bias(name, v, bounded_scores(found.scores)[:, j]))
    if seen.shape < level and not told:
        told.append(
            f"The ranks of {name} are not uniform (p = {seen.shape:.1g}), so that some intervals "
            f"of it cover too often or too rarely; look at plots.ranks, and {_REMEDY}"
        )
    if seen.shrinkage < level:
        told.append(
            f"Estimates of {name} are pulled too far to the middle: where they are large, the "
            "truth is larger, where small, smaller; give the method the prior that you believe, "
            "or weaken what holds it back"
        )
    if seen.scatter < level:
        told.append(
            f"Estimates of {name} scatter more than their intervals say: where the truth is large, "
            f"they are larger, where small, smaller; {_REMEDY}"
        )
    return told


def _tell_width(name: str, v: np.ndarray) -> str:
    narrow, n = is_narrow(v), len(v)
    low, high = binomial_band(int(np.sum(np.abs(2 * v - 1) <= 0.9)), n)
    return (
        f"Intervals of {name} are too {'narrow' if narrow else 'wide'}: 90% cover "
        f"{low:.0%} to {high:.0%} of {n} data sets; {_REMEDY}"
    )


def _tell_bias(name: str, v: np.ndarray, scores: np.ndarray) -> str:
    high = np.mean(v) < 0.5
    return (
        f"Estimates of {name} are too {'high' if high else 'low'}: {np.mean((v < 0.5) == high):.0%}"
        f" of the truths lie {'below' if high else 'above'} the middle, by "
        f"{abs(float(np.nanmedian(scores))):.2g} standard deviations in the median; {_REMEDY}"
    )


def _describe_joint(joint: np.ndarray, level: float) -> tuple[str, ...]:
    known = joint[np.isfinite(joint)]
    if not len(known) or min(kolmogorov_p(known), width_p(known)) >= level:
        return ()
    covered = binomial_band(int(np.sum(known <= 0.5)), len(known))
    return (
        "The parameters together are not where the method says: regions around random points that "
        f"should hold 50% of the truths hold {covered[0]:.0%} to {covered[1]:.0%}, or too many in "
        "the tails; look at plots.coverage, and do not trust correlations of the parameters",
    )


def _tell_unbounded(found: Calibration) -> list[str]:
    """Intervals without an end hold any truth, and hide that others are too narrow."""
    n, counts = found.data_sets, np.sum(np.asarray(found.scores) == 0, axis=0)
    return [
        f"In {number} of {n} data sets intervals of {name} have no end inside the prior, and count "
        "as covering; take more rows where the data tell little of it, or a wider prior where "
        "estimates lie at its end"
        for name, number in zip(found.names, counts, strict=True)
        if number > _UNBOUNDED * n
    ]


def _tell_failed(failed: int, done: int) -> tuple[str, ...]:
    if failed <= _FAILED * (failed + done):
        return ()
    return (
        f"{failed:,} of {failed + done:,} data sets are left out, since they hold values that are "
        "not finite or the method failed on them (about['reasons']); the others may not be like "
        "them; mend the simulator, or narrow the prior",
    )


def _tell_few(n: int) -> tuple[str, ...]:
    if n >= _FEW:
        return ()
    return (f"Few data sets: of {n} only gross faults are seen; take 200",)
