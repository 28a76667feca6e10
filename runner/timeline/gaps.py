"""When a device had nothing to do within a range, and what the host did meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from runner.result.model import GapCause, GapUse, TraceEvent
from runner.timeline.calls import kind_of
from runner.timeline.intervals import Spans, length
from runner.timeline.section import Section
from runner.timeline.trace import Trace

RESUME_US = 100.0
"""Own code of the program for this long after a synchronisation belongs to it: the host has to come back and enqueue
again, while without it the host would have been ahead. What goes beyond is work of the host in its own right."""


class Gap(NamedTuple):
    """A time without work on any stream of a device."""

    start_us: float
    end_us: float
    before: TraceEvent | None
    """The work whose end opened it; None at the start of a window."""
    after: TraceEvent | None
    """The work that ended it; None at the end of a window."""


def gaps(section: Section) -> list[GapUse]:
    """One row per device that worked for the range.

    The device is idle where no kernel, graph, copy or fill runs on any of its streams, whoever launched it, within
    ``Section.windows``: so busy and idle time add up to ``span_us``. Each gap is of one cause, see ``cause``; without
    a record of the host's calls there are no causes.
    """
    rows = []
    for device in section.devices:
        windows = section.windows(device)
        found = find(section.trace, device, windows)
        took = np.array([gap.end_us - gap.start_us for gap in found])
        rows.append(
            GapUse(
                range=section.name,
                device=device,
                count=len(found),
                total_us=float(took.sum()),
                span_us=length(windows),
                median_us=float(np.median(took)) if found else 0.0,
                p95_us=float(np.percentile(took, 95)) if found else 0.0,
                max_us=float(took.max()) if found else 0.0,
                causes=_causes(section.trace, found),
            )
        )
    return rows


def find(trace: Trace, device: int, windows: Spans) -> list[Gap]:
    """The gaps of a device within the windows, in order."""
    opens, closes, first, last = trace.busy(device)
    found = []
    for window_start, window_end in windows:
        low = int(np.searchsorted(closes, window_start, side="right"))
        high = int(np.searchsorted(opens, window_end, side="left"))
        at, before = window_start, None
        for opened, closed, begins, ends in zip(
            opens[low:high].tolist(), closes[low:high].tolist(), first[low:high], last[low:high], strict=True
        ):
            if opened > at:
                found.append(Gap(at, opened, before, begins))
            at, before = closed, ends
        if at < window_end:
            found.append(Gap(at, window_end, before, None))
    return found


def _causes(trace: Trace, found: list[Gap]) -> list[GapCause]:
    if not trace.causes:
        return []
    host = _Host(trace)
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for gap in found:
        groups[host.cause(gap)].append(gap.end_us - gap.start_us)
    causes = [GapCause(*key, count=len(took), total_us=sum(took)) for key, took in groups.items()]
    return sorted(causes, key=lambda cause: -cause.total_us)


class _Host:
    """The host's threads, as far as they say why a device waits."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ends = {thread: [call.end_us for call in calls] for thread, calls in trace.outer_calls.items()}
        copies = {event.correlation: event for event in trace.work if event.kind == "copy" and event.correlation}
        self._copies = {id(trace.causes[key]): copy for key, copy in copies.items() if key in trace.causes}

    def cause(self, gap: Gap) -> tuple[str, str, str]:
        """Kind, call and thread, as in ``GapCause``.

        Where the next work had been submitted before the gap began, the host was in time: ``device``. Otherwise the
        gap belongs to what took most of it on the thread that submitted the next work: its outermost calls by their
        kind, or the program's own code between them. The call that submits counts until the work starts. After a call
        that left the device without work (a synchronisation, or a copy that the host waits for), submitting anew and
        up to ``RESUME_US`` of own code are the cost of that call. At the end of a window the thread is that of the
        work before.
        """
        submit = self._call(gap.after)
        if submit and gap.after and (
            submit.end_us <= gap.start_us or (gap.before and gap.before.correlation == gap.after.correlation)
        ):  # fmt: skip
            return "device", "", ""
        known = submit or self._call(gap.before)
        if known is None:
            return "host", "", ""
        weights, names = self._weigh(gap, known.thread, submit)
        kind = max(weights, key=lambda kind: weights[kind])
        call = max(names[kind], key=lambda name: names[kind][name]) if names[kind] else ""
        return kind, call, self._trace.thread_name(known.thread)

    def _weigh(
        self, gap: Gap, thread: int, submit: TraceEvent | None
    ) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """Time of the gap by kind, and within each kind by call."""
        weights: dict[str, float] = defaultdict(float)
        names: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        at, drained, resume = gap.start_us, "", 0.0

        def own(until: float) -> None:
            nonlocal resume
            idle = max(until - at, 0.0)
            if drained:
                back = min(idle, resume)
                weights[drained] += back
                resume -= back
                idle -= back
            weights["host"] += idle

        for call in self._overlapping(gap, thread):
            end = gap.end_us if call is submit else min(call.end_us, gap.end_us)
            own(call.start_us)
            kind = kind_of(call, self._copies.get(id(call)))
            time = end - max(call.start_us, gap.start_us)
            if kind == "launch" and drained:
                weights[drained] += time
            else:
                weights[kind] += time
                names[kind][call.name] += time
            if kind in ("sync", "copy") and call is not submit:
                drained, resume = kind, RESUME_US
            at = max(at, end)
            if call is submit:
                break
        own(gap.end_us)
        return weights, names

    def _overlapping(self, gap: Gap, thread: int) -> Iterator[TraceEvent]:
        calls = self._trace.outer_calls.get(thread, [])
        for index in range(bisect_right(self._ends.get(thread, []), gap.start_us), len(calls)):
            if calls[index].start_us >= gap.end_us:
                return
            yield calls[index]

    def _call(self, work: TraceEvent | None) -> TraceEvent | None:
        return self._trace.causes.get(work.correlation) if work else None
