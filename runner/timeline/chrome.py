"""Trace events as a file for Perfetto (ui.perfetto.dev) and chrome://tracing.

The format is Chrome's Trace Event Format as JSON: times in microseconds, a process for the host with its threads, one
for each device with its streams, and an arrow from each call to the device work that it caused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runner.result.model import TraceEvent
from runner.timeline.trace import DEVICE_KINDS, Trace

_HOST = 0
"""Number of the host as a process; device ``n`` has ``n + 1``."""

Entry = dict[str, Any]


def write(trace: Trace, path: Path, title: str) -> None:
    """Raises ``OSError``."""
    entries = [*_names(trace), *_timed(trace.events)]
    with path.open("w", encoding="utf-8") as file:
        # One entry a line: a million of them need no second copy in memory, and stay readable.
        file.write(f'{{"displayTimeUnit": "ms", "otherData": {{"title": {json.dumps(title)}}}, "traceEvents": [\n')
        for number, entry in enumerate(entries):
            file.write((",\n" if number else "") + json.dumps(entry))
        file.write("\n]}\n")


def _place(event: TraceEvent) -> tuple[int, int]:
    """Process and thread of the file."""
    return (event.device + 1, event.stream) if event.kind in DEVICE_KINDS else (_HOST, event.thread)


def _names(trace: Trace) -> Iterator[Entry]:
    places = sorted({_place(event) for event in trace.events})
    for process in sorted({process for process, _ in places}):
        device = process - 1
        name = "Host" if process == _HOST else " ".join(filter(None, (f"Device {device}", trace.gpus.get(device, ""))))
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
    for process, number in places:
        name = trace.threads.get(number, f"Thread {number}") if process == _HOST else f"Stream {number}"
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": name}}


def _timed(events: Sequence[TraceEvent]) -> list[Entry]:
    """In order of their time; of two that begin together the longer, which encloses the other, first."""
    callers = {event.correlation: event for event in events if event.kind == "api" and event.correlation}
    entries: list[Entry] = []
    for event in sorted(events, key=lambda event: (event.start_us, -event.end_us)):
        process, number = _place(event)
        start = round(event.start_us, 3)
        entry: Entry = {
            "ph": "X", "name": event.name, "cat": event.kind, "pid": process, "tid": number, "ts": start,
            "dur": round(max(event.end_us - event.start_us, 0.0), 3),
        }  # fmt: skip
        if details := _details(event):
            entry["args"] = details
        entries.append(entry)
        # The first work of a graph stands for all of it.
        if process != _HOST and (caller := callers.pop(event.correlation, None)):
            arrow = {"name": "launch", "cat": "flow", "id": event.correlation}
            begin = {"pid": _HOST, "tid": caller.thread, "ts": round(caller.start_us, 3)}
            entries.append({"ph": "s", **arrow, **begin})
            entries.append({"ph": "f", "bp": "e", **arrow, "pid": process, "tid": number, "ts": start})
    return sorted(entries, key=lambda entry: entry["ts"])


def _details(event: TraceEvent) -> Entry:
    """What is known of it beyond name and time."""
    fields = ("grid", "block", "registers", "shared_bytes", "bytes", "memory", "correlation")
    return {name: value for name in fields if (value := getattr(event, name))}
