"""Events: marks that a stream's thread sets, with a time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from runner.backend.base import BackendError, Event
from runner.backend.host.tracing import Call

if TYPE_CHECKING:
    from runner.backend.host.device import HostDevice
    from runner.backend.host.graph import Capture


class Gate:
    """Holds a stream until the host opens it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.opened = False

    def open(self) -> None:
        if not self.opened:
            self.opened = True
            self._lock.release()

    def pass_through(self) -> None:
        """Waits until the gate is open."""
        self._lock.acquire()
        self._lock.release()


class Mark(Gate):
    """One recording of an event. ``behind`` is the closed gate it was queued behind, if any."""

    def __init__(self, behind: Gate | None) -> None:
        super().__init__()
        self.behind = behind
        self.time_ns = 0
        self.error: BackendError | None = None

    def set(self, error: BackendError | None) -> None:
        """Called in the stream's thread when everything before has run."""
        self.time_ns = time.perf_counter_ns()
        self.error = error
        self.open()

    def wait(self) -> None:
        """Waits for the mark. Raises ``BackendError`` when that would never end."""
        if self.behind is not None and not self.behind.opened:
            raise BackendError("this would wait for ever: the stream is held, release() it first")
        self.pass_through()


class HostEvent:
    """An event of one device; it stands for its latest recording."""

    def __init__(self, device: HostDevice) -> None:
        self.device = device
        self.mark: Mark | None = None
        self.capture: Capture | None = None
        """The capture in which it was recorded last; None when it was recorded in a stream that ran."""

    def synchronize(self) -> None:
        """Waits for the latest recording; an event never recorded counts as done. Raises what failed before it."""
        if self.mark is not None:
            with Call(self.device.backend, "hostEventSynchronize"):
                self.mark.wait()
            if self.mark.error is not None:
                raise self.mark.error

    def done(self) -> bool:
        return self.mark is None or self.mark.opened

    def elapsed_us(self, since: Event) -> float:
        """Microseconds from ``since`` to this event. Raises ``BackendError`` when either has no time yet."""
        if not isinstance(since, HostEvent) or since.device is not self.device:
            raise BackendError("elapsed time needs two events of the same device")
        return (self._time_ns() - since._time_ns()) / 1000

    def _time_ns(self) -> int:
        if self.mark is None:
            raise BackendError("elapsed time needs events that were recorded")
        if not self.mark.opened:
            raise BackendError("elapsed time needs completed events: synchronize first")
        if self.mark.error is not None:
            raise self.mark.error
        return self.mark.time_ns
