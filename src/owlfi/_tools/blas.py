"""Linear algebra in one thread: on small matrices, threads wait for each other more than they work.

Rounding then is the same on machines with other numbers of cores, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_HELD = Lock()  # the limit is one for all threads of a process


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """For what is done inside; whoever comes first sets it, and ends it.

    >>> from threadpoolctl import threadpool_info
    >>> with use_one_blas_thread():
    ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    {1}
    """
    if not _HELD.acquire(blocking=False):
        yield
        return
    try:
        import scipy.linalg  # noqa: F401  # whose LAPACK is JAX's: what is not loaded is not limited
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        _HELD.release()
