"""The part of a trace that belongs to one NVTX range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np

from runner.result.model import TraceEvent
from runner.timeline.intervals import Spans, merge, times, within
from runner.timeline.trace import Trace


@dataclass
class Section:
    """Work and calls of all occurrences of one range, or of the whole trace.

    Device work belongs to the range in which the host called for it, on whatever thread; work whose call is unknown
    belongs where it started.
    """

    trace: Trace
    name: str
    """Of the range; empty for the whole trace."""
    spans: Spans
    """When the range was open on the host."""
    work: list[TraceEvent]
    """In order of their start."""
    calls: list[TraceEvent]
    """CUDA and system calls that began within it, in order of their start."""

    @cached_property
    def devices(self) -> list[int]:
        """Ordinals of the devices that worked for it."""
        return sorted({event.device for event in self.work})

    @cached_property
    def threads(self) -> list[int]:
        """Threads that called for its device work."""
        causes = self.trace.causes
        return sorted({causes[event.correlation].thread for event in self.work if event.correlation in causes})

    def windows(self, device: int) -> Spans:
        """Each occurrence from its start on the host to its end there, or to the end of the last work that it gave
        this device, whichever is later. For the whole trace one window, from the first call that caused work to the
        end of the last work: a program's start-up is no waiting."""
        work = [event for event in self.work if event.device == device]
        asked = [self.trace.asked_us(event) for event in work]
        if not self.name:
            return [(min(asked), max(event.end_us for event in work))]
        ends = [end for _, end in self.spans]
        index = np.searchsorted([start for start, _ in self.spans], asked, side="right") - 1
        for place, event in zip(index.tolist(), work, strict=True):
            ends[place] = max(ends[place], event.end_us)
        return merge((start, end) for (start, _), end in zip(self.spans, ends, strict=True))


def section(trace: Trace, name: str = "") -> Section:
    """All occurrences of the range ``name``; the whole trace when it is empty or no range has that name."""
    spans = merge((event.start_us, event.end_us) for event in trace.ranges if event.name == name)
    if not spans:
        return Section(trace, "", [(-math.inf, math.inf)], trace.work, trace.calls)
    asked = np.array([trace.asked_us(event) for event in trace.work])
    return Section(
        trace,
        name,
        spans,
        _chosen(trace.work, within(asked, spans)),
        _chosen(trace.calls, within(times(trace.calls)[0], spans)),
    )


def _chosen(events: Sequence[TraceEvent], inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[TraceEvent]:
    return list(compress(events, inside.tolist()))
