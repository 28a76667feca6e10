"""The NVTX ranges of a trace as a table: how often each was entered and how long it took."""

from __future__ import annotations

import csv
from pathlib import Path

from runner.timeline.trace import Trace

_COLUMNS = ("range", "calls", "total_us", "mean_us", "min_us", "max_us")


def write_ranges(trace: Trace, folder: Path, name: str) -> list[str]:
    """Writes ``<name>_ranges.csv``, the largest total first; returns its name, nothing for a trace without ranges.

    These are times of a profiled process. Raises ``OSError``.
    """
    times: dict[str, list[float]] = {}
    for event in trace.ranges:
        times.setdefault(event.name, []).append(event.end_us - event.start_us)
    if not times:
        return []
    path = folder / f"{name}_ranges.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for text, spans in sorted(times.items(), key=lambda item: -sum(item[1])):
            total = sum(spans)
            figures = (total, total / len(spans), min(spans), max(spans))
            writer.writerow([text, len(spans), *(f"{value:.3f}" for value in figures)])
    return [path.name]
