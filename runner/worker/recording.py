"""Recording what happens in the worker: the backend's own trace of the host, and CUPTI's of a GPU."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from runner.backend.base import Backend
from runner.result.model import TraceEvent


class Source(Protocol):
    """Sees what the devices do."""

    def now_us(self) -> float:
        """Now, on the clock of its events."""
        ...

    def events(self) -> list[TraceEvent]:
        """Everything so far; the devices are idle."""
        ...


class Recorder:
    """Records single ranges from a source; without one the ranges stay empty."""

    def __init__(self, source: Source | None = None) -> None:
        self._source = source

    @contextlib.contextmanager
    def range(self, name: str) -> Iterator[list[TraceEvent]]:
        """Fills the list it gives when the block has ended, with the devices idle: what happened in the block, under
        the range ``name``; times from the start of the block, in microseconds."""
        events: list[TraceEvent] = []
        if self._source is None:
            yield events
            return
        begin = self._source.now_us()
        yield events
        end = self._source.now_us()
        events.append(TraceEvent("range", name, 0, 0, 0.0, end - begin, thread=threading.get_native_id()))
        events += [
            replace(event, start_us=event.start_us - begin, end_us=event.end_us - begin)
            for event in sorted(self._source.events(), key=lambda event: event.start_us)
            # A device's clock is a little off the host's, so its work may seem to overhang the block.
            if begin <= (event.start_us + event.end_us) / 2 <= end
        ]


class _Trace:
    """A backend's own trace, as its source of events."""

    def __init__(self, events: list[TraceEvent]) -> None:
        self._events = events

    def now_us(self) -> float:
        return time.perf_counter_ns() / 1e3

    def events(self) -> list[TraceEvent]:
        return list(self._events)


@contextlib.contextmanager
def traced(backend: Backend, wanted: bool = True) -> Iterator[Recorder]:
    """What the backend itself sees: light enough for a run that is timed. Nothing is recorded when not ``wanted``."""
    if not wanted:
        yield Recorder()
        return
    events: list[TraceEvent] = []
    backend.trace = events
    try:
        yield Recorder(_Trace(events))
    finally:
        backend.trace = None


@contextlib.contextmanager
def recorded(backend: Backend, wanted: bool = True) -> Iterator[Recorder]:
    """All that can be seen: CUPTI's records on a GPU, which slow its launches down. Enter it before graphs are made.

    Raises ``BackendError`` when CUPTI is missing or another tool holds it.
    """
    if not wanted or backend.name == "host":
        with traced(backend, wanted) as recorder:
            yield recorder
        return
    from runner.backend.cuda.cupti import activities

    with activities() as source:
        yield Recorder(source)
