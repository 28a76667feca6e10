"""What ran beside what on a device, and what had to wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runner.result.model import TraceEvent
from runner.timeline.intervals import Floats, covered, times, union
from runner.timeline.section import Section

PEER = "PtoP"
"""A copy between devices."""


def metrics(section: Section) -> dict[str, float]:
    """Figures of the section's own work; a figure of copies is absent where there are none.

    * ``copy_overlap_share``: of the time in which a copy runs, the part in which a kernel or graph runs on the same
      device; beside a copy between devices, which is listed with its source, on any of them.
    * ``copy_time_share``: of the time in which anything runs, the part in which a copy does.
    * ``streams_used``: streams with work, over all devices.
    * ``multi_stream_share``: of the time in which anything runs, the part in which two streams or more are at work.
    * ``longest_kernel_share``: of the time in which anything runs, the part of the longest single kernel.
    * ``longest_kernel_us``: the longest single kernel.
    * ``longest_kernel_wait_us``: the longest that work waited for that kernel: submitted before it ended, begun after
      it on the same device, whatever the stream; absent where no call is known.
    """
    busy = copying = copied = beside = several = 0.0
    everywhere = _pairs(union(*times(_kernels(section.work))))
    streams: set[tuple[int, int]] = set()
    for device in section.devices:
        work = [event for event in section.work if event.device == device]
        any_work = union(*times(work))
        busy += _length(any_work)
        copies = [event for event in work if event.kind == "copy"]
        copying += _length(union(*times(copies)))
        between = union(*times([event for event in copies if event.name == PEER]))
        within = union(*times([event for event in copies if event.name != PEER]))
        copied += _length(between) + _length(within)
        beside += covered(*between, everywhere) + covered(*within, _pairs(union(*times(_kernels(work)))))
        numbers = {event.stream for event in work}
        streams.update((device, number) for number in numbers)
        several += _several([union(*times([event for event in work if event.stream == n])) for n in numbers])
    figures = {"streams_used": float(len(streams))}
    if busy:
        figures["multi_stream_share"] = several / busy
        figures["copy_time_share"] = copying / busy
        figures.update(_longest(section, busy))
    if copied:
        figures["copy_overlap_share"] = beside / copied
    return figures


def _kernels(work: Sequence[TraceEvent]) -> list[TraceEvent]:
    return [event for event in work if event.kind in ("launch", "graph")]


def _length(intervals: tuple[Floats, Floats]) -> float:
    return float(np.sum(intervals[1] - intervals[0]))


def _pairs(intervals: tuple[Floats, Floats]) -> list[tuple[float, float]]:
    return list(zip(intervals[0].tolist(), intervals[1].tolist(), strict=True))


def _several(streams: list[tuple[Floats, Floats]]) -> float:
    """Time in which two or more of the streams are at work."""
    edges = np.concatenate([edge for opens, closes in streams for edge in (opens, closes)])
    steps = np.concatenate([step for opens, _ in streams for step in (np.ones(len(opens)), -np.ones(len(opens)))])
    order = np.argsort(edges, kind="stable")
    depth = np.cumsum(steps[order])
    return float(np.sum(np.diff(edges[order])[depth[:-1] >= 2]))


def _longest(section: Section, busy: float) -> dict[str, float]:
    """The longest kernel, and who waited for it."""
    kernels = [event for event in section.work if event.kind == "launch"]
    if not kernels:
        return {}
    longest = max(kernels, key=lambda event: event.end_us - event.start_us)
    took = longest.end_us - longest.start_us
    figures = {"longest_kernel_us": took, "longest_kernel_share": took / busy}
    causes = section.trace.causes
    if longest.correlation in causes:
        waits = [
            longest.end_us - max(causes[event.correlation].end_us, longest.start_us)
            for event in section.work
            if event.device == longest.device and event.start_us >= longest.end_us and event.correlation in causes
        ]
        figures["longest_kernel_wait_us"] = max(0.0, max(waits, default=0.0))
    return figures
