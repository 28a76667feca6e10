"""The workload of every plain kernel: it enqueues the launches its YAML declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.backend.base import Argument, Buffer, Dim3, Function, Stream
from runner.plan import model
from runner.workload.base import Context

_SCALARS: dict[str, Callable[[float | int], np.generic]] = {
    "int64": np.int64,
    "int32": np.int32,
    "uint64": np.uint64,
    "float32": np.float32,
}


@dataclass(frozen=True)
class BoundLaunch:
    """A launch with its function loaded and its arguments resolved: nothing is left to look up while timing."""

    stream: Stream
    function: Function
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Argument, ...]
    programmatic: bool = False
    """It waits by itself for what the kernel ahead of it writes: see ``Stream.launch``."""

    def enqueue(self) -> None:
        given = (self.function, self.grid, self.block, self.shared_bytes, self.arguments)
        self.stream.launch(*given, programmatic=self.programmatic)


def bind(context: Context, launches: Sequence[model.Launch]) -> tuple[BoundLaunch, ...]:
    """Resolves launches; one with an empty grid is left out, for there is nothing to run."""
    return tuple(
        BoundLaunch(
            stream=context.streams[launch.device],
            function=context.function(launch.function, launch.unit, launch.device),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arguments=tuple(argument(context, item) for item in launch.arguments),
        )
        for launch in launches
        if 0 not in launch.grid
    )


def prepared(context: Context) -> None:
    """Enqueues what the family declares under ``prepare``."""
    for launch in bind(context, context.plan.prepare):
        launch.enqueue()


def argument(context: Context, item: model.Argument) -> Argument:
    """A plan's argument as the backend takes it."""
    if item.kind == "buffer":
        return context.buffers[item.buffer]
    return _SCALARS[item.kind](item.value)


class DeclaredWorkload:
    """Runs ``plan.prepare`` once and a variant's launches at every step.

    Launches on other devices run beside the first device's: their streams start when the step starts there and
    the step ends there when they have ended, so that timing on the first device's stream covers all.
    """

    host_timed = False
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._context = context
        self._launches: dict[str, tuple[BoundLaunch, ...]] = {}
        self._others: dict[str, list[int]] = {}
        self._begin = context.devices[0].event()
        self._ends = [device.event() for device in context.devices]

    def prepare(self) -> None:
        prepared(self._context)

    def reset(self, variant: str) -> None:
        """Declared kernels keep no state between steps; only the launches are bound."""
        if variant not in self._launches:
            launches = self._context.plan.variant(variant).launches
            self._launches[variant] = bind(self._context, launches)
            self._others[variant] = sorted({launch.device for launch in launches} - {0})

    def step(self, variant: str) -> None:
        streams, others = self._context.streams, self._others[variant]
        if others:
            streams[0].record(self._begin)
        for device in others:
            streams[device].wait(self._begin)
        for launch in self._launches[variant]:
            launch.enqueue()
        for device in others:
            streams[device].record(self._ends[device])
            streams[0].wait(self._ends[device])

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        checks = self._context.plan.variant(variant).checks
        return {check.output: self._context.buffers[check.output] for check in checks}

    def metrics(self, variant: str) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        self._launches.clear()
