"""What parts of a campaign need of the whole, so that imports go one way."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from owlfi.campaign.design import Design
from owlfi.campaign.status import Status
from owlfi.campaign.store import Run, Store
from owlfi.problem.simulator import Simulator


@runtime_checkable
class StoredRuns(Protocol):
    """A campaign, as seen by its parts."""

    path: Path
    recipe: str

    @property
    def original(self) -> Simulator: ...

    @property
    def design(self) -> Design: ...

    def forget_design(self) -> None: ...

    def reading(self) -> AbstractContextManager[Store]: ...

    def driving(self) -> AbstractContextManager[Store]: ...

    def drive(self, runs: list[Run]) -> None: ...

    def started(
        self, *, executor: Any = None, workers: int | None = None, time_limit: float | None = None
    ) -> AbstractContextManager[Any]: ...

    @property
    def run(self) -> Callable[..., Status]: ...
