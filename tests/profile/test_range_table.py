from __future__ import annotations

import csv
from pathlib import Path

from runner.profile.range_table import write_ranges
from runner.result.model import TraceEvent
from runner.timeline.trace import Trace


def test_every_range_is_one_row_the_largest_total_first(tmp_path: Path) -> None:
    events = [
        TraceEvent("range", "a, b", 0, 0, 0.0, 1.0),
        TraceEvent("range", "a, b", 0, 0, 2.0, 5.0),
        TraceEvent("range", "c", 0, 0, 0.0, 10.0),
        TraceEvent("os", "poll", 0, 0, 0.0, 10.0),
    ]
    assert write_ranges(Trace(events), tmp_path, "demo") == ["demo_ranges.csv"]
    with (tmp_path / "demo_ranges.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1:] == [
        ["c", "1", "10.000", "10.000", "10.000", "10.000"],
        ["a, b", "2", "4.000", "2.000", "1.000", "3.000"],
    ]


def test_a_trace_without_ranges_leaves_no_file(tmp_path: Path) -> None:
    assert write_ranges(Trace(), tmp_path, "demo") == []
    assert list(tmp_path.iterdir()) == []
