"""Bars of histograms, as many as some numbers can fill."""

import numpy as np
from jaxtyping import Float

_FEWEST, _MOST = 6, 30
_EXACT = 2**53  # up to which doubles hold all whole numbers


def choose_bins(x: Float[np.ndarray, " n"], beside: float = 0.0) -> list[float]:
    """The ends of bars for numbers (n,), and so much of their range beside them on both sides.

    Whole numbers, as counts are, stand in the middle of bars that hold equally many of them.

    >>> choose_bins(np.array([0.0, 1.0, 3.0, 2.0, 7.0]))
    [-0.5, 1.5, 3.5, 5.5, 7.5]
    """
    low, high = float(x.min()), float(x.max())
    reach = beside * (high - low) or (0.0 if high > low else 1.0)
    count = int(np.clip(2 * np.sqrt(len(x)), _FEWEST, _MOST)) - 1
    if not (x == np.round(x)).all() or max(-low, high) > _EXACT:
        return np.linspace(low - reach, high + reach, count + 1).tolist()
    first, last = np.floor(low - reach), np.ceil(high + reach)
    step = max(1.0, np.ceil((last - first + 1) / count))
    bars = int(np.ceil((last - first + 1) / step))
    return (first - 0.5 + step * np.arange(bars + 1)).tolist()
