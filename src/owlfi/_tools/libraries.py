"""Libraries that are slow to import or speak when imported."""

import warnings
from typing import Any


def arviz() -> Any:
    """ArviZ, without the announcement of its next version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as library
    return library


def blackjax() -> Any:
    """BlackJAX, which starts JAX when imported: a campaign could then no longer fork."""
    import blackjax as library

    return library
