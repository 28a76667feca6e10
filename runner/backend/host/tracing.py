"""The host backend's trace: what its streams did, and the calls that caused it."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from runner.result.model import TraceEvent

if TYPE_CHECKING:
    from runner.backend.host.backend import HostBackend

_numbers = itertools.count(1)


class Call:
    """A call of the caller's thread, added to the backend's trace if there is one. A plain class, since every launch
    of a timed run passes through it."""

    __slots__ = ("_backend", "_events", "_name", "_number", "_start_ns")

    def __init__(self, backend: HostBackend, name: str) -> None:
        self._backend = backend
        self._name = name

    def __enter__(self) -> int:
        """The number that the call shares with the work it causes; 0 when nothing is traced."""
        self._events = self._backend.trace
        self._number = 0 if self._events is None else next(_numbers)
        self._start_ns = time.perf_counter_ns()
        return self._number

    def __exit__(self, *raised: object) -> None:
        if self._events is not None:
            start, end = self._start_ns / 1e3, time.perf_counter_ns() / 1e3
            thread = threading.get_native_id()
            self._events.append(
                TraceEvent("api", self._name, 0, 0, start, end, thread=thread, correlation=self._number)
            )
