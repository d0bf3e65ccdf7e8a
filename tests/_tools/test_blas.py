from concurrent.futures import ThreadPoolExecutor

import scipy.linalg  # noqa: F401  # with its own BLAS beside NumPy's
from threadpoolctl import threadpool_info, threadpool_limits

from owlfi._tools.blas import use_one_blas_thread


def _threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def _look_inside():
    with use_one_blas_thread():
        return _threads()


def test_limit_is_that_of_whoever_came_first():
    with threadpool_limits(3, user_api="blas"):
        with use_one_blas_thread(), ThreadPoolExecutor(2) as threads:
            assert [threads.submit(_look_inside).result() for _ in range(4)] == [{1}] * 4
            assert _look_inside() == {1}
            assert _threads() == {1}
        assert _threads() == {3}


def test_limit_ends_with_an_error():
    with threadpool_limits(2, user_api="blas"):
        try:
            with use_one_blas_thread():
                raise ValueError("x")
        except ValueError:
            assert _threads() == {2}
        assert _look_inside() == {1}
