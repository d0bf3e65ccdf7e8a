"""The squared maximum mean discrepancy between simulated and observed samples."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import as_array, as_rows, as_weights, brief, is_traced
from owlfi._tools.programs import compile_quickly, compile_sums
from owlfi.kernels import Kernel, as_kernel
from owlfi.weights.quadrature import Quadrature

_FEW_PAIRS = 2**20  # summed in milliseconds, while a program for more takes longer to compile


def squared_mmd(
    data_kernel: Any,
    y: Any,
    x: Any,
    weights: Any = None,
    *,
    unbiased: Any = False,
    weights_x: Any = None,
    data_term: Any = None,
) -> Float[Array, "..."]:
    """The squared MMD between simulations y and observations x, eq. (5) of the paper.

    Σ w_i w_j k(y_i, y_j) - 2 Σ w_i v_j k(y_i, x_j) + Σ v_i v_j k(x_i, x_j), weights as given (they
    may be negative and need not sum to one), never clipped at 0.

    data_kernel: k, a Kernel, or a JAX function of two points.
    y: (m, d) simulated, (m,) where d = 1, or (..., m, d) for many thetas at once.
    x: (n, d) observed, or (n,).
    weights: w, (m,) or (..., m), or the Quadrature that has them; equal weights 1/m (the
        V-statistic) where left out.
    unbiased: the U-statistic, without the pairs i = j; takes no weights.
    weights_x: v, (n,); equal weights 1/n where left out.
    data_term: what `data_term(data_kernel, x, ...)` gave, to not compute it again for each theta.

    Returns a scalar, or an array of the leading shape of y. Memory does not grow with m·n; the
    result is differentiable in y, x, the weights and the kernel's parameters.

    Raises ValueError for samples of different dimension, values that are not finite, weights of
    the wrong length, weights together with `unbiased`, and any `unbiased` but True or False.

    >>> from owlfi.kernels import SquaredExponential
    >>> squared_mmd(SquaredExponential(1.0), [0.0], [1.0]).round(6)
    Array(0.786939, dtype=float64)
    """
    k = as_kernel(data_kernel)
    y = as_rows("y", y, batched=True)
    x = as_rows("x", x)
    _check_columns(y, x)
    _check_unweighted(unbiased)
    if isinstance(weights, Quadrature):
        unbiased = unbiased or weights.unbiased
        weights = None if weights.unbiased else weights.weights
    _check_unweighted(unbiased, weights, weights_x)
    unbiased = bool(unbiased)
    _check_pairs("y", y, unbiased)
    w, v = _weights("weights", weights, y), _weights("weights_x", weights_x, x)
    if data_term is None:
        data_term = _data_term(k, x, v, unbiased)
    term = as_array("data_term", data_term)
    if term.ndim:
        raise ValueError(f"data_term must be one number, got shape {term.shape}")
    w = as_jax(numpy_for(w).broadcast_to(w, y.shape[:-1]))  # one shape, one compilation
    few = w.size * (len(x) + y.shape[-2]) <= _FEW_PAIRS
    return (_combine_few if few else _combine_many)(k, y, x, w, v, term, unbiased)


def data_term(
    data_kernel: Any, x: Any, weights: Any = None, *, unbiased: Any = False
) -> Float[Array, ""]:
    """The part of the squared MMD that depends on the observations alone, Σ v_i v_j k(x_i, x_j).

    Compute it once and pass it to every `squared_mmd` with the same kernel, x, weights_x and
    unbiased.

    >>> from owlfi.kernels import SquaredExponential
    >>> data_term(SquaredExponential(1.0), [0.0, 0.0])
    Array(1., dtype=float64)
    """
    _check_unweighted(unbiased, weights)
    rows = as_rows("x", x)
    w = _weights("weights", weights, rows)
    return _data_term(as_kernel(data_kernel), rows, w, bool(unbiased))


def simulated_term(
    k: Kernel,
    y: Float[Array, "m d"],
    x: Float[Array, "n d"],
    w: Float[Array, " m"],
    v: Float[Array, " n"],
    unbiased: bool,
) -> Float[Array, ""]:
    """What depends on the simulations, Σ w_i w_j k(y_i, y_j) - 2 Σ w_i v_j k(y_i, x_j).

    Without checks, for the inside of searches.
    """
    return own_term(k, y, w, unbiased) - 2 * w @ k.row_sums(y, x, v)


def own_term(
    k: Kernel, rows: Float[Array, "m d"], weights: Float[Array, " m"], unbiased: bool
) -> Float[Array, ""]:
    """Σ w_i w_j k(y_i, y_j) of one sample, of the U-statistic without the pairs i = j."""
    total = k.self_sum(rows, weights)
    if not unbiased:
        return total
    pairs, single = own_factors(rows.shape[0], unbiased)
    return pairs * total - single * k.diagonal(rows).mean()


def own_factors(m: int, unbiased: bool) -> tuple[float, float]:
    """a and b of a·Σ k(y_i, y_j) / m² - b·Σ k(y_i, y_i) / m, with the pairs i = j or without."""
    if not unbiased:
        return 1.0, 0.0
    if m < 2:
        raise ValueError(f"the U-statistic needs at least 2 rows, got {m}; leave unbiased out")
    return m / (m - 1), 1 / (m - 1)


def _data_term(k: Kernel, x: Array, weights: Array, unbiased: bool) -> Array:
    _check_pairs("x", x, unbiased)
    add = _own_term_of_few if len(x) ** 2 <= _FEW_PAIRS else _own_term_of_many
    term = add(k, x, weights, unbiased)
    if not is_traced(term) and not np.isfinite(np.asarray(term)):
        raise ValueError(f"data_kernel must give finite numbers, got {term} as their sum over x")
    return term


_own_term_of_few, _own_term_of_many = compile_quickly(own_term), compile_sums(own_term)


def _combine(
    k: Kernel, y: Array, x: Array, w: Array, v: Array, data_term: Array, unbiased: bool
) -> Array:
    batch = y.shape[:-2]
    samples = y.reshape(-1, *y.shape[-2:])
    w = w.reshape(samples.shape[:2])
    # All thetas' rows in one product with x: far faster than one theta after the other.
    witness = k.row_sums(samples.reshape(-1, x.shape[1]), x, v).reshape(w.shape)
    own = jax.lax.map(lambda case: own_term(k, case[0], case[1], unbiased), (samples, w))
    return (own - 2 * (w * witness).sum(1)).reshape(batch) + data_term


_combine_few, _combine_many = compile_quickly(_combine), compile_sums(_combine)


def _check_columns(y: Array, x: Array) -> None:
    if y.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"y and x must have the same number of columns, got {y.shape[-1]} (y has shape "
            f"{y.shape}) and {x.shape[-1]} (x has shape {x.shape})"
        )


def _check_unweighted(unbiased: Any, *weights: Any) -> None:
    if not isinstance(unbiased, (bool, np.bool_)):
        raise ValueError(
            f"unbiased must be True or False, a plain truth value, got {brief(unbiased)}"
        )
    if unbiased and any(w is not None for w in weights):
        raise ValueError("unbiased=True is the U-statistic with equal weights; leave out weights")


def _check_pairs(name: str, rows: Array, unbiased: bool) -> None:
    if unbiased and rows.shape[-2] < 2:
        raise ValueError(
            f"the U-statistic needs at least 2 rows of {name}, got {rows.shape[-2]}; "
            "leave unbiased out"
        )


def _weights(name: str, weights: Any, rows: Array) -> Array:
    if weights is None:
        return as_jax(np.full(rows.shape[-2], 1 / rows.shape[-2]))
    return as_weights(name, weights, rows)
