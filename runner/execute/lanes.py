"""Who runs the experiments of a command: one lane, or several that hold devices of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from runner.config.schema import Config
from runner.execute.ceilings import DeviceCeilings
from runner.execute.planning import Experiment
from runner.worker.client import WorkerPool

Stop = Callable[[], bool]
"""Whether the command is being ended."""


class Lane:
    """A worker that lives from one experiment to the next, and what is known of its device."""

    def __init__(self, stopped: Stop = lambda: False) -> None:
        self.pool = WorkerPool()
        self.ceilings = DeviceCeilings(self.pool)
        self.stopped = stopped


Work = Callable[[Experiment, Lane], None]
"""Runs one experiment in a lane."""
Done = Callable[[Experiment, bool], None]
"""Called for each in the command's own thread; the flag says that it went to its end."""


class Lanes(Protocol):
    """How a command walks its experiments."""

    @property
    def files_between(self) -> bool:
        """Whether there are moments in which nothing is timed, and results can be filed."""
        ...

    @property
    def pool(self) -> WorkerPool:
        """Asks devices what they are, when the experiments are planned."""
        ...

    def settle(self, config: Config) -> Config:
        """The config with devices on which the experiment can be planned. Raises ``PlanError`` where there are too
        few."""
        ...

    def prepare(self, experiments: Sequence[Experiment]) -> None:
        """Looks at the devices, once all is planned. Raises ``PlanError`` where they cannot stand for each other."""
        ...

    def run(self, experiments: Sequence[Experiment], work: Work, done: Done) -> None:
        """Raises what ``work`` raises, once nothing runs any more."""
        ...

    def discard(self) -> None:
        """Ends every worker at once."""
        ...

    def close(self) -> None:
        """Lets every worker end."""
        ...


class InTurn:
    """One experiment after another, on the devices that each names."""

    files_between = True

    def __init__(self) -> None:
        self.lane = Lane()

    @property
    def pool(self) -> WorkerPool:
        return self.lane.pool

    def settle(self, config: Config) -> Config:
        return config

    def prepare(self, experiments: Sequence[Experiment]) -> None:
        pass

    def run(self, experiments: Sequence[Experiment], work: Work, done: Done) -> None:
        for experiment in experiments:
            ended = False
            try:
                work(experiment, self.lane)
                ended = True
            finally:
                done(experiment, ended)

    def discard(self) -> None:
        self.lane.pool.discard()

    def close(self) -> None:
        self.lane.pool.close()
