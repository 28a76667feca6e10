"""Recording what a hot region does, within the worker: the host backend's own launches, and CUPTI on a GPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from runner.backend.base import Backend
from runner.result.model import TraceEvent


@contextlib.contextmanager
def record(backend: Backend, name: str, wanted: bool = True) -> Iterator[list[TraceEvent]]:
    """Fills the list it gives when the block ends: what the devices did, under the range ``name``; times from the
    start of the block, in microseconds. Not ``wanted``: the list stays empty."""
    events: list[TraceEvent] = []
    if not wanted:
        yield events
        return
    seen: list[TraceEvent] = []
    begin = time.perf_counter()
    backend.trace = seen
    try:
        yield events
    finally:
        backend.trace = None
        end_us = (time.perf_counter() - begin) * 1e6
        origin = begin * 1e6
        events.append(TraceEvent("range", name, 0, 0, 0.0, end_us))
        events += [replace(e, start_us=e.start_us - origin, end_us=e.end_us - origin) for e in seen]
