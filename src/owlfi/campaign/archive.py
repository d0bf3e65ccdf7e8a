"""The file of a campaign: its simulator, its design, and one writer at a time."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from owlfi.campaign.design import Design, describe_failure
from owlfi.campaign.encoding import decode
from owlfi.campaign.recipe import load_simulator
from owlfi.campaign.status import read_status
from owlfi.campaign.store import Store
from owlfi.problem.simulator import Simulator


class Archive:
    """What a campaign is, wherever it runs; its parts read and write through this.

    path: the file of the store.
    recipe: the simulator, as text that every worker understands.
    """

    def __init__(self, path: Path, recipe: str):
        self.path = path
        self.recipe = recipe
        self._lock = FileLock(f"{path}.lock")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Archive":
        """The archive in a file; ValueError where there is none."""
        with closing(Store.open(Path(path), read_only=True)) as store:
            return cls(Path(path), store.fact("recipe"))

    @cached_property
    def original(self) -> Simulator:
        """The simulator itself, which remembers nothing."""
        return load_simulator(decode(self.recipe))

    @cached_property
    def design(self) -> Design:
        """The thetas and the quadrature; ValueError where there is none yet."""
        with self.reading() as store:
            text = store.fact("design")
        if text is None:
            raise ValueError(f"{self.path} has no design yet; give it with plan(thetas, ...)")
        return Design.read(text)

    def forget_design(self) -> None:
        """Read the design from the store when it is next needed."""
        self.__dict__.pop("design", None)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """The store to read from, also while another process writes."""
        with closing(Store.open(self.path, read_only=True)) as store:
            yield store

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """The store to write to; ValueError while another process does."""
        try:
            lock = self._lock.acquire(blocking=False)
        except Timeout:
            with self.reading() as store:
                who = read_status(store).driver or "another process"
            raise ValueError(
                f"{self.path} is being run by {who}; wait for it or stop it. status() and "
                "results(partial=True) work meanwhile"
            ) from None
        with lock, closing(Store.open(self.path)) as store:
            yield store

    def describe_failures(self, most: int | None = None) -> str:
        """The failed runs with their theta, u and error, one after the other."""
        with self.reading() as store:
            failures = store.failures(most)
            design = self.design if store.fact("design") is not None else None
        return "\n".join(describe_failure(failure, design) for failure in failures)
