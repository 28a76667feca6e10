"""What one family does on the device. The timing loop is not here: it belongs to ``runner.measure``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from runner.backend.base import Buffer, Device, Function, Module, Stream
from runner.plan.model import Plan


@dataclass
class Ranges:
    """Names of the parts of a step for a profiler's timeline; nothing happens until they are ``shown``."""

    push: Callable[[str], None]
    pop: Callable[[], None]
    shown: bool = False

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if not self.shown:
            yield
            return
        self.push(name)
        try:
            yield
        finally:
            self.pop()


def _unseen() -> Ranges:
    return Ranges(lambda name: None, lambda: None)


@dataclass(frozen=True)
class Context:
    """What a workload gets: the plan, open devices, filled buffers and loaded kernels."""

    plan: Plan
    devices: Sequence[Device]
    streams: Sequence[Stream]
    """One per device; the measured stream is ``streams[0]``."""
    buffers: Mapping[str, Buffer]
    """By name, filled; buffers without a fill hold anything."""
    modules: Sequence[Mapping[str, Module]]
    """Per device, by unit: ``modules[0]["main"]``."""
    ranges: Ranges = field(default_factory=_unseen)
    """Round parts of a step, where a profiler looks: ``with context.ranges("prefill"):``."""
    companion: Context | None = None
    """Of ``plan.companion``, on the same devices and streams."""

    def function(self, name: str, unit: str = "main", device: int = 0) -> Function:
        """An entry point loaded on the device at that position. Raises ``LaunchError`` naming those that exist."""
        return self.modules[device][unit].function(name)


class Workload(Protocol):
    """Constructed once per experiment as ``Workload(context, **options)``."""

    host_timed: bool
    """True when ``step`` itself waits for the device: it is timed by the host's clock, device included,
    and never under ``Stream.hold``."""

    units_per_step: int
    """What a step is worth in the family's unit (tokens, say); metrics divide by it. 1 for a plain kernel."""

    def prepare(self) -> None:
        """Everything untimed that is needed once: quantise, build tables, allocate, capture."""
        ...

    def reset(self, variant: str) -> None:
        """Puts evolving state back to its start, so that a checked step gives the same outputs each time."""
        ...

    def step(self, variant: str) -> None:
        """Enqueues one unit of work on ``context.streams``; runs many times."""
        ...

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """Buffers the checks read, by the name a check's ``output`` gives."""
        ...

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Figures only the workload knows (capture time, bytes reserved), asked for after the measurement."""
        ...

    def close(self) -> None:
        """Gives back what the workload itself allocated; the plan's buffers and streams are the worker's."""
        ...


@runtime_checkable
class Recording(Protocol):
    """A workload that has more to tell than figures."""

    def record(self, variant: str, folder: Path) -> None:
        """Writes what there is of the last timed step into ``folder``, which need not exist; asked for after
        ``metrics``. Raises ``DocumentError``."""
        ...
