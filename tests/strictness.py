"""What checks annotations in tests: shapes and types of arrays, and the classes of objects.

Numbers and words are left out: what a user may give instead of them is refused by owlfi itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

_UNCHECKED = FrozenDict(dict.fromkeys((int, float, str, bool), object))
check = beartype(conf=BeartypeConf(hint_overrides=_UNCHECKED))


@contextmanager
def unchecked() -> Iterator[None]:
    """For calls with what no annotation allows, and owlfi must refuse by itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
