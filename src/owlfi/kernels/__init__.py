"""Kernels: on data (k, inside the MMD) and on the noise of a simulator (c, behind the weights).

Combine them with `+` and `*`: `0.5 * SquaredExponential(1.0) + Matern(1.5, 2.0) + 0.1`.
"""

from owlfi.kernels.base import (
    Constant,
    CoordinateKernel,
    Kernel,
    ProductKernel,
    ScaledKernel,
    SumKernel,
    check_coordinates,
)
from owlfi.kernels.function import FunctionKernel, as_kernel
from owlfi.kernels.korobov import Korobov
from owlfi.kernels.radial import (
    InverseMultiquadric,
    Matern,
    RadialKernel,
    RationalQuadratic,
    SquaredExponential,
    squared_distances,
)
from owlfi.kernels.separable import Separable
