"""What a stream's queue holds. Each operation runs in the stream's thread, or as a node of a graph."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from runner.backend.base import BackendError, DeviceFault
from runner.backend.host.event import Gate, HostEvent, Mark
from runner.backend.host.library import ERROR_BYTES, HostFunction

if TYPE_CHECKING:
    from runner.backend.host.device import HostDevice
    from runner.backend.host.stream import HostStream

Words = Any
"""A ctypes array of three unsigned ints."""


class Operation(Protocol):
    """``run`` may raise ``BackendError``."""

    always: bool
    """Runs even after an earlier operation of the stream failed, so that nobody waits for ever."""
    work: bool
    """Counts as a node of a graph."""

    def run(self, stream: HostStream) -> None: ...


@dataclass(frozen=True)
class Launch:
    """A kernel, its configuration checked and its arguments packed."""

    function: HostFunction
    grid: Words
    block: Words
    shared_bytes: int
    arguments: bytes
    priority: int
    call: int = 0
    """Number of the call that enqueued it, for the trace."""
    always = False
    work = True

    def run(self, stream: HostStream) -> None:
        device = self.function.device
        native, pool = device.threads.of(self.function.abi)
        message = ctypes.create_string_buffer(ERROR_BYTES)
        with stream.traced("launch", self.function.name, self.call, grid=self.grid, block=self.block):
            failed = native.host_launch(
                pool,
                self.function.entry,
                self.grid,
                self.block,
                self.shared_bytes,
                self.arguments,
                self.priority,
                device.backend.seed,
                device.backend.count_barriers,
                message,
            )
        if failed:
            raise DeviceFault(f"kernel {self.function.name}, {message.value.decode(errors='replace')}")


@dataclass(frozen=True)
class Copy:
    """``nbytes`` from one address to another; ``keep`` holds the arrays alive that they belong to."""

    direction: str
    """``HtoD``, ``DtoH``, ``DtoD`` or ``PtoP``."""
    target: int
    source: int
    nbytes: int
    keep: object = None
    memory: str = ""
    """Kind of host memory: ``pinned`` or ``pageable``; empty = none."""
    call: int = 0
    """As ``Launch.call``."""
    always = False
    work = True

    def run(self, stream: HostStream) -> None:
        with stream.traced("copy", self.direction, self.call, self.nbytes, memory=self.memory):
            ctypes.memmove(self.target, self.source, self.nbytes)


@dataclass(frozen=True)
class Fill:
    """``nbytes`` of one value."""

    target: int
    byte: int
    nbytes: int
    call: int = 0
    """As ``Launch.call``."""
    always = False
    work = True

    def run(self, stream: HostStream) -> None:
        with stream.traced("fill", "memset", self.call, self.nbytes):
            ctypes.memset(self.target, self.byte, self.nbytes)


@dataclass(frozen=True)
class Set:
    """Sets a mark: an event, or the end of a synchronisation."""

    mark: Mark
    always = True
    work = False

    def run(self, stream: HostStream) -> None:
        self.mark.set(stream.error)


@dataclass(frozen=True)
class Await:
    """Waits for a gate or a mark, of whatever stream."""

    gate: Gate
    always = True
    work = False

    def run(self, stream: HostStream) -> None:
        self.gate.pass_through()


@dataclass(frozen=True)
class GiveBack:
    """Returns a buffer's memory to its device's pool, in stream order."""

    device: HostDevice
    address: int
    nbytes: int
    always = True
    work = False

    def run(self, stream: HostStream) -> None:
        self.device.heap.give_back(self.address, self.nbytes, pooled=True)


@dataclass(frozen=True)
class Recorded:
    """An event recorded during capture: each replay records it anew."""

    event: HostEvent
    always = True
    work = False

    def run(self, stream: HostStream) -> None:
        raise BackendError("a captured event runs only within a graph")


@dataclass(frozen=True)
class Replay:
    """A graph's operations, one after another."""

    operations: tuple[Operation, ...]
    call: int = 0
    """As ``Launch.call``; it stands for all of them."""
    always = True
    work = True

    def run(self, stream: HostStream) -> None:
        stream.replayed_by = self.call
        for operation in self.operations:
            stream.perform(operation)
        stream.replayed_by = 0
