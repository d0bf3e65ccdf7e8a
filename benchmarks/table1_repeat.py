"""One repeat of an experiment on the g-and-k model: medians, weights, and two squared MMDs."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Bar, Row, memory_row, peer_row, time_row, with_ratio
from benchmarks.timing import Call, Contender, Race, peak_memory, race

_OBSERVED = 10_000
_SIMULATED = 256
_NUGGET = 1e-8
_THETA = (3.0, 1.0, 0.1, 0.1)
_THETAS = 16

NUMPY = "NumPy, function by function"
SHARED = "NumPy, matrices shared"
CDIST = "NumPy with SciPy's cdist, matrices shared"
OWLFI = "owlfi"
OWLFI_THETA = "owlfi, data fixed"


Distances = Solve = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Experiment(NamedTuple):
    """Observations x (n, 1) and the uniform noise u (m, 1) of the simulator."""

    x: np.ndarray
    u: np.ndarray


def experiment() -> Experiment:
    rng = np.random.default_rng(0)
    x = g_and_k(_THETA, rng.uniform(size=(_OBSERVED, 1)))
    return Experiment(x, rng.uniform(size=(_SIMULATED, 1)))


def g_and_k(theta: tuple[float, ...], u: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    a, b, g, k = theta
    z = ndtri(u)
    skewed = 1 + 0.8 * (1 - np.exp(-g * z)) / (1 + np.exp(-g * z))
    return a + b * skewed * (1 + z**2) ** k * z


def thetas() -> list[tuple[float, ...]]:
    return [(3 + 0.01 * i, *_THETA[1:]) for i in range(_THETAS)]


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1)


def cdist(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from scipy.spatial import distance

    return distance.cdist(a, b, "sqeuclidean")


def gaussian(distances: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.exp(distances * (-0.5 / lengthscale**2))


def uniform_embedding(u: np.ndarray, lengthscale: float) -> np.ndarray:
    from scipy.special import erf

    ends = erf((1 - u) / (np.sqrt(2) * lengthscale)) + erf(u / (np.sqrt(2) * lengthscale))
    return lengthscale * np.sqrt(np.pi / 2) * ends[:, 0]


def median_of(between: np.ndarray) -> float:
    return np.sqrt(np.median(between) / 2)


def plain_weights(u: np.ndarray, distances: Distances, solve: Solve) -> np.ndarray:
    between = distances(u, u)
    lengthscale = median_of(between)
    gram = gaussian(between, lengthscale) + _NUGGET * np.eye(len(u))
    return solve(gram, uniform_embedding(u, lengthscale))


def by_inverse(gram: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.linalg.inv(gram) @ z


def plain_squared_mmd(y: np.ndarray, x: np.ndarray, w: np.ndarray, lengthscale: float) -> float:
    between_data = gaussian(squared_distances(x, x), lengthscale)
    cross = gaussian(squared_distances(y, x), lengthscale)
    own = gaussian(squared_distances(y, y), lengthscale)
    return w @ own @ w - 2 * w @ cross.mean(axis=1) + between_data.mean()


def by_plain_numpy() -> Call:
    """As the formulas are written: a median, weights, and one squared MMD after the other."""
    x, u = experiment()

    def call() -> list[float]:
        y = g_and_k(_THETA, u)
        lengthscale = median_of(squared_distances(x, x))
        equal = np.full(len(u), 1 / len(u))
        both = (equal, plain_weights(u, squared_distances, by_inverse))
        return [plain_squared_mmd(y, x, w, lengthscale) for w in both]

    return call


def by_numpy(distances: Distances, solve: Solve = by_inverse) -> Call:
    """The same with every matrix computed once and kept."""
    x, u = experiment()

    def call() -> list[float]:
        y = g_and_k(_THETA, u)
        between = distances(x, x)
        lengthscale = median_of(between)
        data_term = gaussian(between, lengthscale).mean()
        own = gaussian(distances(y, y), lengthscale)
        cross = gaussian(distances(y, x), lengthscale).mean(axis=1)
        equal = np.full(len(u), 1 / len(u))
        both = (equal, plain_weights(u, distances, solve))
        return [w @ own @ w - 2 * w @ cross + data_term for w in both]

    return call


def by_owlfi() -> Call:
    import owlfi

    x, u = experiment()

    def call() -> list[float]:
        y = g_and_k(_THETA, u)
        return _both_statistics(y, x, *_prepare(owlfi, x, u))

    return call


def by_owlfi_with_data_fixed() -> Call:
    """Many theta, one simulated sample each; the answer is that of the first."""
    import owlfi

    x, u = experiment()
    prepared = _prepare(owlfi, x, u)

    def call() -> list[float]:
        answers = [_both_statistics(g_and_k(theta, u), x, *prepared) for theta in thetas()]
        return answers[0]

    return call


def _prepare(owlfi: Any, x: np.ndarray, u: np.ndarray) -> tuple[Any, Any, Any]:
    """What does not depend on theta: the kernel, the data term and the weights."""
    k = owlfi.SquaredExponential(owlfi.median_heuristic(x))
    data_term = owlfi.data_term(k, x)
    c = owlfi.SquaredExponential(owlfi.median_heuristic(u))
    measure = owlfi.Uniform(0, 1, dim=1)
    quadrature = owlfi.optimal_weights(c, measure, u, nugget=_NUGGET)
    return k, data_term, quadrature.weights


def _both_statistics(y: np.ndarray, x: Any, k: Any, data_term: Any, weights: Any) -> list[float]:
    import owlfi

    equal = owlfi.squared_mmd(k, y, x, data_term=data_term)
    optimal = owlfi.squared_mmd(k, y, x, weights=weights, data_term=data_term)
    return [float(equal), float(optimal)]


def repeat() -> list[Row]:
    result = race(_contenders(), rounds=5)
    return [
        peer_row(time_row(_REPEAT, result, NUMPY), result, OWLFI, Bar(20)),
        peer_row(time_row(_REPEAT, result, SHARED), result, OWLFI),
        peer_row(time_row(_REPEAT, result, CDIST), result, OWLFI),
        time_row(_REPEAT, result, OWLFI),
        _theta_row(_A_THETA, result),
    ]


def _contenders() -> list[Contender]:
    """The first, by a backward stable solver, is what all answers are checked against."""
    stable = partial(by_numpy, cdist, np.linalg.solve)
    loose, tight = 1e-2, 1e-6  # the inverse of so ill-conditioned a matrix has lost most digits
    return [
        Contender("NumPy with a linear solver", stable, timed=False),
        Contender(NUMPY, by_plain_numpy, tolerance=loose),
        Contender(SHARED, partial(by_numpy, squared_distances), tolerance=loose),
        Contender(CDIST, partial(by_numpy, cdist), tolerance=loose),
        Contender(OWLFI, by_owlfi, tolerance=tight),
        Contender(OWLFI_THETA, by_owlfi_with_data_fixed, _THETAS, tolerance=tight),
    ]


_REPEAT = f"one repeat, n = {_OBSERVED:,}, m = {_SIMULATED}"
_A_THETA = "one more theta, both statistics"


def _theta_row(what: str, result: Race) -> Row:
    row = time_row(what, result, OWLFI_THETA)
    ratio = result.ratio(OWLFI_THETA, NUMPY)
    return with_ratio(row, ratio, f"speed: this / a repeat by {NUMPY}", Bar(200))


def memory() -> list[Row]:
    ways = {NUMPY: by_plain_numpy, OWLFI: by_owlfi}
    what = f"memory of {_REPEAT}"
    return [memory_row(what, name, peak_memory(build)) for name, build in ways.items()]


BENCHMARKS = {"repeat": repeat, "memory": memory}
