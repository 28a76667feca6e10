"""What a launcher tells the submitting side, whatever runs its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runner.config.points import Point
from runner.execute.on_node import Answer


@dataclass(frozen=True)
class Ended:
    """A job that runs no more."""

    point: Point
    answer: Answer | None
    """None: it was lost, and left what it had finished until then."""
    lost: str = ""
    """What became of it, in words."""
    job: dict[str, str] = field(default_factory=dict)
    """Launcher, id, node and log, as far as they are known."""


class Cluster(Protocol):
    """Runs points as jobs."""

    @property
    def title(self) -> str:
        """``Slurm``."""
        ...

    def submit(self, points: Sequence[Point], folder: Path) -> str:
        """Submits a job for each point; what to say of it. ``folder`` is the sweep's. Raises ``ConfigError`` where one
        is refused, and then none runs."""
        ...

    def ended(self) -> list[Ended]:
        """Those that have ended since the last call, which waits a moment where none has."""
        ...

    def state(self) -> str:
        """``3 run, 20 wait (Resources)``."""
        ...

    def cancel(self) -> None:
        """Ends what still runs or waits."""
        ...

    def close(self) -> None:
        """Frees what submitting took; nothing runs any more."""
        ...
