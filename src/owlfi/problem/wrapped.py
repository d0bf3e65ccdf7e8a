"""Generators around generators: with parameters held, and from uniform noise."""

from typing import Any

import equinox as eqx
from jaxtyping import Array

from owlfi.measures import Measure
from owlfi.problem.jax_or_host import Function, choose_runtime


class Fixed(eqx.Module):
    """A generator with some parameters held; the free ones are put into their places."""

    generator: Function
    base: Array
    places: tuple[int, ...] = eqx.field(static=True)
    on_host: bool = eqx.field(static=True)

    def __call__(self, theta: Any, u: Any) -> Any:
        parts = [*self.base]
        for place, value in zip(self.places, theta, strict=True):
            parts[place] = value
        return self.generator(choose_runtime(self.on_host).numpy.stack(parts), u)


class FromUniform(eqx.Module):
    """A generator behind the quantile function of its noise."""

    generator: Function
    measure: Measure
    on_host: bool = eqx.field(static=True)

    def __call__(self, theta: Any, v: Any) -> Any:
        return self.generator(
            theta, choose_runtime(self.on_host).numpy.asarray(self.measure.from_uniform(v))
        )
