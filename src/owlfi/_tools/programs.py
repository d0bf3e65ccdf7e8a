"""Programs: functions that are compiled as one, in little time."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import equinox as eqx

from owlfi._tools.checks import is_traced

Kind = TypeVar("Kind", bound=Callable[..., Any])

_OPTIONS = {"xla_cpu_use_fusion_emitters": False}  # of XLA: simpler code, in half of the time
_UNKNOWN = "No such compile option"


def compile_quickly(function: Kind) -> Kind:
    """One program where it is called with numbers, a part of the other one inside of another.

    For work that is done a few times: what is compiled runs as fast as ever where it calls LAPACK
    or multiplies matrices, and a little slower in loops.

    >>> import numpy as np
    >>> float(compile_quickly(lambda x: 2 * x)(np.float64(3.0)))
    6.0
    """
    inner: Any = eqx.filter_jit(function)
    quick = eqx.filter_jit(function, compiler_options=_OPTIONS)  # type: ignore[call-overload]

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        if is_traced(arguments, options):
            return inner(*arguments, **options)
        try:
            return quick(*arguments, **options)
        except Exception as error:
            if _UNKNOWN not in str(error):
                raise
            return inner(*arguments, **options)  # a version of XLA without this option

    return cast(Kind, run)
