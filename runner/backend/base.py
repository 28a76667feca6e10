"""What executes a kernel: one interface, two implementations (``cuda`` through PyCUDA, ``host`` on the CPU).

Everything asynchronous goes through a ``Stream``: work is enqueued in order and runs later. Nothing here
knows about experiments, statistics or files. Failures are raised as ``BackendError`` subclasses, never as a
library's own exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from runner.plan.model import BackendName
from runner.result.model import TraceEvent

Dim3 = tuple[int, int, int]


class BackendError(RuntimeError):
    """Something the device refused or broke; the message tells the user what to do."""


class OutOfMemory(BackendError):
    """An allocation did not fit; names the bytes asked for and those free."""


class LaunchError(BackendError):
    """A launch was refused before it ran: grid, block, shared memory or arguments are not possible."""


class DeviceFault(BackendError):
    """The device failed while running (illegal access, trap); the process must be replaced."""


class Unsupported(BackendError):
    """The device cannot do this at all (no peer access, no memory pool); a variant that needs it is SKIPPED."""


class Untrusted(BackendError):
    """The device says that it can do this, and does it wrong or never ends; a variant that needs it is INCORRECT."""


@dataclass(frozen=True)
class DeviceInfo:
    """What a device says about itself."""

    ordinal: int
    name: str
    uuid: str
    backend: BackendName
    arch: str
    """``sm_90a``, or the CPU's architecture name on host."""
    sms: int
    """Streaming multiprocessors; cores on host."""
    l2_bytes: int
    """L2 cache; the last-level cache on host."""
    memory_bytes: int
    copy_engines: int
    max_shared_bytes: int
    """Most dynamic shared memory one block may ask for."""
    driver: str = ""
    cuda: str = ""
    """CUDA version the driver supports, ``13.0``; empty on host."""


@runtime_checkable
class Buffer(Protocol):
    """Device memory. Freed explicitly; using it afterwards is an error."""

    nbytes: int
    device: Device

    def free(self) -> None: ...


Argument = Buffer | np.generic
"""A kernel argument: a buffer is passed as its address, a NumPy scalar (``np.int64(3)``) by value."""


class Function(Protocol):
    """A loaded kernel."""

    name: str
    """The entry point's."""


class Module(Protocol):
    """A loaded program."""

    program: Path
    """The file it was loaded from."""

    def function(self, name: str) -> Function:
        """Raises ``LaunchError`` naming the function and those that exist."""
        ...


class Event(Protocol):
    """A mark in a stream, with a time."""

    def synchronize(self) -> None:
        """Waits for the latest recording. Raises ``DeviceFault`` for what failed before it."""
        ...

    def done(self) -> bool:
        """True when the latest recording has happened; does not wait."""
        ...

    def elapsed_us(self, since: Event) -> float:
        """Microseconds between two recorded, completed events of the same device."""
        ...


class Graph(Protocol):
    """A captured sequence, ready to replay."""

    nodes: int
    """Launches, copies and the like in it."""

    def launch(self, stream: Stream) -> None:
        """Enqueues the whole sequence."""
        ...

    def free(self) -> None:
        """A second call does nothing."""
        ...


class Stream(Protocol):
    """An ordered queue of work on one device."""

    device: Device
    priority: int

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        arguments: Sequence[Argument],
        *,
        programmatic: bool = False,
    ) -> None:
        """Enqueues a kernel. Raises ``LaunchError`` when the configuration is impossible.

        A ``programmatic`` one waits by itself for what the kernel ahead of it writes, and lets the kernel behind it
        start only after that (``cuda_src/common/overlap.cuh``): in a graph it may start while the one ahead still runs,
        where the device can do so.
        """
        ...

    def write(self, target: Buffer, source: npt.NDArray[Any], offset: int = 0) -> None:
        """Host to device, asynchronous when ``source`` is page-locked. ``offset`` in bytes, into ``target``."""
        ...

    def read(self, target: npt.NDArray[Any], source: Buffer, offset: int = 0) -> None:
        """Device to host, asynchronous when ``target`` is page-locked. ``offset`` in bytes, into ``source``."""
        ...

    def copy(self, target: Buffer, source: Buffer, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> None:
        """Device to device; between two devices it is a peer copy. Offsets in bytes."""
        ...

    def fill(self, target: Buffer, byte: int) -> None:
        """Sets every byte."""
        ...

    def record(self, event: Event) -> None:
        """Enqueues the event's mark; a later recording replaces it."""
        ...

    def wait(self, event: Event) -> None:
        """Later work of this stream waits for ``event``, also one of another device."""
        ...

    def hold(self) -> None:
        """Later work waits until ``release`` is called from the host: it hides launch latency."""
        ...

    def let_go(self) -> None:
        """Lets the held work run as fast as that can be done, and nothing else: ``release`` has to follow."""
        ...

    def release(self) -> None:
        """Lets the held work run; does nothing when the stream is not held."""
        ...

    def allocate(self, nbytes: int) -> Buffer:
        """Stream-ordered allocation from the device's memory pool (``cudaMallocAsync``)."""
        ...

    def free(self, buffer: Buffer) -> None:
        """Stream-ordered release to the pool."""
        ...

    def begin_capture(self) -> None:
        """What is enqueued from now on is kept for a graph and does not run. Streams that wait for one of its events
        join the capture."""
        ...

    def end_capture(self) -> Graph:
        """Ends the capture and instantiates it. Raises ``BackendError`` for what cannot be captured."""
        ...

    def synchronize(self) -> None:
        """Waits for everything enqueued. Raises ``DeviceFault``, and ``BackendError`` while the stream is held."""
        ...

    def close(self) -> None:
        """Waits for the stream and gives it back."""
        ...


class Device(Protocol):
    """One GPU, or one virtual device of the host backend."""

    info: DeviceInfo

    def allocate(self, nbytes: int) -> Buffer:
        """Raises ``OutOfMemory``."""
        ...

    def free_bytes(self) -> int:
        """Memory that can be allocated now."""
        ...

    def stream(self, priority: int = 0) -> Stream:
        """``priority`` 0 is the lowest; larger runs first, clamped to what the device knows."""
        ...

    def event(self) -> Event: ...
    def load(self, program: Path) -> Module: ...
    def page_locked(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Host memory the device copies from and to without staging."""
        ...

    def can_access_peer(self, peer: Device) -> bool:
        """Whether ``enable_peer_access`` can work; a device can always access itself."""
        ...

    def enable_peer_access(self, peer: Device) -> None:
        """This device may address ``peer``'s memory. Idempotent. Raises ``Unsupported``."""
        ...

    def synchronize(self) -> None:
        """Waits for all streams. Raises as ``Stream.synchronize``."""
        ...

    def close(self) -> None:
        """Frees everything that is left."""
        ...


class Backend(Protocol):
    """The entry: opens devices, and marks the region a profiler should capture."""

    name: BackendName
    trace: list[TraceEvent] | None
    """Set to a list, and launches, copies, fills and the calls behind them are added to it (times from
    ``time.perf_counter``, in microseconds), as far as the backend itself sees them: the host's does, on a GPU that is a
    profiler's work."""

    def device_count(self) -> int: ...
    def open(self, ordinal: int) -> Device:
        """Raises ``BackendError`` naming how many devices there are."""
        ...

    def start_profiler(self) -> None: ...
    def stop_profiler(self) -> None: ...
