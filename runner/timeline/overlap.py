"""What ran beside what on a device, and what had to wait for it."""

from __future__ import annotations

import numpy as np

from runner.timeline.intervals import Floats, covered, times, union
from runner.timeline.section import Section


def metrics(section: Section) -> dict[str, float]:
    """Figures of the section's own work; a figure of copies is absent where there are none.

    * ``copy_overlap_share``: of the time in which a copy runs, the part in which a kernel or graph runs on the same
      device.
    * ``copy_time_share``: of the time in which anything runs, the part in which a copy does.
    * ``streams_used``: streams with work, over all devices.
    * ``multi_stream_share``: of the time in which anything runs, the part in which two streams or more are at work.
    * ``longest_kernel_share``: of the time in which anything runs, the part of the longest single kernel.
    * ``longest_kernel_us``: the longest single kernel.
    * ``longest_kernel_wait_us``: the longest that work waited for that kernel: submitted before it ended, begun after
      it on the same device, whatever the stream; absent where no call is known.
    """
    busy = copying = beside = several = 0.0
    streams: set[tuple[int, int]] = set()
    for device in section.devices:
        work = [event for event in section.work if event.device == device]
        any_work = union(*times(work))
        busy += float(np.sum(any_work[1] - any_work[0]))
        copies = union(*times([event for event in work if event.kind == "copy"]))
        kernels = union(*times([event for event in work if event.kind in ("launch", "graph")]))
        copying += float(np.sum(copies[1] - copies[0]))
        beside += covered(*copies, list(zip(kernels[0].tolist(), kernels[1].tolist(), strict=True)))
        numbers = {event.stream for event in work}
        streams.update((device, number) for number in numbers)
        several += _several([union(*times([event for event in work if event.stream == n])) for n in numbers])
    figures = {"streams_used": float(len(streams))}
    if busy:
        figures["multi_stream_share"] = several / busy
        figures["copy_time_share"] = copying / busy
        figures.update(_longest(section, busy))
    if copying:
        figures["copy_overlap_share"] = beside / copying
    return figures


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
