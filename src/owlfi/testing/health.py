"""What may be wrong with a test: each function has a sentence for it, or none."""

_FEW_ROWS = 20
_FEW_FOR_LIMITS = 30  # rejects a true model 8 to 9 times in 100 at level 0.05
_FAILED = 0.01  # share of replicates
_UNFINISHED = 0.05


def tell_few_rows(name: str, rows: int, rejected: bool) -> tuple[str, ...]:
    """Of samples so small that only a rejection means something."""
    if rejected or rows >= _FEW_ROWS:
        return ()
    return (
        f"Few rows: {name} has {rows}, and of so few only a large misfit would be seen, so that "
        "it says little that the test does not reject; give more",
    )


def tell_limit(rows: int) -> tuple[str, ...]:
    """Of samples too small for a test that is right in the limit of many rows."""
    if rows >= _FEW_FOR_LIMITS:
        return ()
    return (
        f"Few rows: observed has {rows}, and of so few the p-values of the wild bootstrap are too "
        "small; use goodness_of_fit, or give more",
    )


def tell_saturated(usual: float, floor: float) -> tuple[str, ...]:
    """Of models that follow any such data so closely that nothing is left to test.

    usual: the statistic of a true model.
    floor: what the points add to it.
    """
    if usual > floor:
        return ()
    return (
        f"A true model leaves a squared MMD of {usual:.2g} to such data, no more than the error of "
        f"the points, {floor:.2g}, and no misfit is told from that; take more points, or fewer "
        "parameters where the data have few different values",
    )


def tell_failed_replicates(failed: int, replicates: int) -> tuple[str, ...]:
    """Of fits that gave no finite statistic."""
    if failed <= _FAILED * replicates:
        return ()
    return (
        f"{failed:,} of {replicates:,} fits to replicates failed and count as +∞, so that p may be "
        f"too large by {failed / (1 + replicates):.2g}; mend the generator where y is NaN, or "
        "narrow the prior",
    )


def tell_unfinished_fits(converged: bool, others: int, replicates: int) -> tuple[str, ...]:
    """Of fits that did not converge, which leaves a statistic too large.

    converged: whether the fit to the observed data did.
    others: how many fits to replicates did not.
    """
    remedy = "take restarts=2 or more points, or narrow the prior"
    if not converged:
        return (
            "The fit to the observed data did not converge, so that its statistic may be too "
            f"large and p too small; {remedy}",
        )
    if others <= _UNFINISHED * replicates:
        return ()
    return (
        f"{others:,} of {replicates:,} fits to replicates did not converge, so that their "
        f"statistics and p may be too large; {remedy}",
    )
