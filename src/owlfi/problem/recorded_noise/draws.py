"""The methods of NumPy's generators, each draw made of standard coordinates of a tape."""

import operator
from typing import Any

import numpy as np

from owlfi.problem.recorded_noise import orders, vectors
from owlfi.problem.recorded_noise.families import FAMILIES
from owlfi.problem.recorded_noise.kinds import EXPONENTIAL, NORMAL, UNIFORM
from owlfi.problem.recorded_noise.tape import AnyTape, Shape

_PLAIN = np.random.default_rng(0)  # knows which parameters there are; its numbers are not used
_NUMBER = (float, int, np.integer)
_BELOW_ONE_IN_SINGLE = np.float32(1 - 2.0**-24)


class Draws:
    """Random numbers as NumPy's generators give them, from a tape.

    Parameters, sizes, types and errors are NumPy's; see `numpy.random.Generator`.
    """

    _tape: AnyTape
    _single: bool
    """Whether draws are plain numbers: of one run, on the host."""

    def _each(self, name: str, size: Any, *parameters: Any) -> Any:
        """Draws of a family on the line, one coordinate each."""
        family, tape = FAMILIES[name], self._tape
        if tape.traced and not family.in_jax:
            raise NotImplementedError(f"rng.{name} runs on the host, not inside JAX")
        plain = all(isinstance(p, _NUMBER) for p in parameters)
        if plain and size is None and not tape.rows:
            return self._one(name, parameters)
        if parameters and not tape.traced:
            getattr(_PLAIN, name)(*parameters, size=0 if plain else None)  # raises as it should
        if not plain:
            parameters = tuple(p if np.ndim(p) == 0 else tape.numpy.asarray(p) for p in parameters)
        shape = self._shape(size, () if plain else parameters)
        value = family.formula(
            tape.numpy, tape.special, tape.take(family.kind, shape), *parameters
        ).reshape(shape)
        value = value.astype(np.int64) if family.counts else value
        return value if size is not None or shape or tape.traced else value.item()

    def _is_quick(self, first: Any, second: Any) -> bool:
        """Whether a draw is one plain number: loops make many of them."""
        return isinstance(first, _NUMBER) and isinstance(second, _NUMBER) and self._single

    def _one(self, name: str, parameters: tuple[Any, ...]) -> Any:
        """The same for plain numbers, at once: loops draw one at a time."""
        family, tape = FAMILIES[name], self._tape
        if parameters:
            getattr(_PLAIN, name)(*parameters, size=0)
        plain = [float(p) if isinstance(p, float) else int(p) for p in parameters]
        value = family.formula(tape.numpy, tape.special, tape.take_one(family.kind), *plain)
        return value if tape.traced else (int if family.counts else float)(value)

    def _shape(self, size: Any, parameters: tuple[Any, ...] = ()) -> Shape:
        """That of the draws; ValueError where the parameters do not fit it."""
        own = np.broadcast_shapes(*(np.shape(p) for p in parameters)) if parameters else ()
        shape = own if size is None else as_shape(size)
        if own and np.broadcast_shapes(own, shape) != shape:
            raise ValueError(
                f"size {shape} does not fit parameters of shape {own}; let it end with that shape"
            )
        rows = self._tape.rows
        if shape[: len(rows)] != rows:
            raise ValueError(
                f"with vectorised=True every draw must have the {rows[0]} rows as its leading "
                f"axis, got shape {shape}; write size=(m, ...), or leave vectorised out"
            )
        return shape

    def _standard(self, name: str, size: Any, dtype: Any, out: Any, *parameters: Any) -> Any:
        """Draws of any precision, in an array that is there or in a new one."""
        if size is out is None and dtype is np.float64 and not parameters and self._single:
            return self._tape.take_one(FAMILIES[name].kind)  # at once, as loops draw many of them
        shape = np.shape(out) if size is None and out is not None else size
        value = self._each(name, shape, *parameters)
        if np.dtype(dtype) != np.float64:
            value = (
                np.asarray(value).astype(dtype) if not self._tape.traced else value.astype(dtype)
            )
            value = np.minimum(value, _BELOW_ONE_IN_SINGLE) if name == "random" else value
        if out is None:
            return (
                value if shape is not None or np.shape(value) or self._tape.traced else float(value)
            )
        if out.shape != np.shape(value):
            raise ValueError(f"size {np.shape(value)} must match out.shape {out.shape}")
        out[...] = value
        return out

    def _line(self, kind: str, count: int) -> Any:
        """For orders and bytes: (count,) coordinates of one run."""
        if self._tape.rows:
            raise ValueError(
                "with vectorised=True permutations, choices without replacement and bytes cannot "
                "be taken from u; leave vectorised out, and simulate one row"
            )
        return self._tape.take(kind, (count,))

    # On the line

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._standard("random", size, dtype, out)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._standard("standard_normal", size, dtype, out)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        return self._standard("standard_exponential", size, dtype, out)

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None
    ) -> Any:
        return self._standard("standard_gamma", size, dtype, out, shape)

    def standard_cauchy(self, size: Any = None) -> Any:
        return self._each("standard_cauchy", size)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        return self._each("standard_t", size, df)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        if size is None and self._is_quick(low, high) and low <= high < np.inf > -low:
            return float(low + (high - low) * self._tape.take_one(UNIFORM))
        return self._each("uniform", size, low, high)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        if size is None and self._is_quick(loc, scale) and scale >= 0:
            return float(loc + scale * self._tape.take_one(NORMAL))
        return self._each("normal", size, loc, scale)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        if size is None and self._is_quick(scale, 0.0) and scale >= 0:
            return float(scale * self._tape.take_one(EXPONENTIAL))
        return self._each("exponential", size, scale)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each("gamma", size, shape, scale)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        return self._each("beta", size, a, b)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        return self._each("chisquare", size, df)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        return self._each("f", size, dfnum, dfden)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each("gumbel", size, loc, scale)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each("laplace", size, loc, scale)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each("logistic", size, loc, scale)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        return self._each("lognormal", size, mean, sigma)

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        return self._each("noncentral_chisquare", size, df, nonc)

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        return self._each("noncentral_f", size, dfnum, dfden, nonc)

    def pareto(self, a: Any, size: Any = None) -> Any:
        return self._each("pareto", size, a)

    def power(self, a: Any, size: Any = None) -> Any:
        return self._each("power", size, a)

    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each("rayleigh", size, scale)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        return self._each("triangular", size, left, mode, right)

    def vonmises(self, mu: Any, kappa: Any, size: Any = None) -> Any:
        return self._each("vonmises", size, mu, kappa)

    def wald(self, mean: Any, scale: Any, size: Any = None) -> Any:
        return self._each("wald", size, mean, scale)

    def weibull(self, a: Any, size: Any = None) -> Any:
        return self._each("weibull", size, a)

    # Counts

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._each("binomial", size, n, p)

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._each("geometric", size, p)

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Any:
        return self._each("hypergeometric", size, ngood, nbad, nsample)

    def logseries(self, p: Any, size: Any = None) -> Any:
        return vectors.draw_logseries(self, p, size)

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._each("negative_binomial", size, n, p)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._each("poisson", size, lam)

    def zipf(self, a: Any, size: Any = None) -> Any:
        return self._each("zipf", size, a)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:
        return orders.draw_integers(self, low, high, size, dtype, endpoint)

    # Vectors

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        return vectors.draw_dirichlet(self, alpha, size)

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        return vectors.draw_multinomial(self, n, pvals, size)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: Any, size: Any = None, method: str = "marginals"
    ) -> Any:
        return vectors.draw_multivariate_hypergeometric(self, colors, nsample, size)

    def multivariate_normal(
        self,
        mean: Any,
        cov: Any,
        size: Any = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        return vectors.draw_multivariate_normal(self, mean, cov, size, check_valid, tol)

    # Orders

    def bytes(self, length: int) -> bytes:
        return np.floor(256 * self._line(UNIFORM, length)).astype(np.uint8).tobytes()

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        return orders.choose(self, a, size, replace, p, axis)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return orders.permute(self, x, axis)

    def permuted(self, x: Any, *, axis: int | None = None, out: Any = None) -> Any:
        return orders.permute_each(self, x, axis, out)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        orders.shuffle(self, x, axis)


def as_shape(size: Any) -> Shape:
    """A size as a shape."""
    if isinstance(size, tuple | list):
        return tuple(operator.index(length) for length in size)
    return (operator.index(size),)
