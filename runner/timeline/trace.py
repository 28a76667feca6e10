"""A whole trace, whoever recorded it, and the order in it that every question needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from runner.result.model import TraceEvent
from runner.timeline.intervals import Floats, times, union

DEVICE_KINDS = frozenset({"launch", "graph", "copy", "fill"})
"""``TraceEvent.kind`` of what happens on a device."""


class Busy(NamedTuple):
    """When a device worked on any of its streams: disjoint times in order."""

    opens: Floats
    closes: Floats
    first: list[TraceEvent]
    """Work that began each of them."""
    last: list[TraceEvent]
    """Work that ended each of them."""


@dataclass
class Trace:
    """Everything that one report or recording holds."""

    events: list[TraceEvent] = field(default_factory=list)
    """In no particular order; ``correlation`` and ``thread`` are unique over all processes."""
    threads: dict[int, str] = field(default_factory=dict)
    """Names of the threads, where they have one."""
    gpus: dict[int, str] = field(default_factory=dict)
    """Names of the devices by ordinal."""
    signatures: dict[str, str] = field(default_factory=dict)
    """Name of a kernel → its declaration with template arguments, where that says more."""

    _busy: dict[int, Busy] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def work(self) -> list[TraceEvent]:
        """Kernels, graphs, copies and fills in order of their start."""
        return self._sorted(DEVICE_KINDS)

    @cached_property
    def calls(self) -> list[TraceEvent]:
        """CUDA and system calls in order of their start, those within another call after it."""
        return self._sorted({"api", "os"})

    @cached_property
    def ranges(self) -> list[TraceEvent]:
        """NVTX ranges in order of their start, the outer one first."""
        return self._sorted({"range"})

    @cached_property
    def outer_calls(self) -> dict[int, list[TraceEvent]]:
        """Thread → its calls that lie in no other call of that thread; they do not overlap."""
        threads: dict[int, list[TraceEvent]] = {}
        for call in self.calls:
            outer = threads.setdefault(call.thread, [])
            if not outer or call.start_us >= outer[-1].end_us:
                outer.append(call)
        return threads

    @cached_property
    def causes(self) -> dict[int, TraceEvent]:
        """Correlation → the outermost call that caused the device work with this number."""
        starts = {thread: [call.start_us for call in calls] for thread, calls in self.outer_calls.items()}
        causes: dict[int, TraceEvent] = {}
        for call in self.calls:
            if call.kind != "api" or not call.correlation:
                continue
            index = bisect_right(starts[call.thread], call.start_us) - 1
            outer = self.outer_calls[call.thread][index]
            causes.setdefault(call.correlation, outer if outer.kind == "api" else call)
        return causes

    def asked_us(self, work: TraceEvent) -> float:
        """When the host called for this device work; its own start where the call is unknown."""
        call = self.causes.get(work.correlation)
        return call.start_us if call else work.start_us

    def busy(self, device: int) -> Busy:
        if device not in self._busy:
            work = [event for event in self.work if event.device == device]
            start, end = times(work)
            opens, closes = union(start, end)
            first = np.searchsorted(start, opens, side="left").tolist()
            # The running maximum reaches a closing time with the work that closes it.
            last = np.searchsorted(np.maximum.accumulate(end), closes, side="left").tolist() if work else []
            self._busy[device] = Busy(opens, closes, [work[i] for i in first], [work[i] for i in last])
        return self._busy[device]

    def range_names(self) -> list[str]:
        """Names of the ranges in order of their first start, each once."""
        return list(dict.fromkeys(event.name for event in self.ranges))

    def count(self, *kinds: str) -> int:
        return sum(event.kind in kinds for event in self.events)

    def thread_name(self, thread: int) -> str:
        return self.threads.get(thread) or str(thread)

    def _sorted(self, kinds: Iterable[str]) -> list[TraceEvent]:
        chosen = [event for event in self.events if event.kind in kinds]
        # Two stable sorts are several times faster than one with a tuple as key.
        chosen.sort(key=attrgetter("end_us"), reverse=True)
        chosen.sort(key=attrgetter("start_us"))
        return chosen
