"""The directions of the noise that matter most."""

from typing import Any

import numpy as np

from owlfi._tools.checks import as_count
from owlfi.measures import Rotated
from owlfi.show.axes import as_axes, hide_frame
from owlfi.weights.quadrature import Quadrature


def directions(learned: Any, axes: Any = None, *, count: int = 3, paths: int = 1) -> np.ndarray:
    """The leading directions of the noise, a line for each over the coordinates.

    learned: a quadrature in learned coordinates, or the measure of `learn_coordinates`.
    count: how many.
    paths: of noise that are increments of several paths, those of one step side by side; each path
        has axes of its own, and the lines are shapes over time.

    Raises ValueError where no coordinates were learned.

    >>> import owlfi
    >>> directions(owlfi.brownian(50)).shape
    (1,)
    """
    noise = learned.coordinates if isinstance(learned, Quadrature) else learned
    if not isinstance(noise, Rotated):
        raise ValueError(
            f"learned has no directions ({type(learned).__name__}); use OptimallyWeighted or "
            "Adaptive with coordinates='learned', or learn_coordinates(...).measure"
        )
    axes = as_axes(axes, 1, as_count("paths", paths, most=noise.dim))
    vectors = noise.rotation.directions[:, : as_count("count", count)].T
    for j, ax in enumerate(axes):
        for vector, share in zip(vectors, np.asarray(noise.shares), strict=False):
            ax.plot(vector[j::paths], label=f"{share:.1%}")
        ax.axhline(0.0, color="k", linewidth=0.8)
        ax.set_xlabel("coordinate of the noise" if paths == 1 else f"step of path {j + 1}")
        hide_frame(ax)
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": 7}  # lines cross all
    axes[-1].legend(frameon=False, title="of what\nk sees", title_fontsize=7, **beside)
    return axes
