"""NumPy's generators, old and new, whose draws come from a tape."""

from typing import Any

import numpy as np

from owlfi.problem.recorded_noise.draws import Draws
from owlfi.problem.recorded_noise.errors import NotFromNoiseError
from owlfi.problem.recorded_noise.tape import AnyTape

_BITS = np.random.PCG64(0)  # asked for by NumPy's classes; nothing is drawn from it
_LEGACY_BITS = np.random.MT19937(0)


class _Legacy(Draws):
    """The names that only `numpy.random.RandomState` has, which much code still uses."""

    def rand(self, *shape: int) -> Any:
        return self.random(shape or None)

    def randn(self, *shape: int) -> Any:
        return self.standard_normal(shape or None)

    def random_sample(self, size: Any = None) -> Any:
        return self.random(size)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        drawn = self.integers(low, high, size, dtype)
        return int(drawn) if size is None and np.ndim(drawn) == 0 else drawn

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        low, high = (1, low) if high is None else (low, high)
        return self.integers(low, high, size, endpoint=True)

    def tomaxint(self, size: Any = None) -> Any:
        return self.integers(0, np.iinfo(np.int64).max, size, endpoint=True)


class RecordingGenerator(_Legacy, np.random.Generator):
    """A `numpy.random.Generator` whose draws are coordinates of u.

    >>> from owlfi.problem.recorded_noise.tape import Tape
    >>> rng = RecordingGenerator(Tape(np.array([0.5, -1.0]), (("normal", 2),)))
    >>> rng.normal(10.0, 2.0, size=2)
    array([11.,  8.])
    """

    def __new__(cls, tape: AnyTape) -> "RecordingGenerator":
        return np.random.Generator.__new__(cls, _BITS)  # type: ignore[call-arg]

    def __init__(self, tape: AnyTape):
        super().__init__(_BITS)
        self._tape, self._single = tape, not (tape.traced or tape.rows)

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Children that take their draws from the same tape, in the order of the draws."""
        return [RecordingGenerator(self._tape) for _ in range(n_children)]

    @property
    def bit_generator(self) -> Any:
        """Gives children, by its seed sequence; bits are refused."""
        return _Bits(self)

    def __repr__(self) -> str:
        return "Generator(u)"

    __str__ = __repr__


class RecordingState(_Legacy, np.random.RandomState):
    """A `numpy.random.RandomState` whose draws are coordinates of u."""

    def __init__(self, tape: AnyTape):
        super().__init__(_LEGACY_BITS)
        self._tape, self._single = tape, not (tape.traced or tape.rows)

    def seed(self, seed: Any = None) -> None:
        """Draws come from u, whatever the seed."""


class _Bits:
    """In the place of a bit generator and of its seed sequence, of which code wants children."""

    def __init__(self, rng: RecordingGenerator):
        self._rng = rng

    @property
    def seed_seq(self) -> "_Bits":
        return self

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """For default_rng, which takes generators as they are."""
        return self._rng.spawn(n_children)

    def __getattr__(self, name: str) -> Any:
        raise _explain_refusal(f"bit_generator.{name}")


def _explain_refusal(name: str) -> NotFromNoiseError:
    return NotFromNoiseError(
        f"rng.{name} cannot be taken from u; draw with methods such as rng.normal, rng.integers "
        "or rng.random, and let rng.spawn(n) make other generators"
    )


def _refuse(name: str) -> property:
    """What would give other random numbers than those of u."""

    def refused(self: Any) -> Any:
        raise _explain_refusal(name)

    return property(refused)


def _close(own: type, numpys: type) -> None:
    """Refuse, by name, whatever NumPy's class has and this does not."""
    for name in vars(numpys):
        if not name.startswith("_") and getattr(own, name) is getattr(numpys, name):
            setattr(own, name, _refuse(name))
    for name in ("__reduce__", "__getstate__", "__setstate__"):  # a copy would repeat draws
        setattr(own, name, _refuse(f"{name} (copies and pickles)"))


_close(RecordingGenerator, np.random.Generator)
_close(RecordingState, np.random.RandomState)
