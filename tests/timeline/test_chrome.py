"""The file that Perfetto reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.timeline.chrome import write
from runner.timeline.trace import Trace
from tests.timeline.made import REPORTS, call, kernel, report, span


def written(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return entries


@pytest.mark.parametrize("name", REPORTS)
def test_every_event_is_in_the_file_in_order_and_in_microseconds(name: str, tmp_path: Path) -> None:
    trace = report(name)
    write(trace, tmp_path / "trace.json", name)
    entries = written(tmp_path / "trace.json")
    complete = [entry for entry in entries if entry["ph"] == "X"]
    assert len(complete) == len(trace.events)
    times = [entry["ts"] for entry in entries if entry["ph"] != "M"]
    assert times == sorted(times)
    assert sum(entry["dur"] for entry in complete) == pytest.approx(sum(e.end_us - e.start_us for e in trace.events))
    begun, ended = ({entry["id"] for entry in entries if entry["ph"] == phase} for phase in "sf")
    assert begun == ended == {event.correlation for event in trace.work}


def test_places_have_names_and_calls_arrows(tmp_path: Path) -> None:
    launched = kernel(30, 40, 5, stream=13, device=1, name='k<"x">')
    launched.grid, launched.block = "2x1x1", "32x1x1"
    events = [
        launched,
        kernel(40, 50, 5, stream=13, device=1),
        call("cuGraphLaunch", 10, 20, 5, thread=23),
        span(0, 60),
    ]
    write(Trace(events, {23: "python3"}, {1: "H200"}), tmp_path / "trace.json", "a title")
    entries = written(tmp_path / "trace.json")
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in entries if e["ph"] == "M" and "name" in e["args"]}
    assert names == {
        (0, None): "Host",
        (2, None): "Device 1 H200",
        (0, 1): "Thread 1",
        (0, 23): "python3",
        (2, 13): "Stream 13",
    }
    shown = next(entry for entry in entries if entry["name"] == 'k<"x">')
    assert (shown["pid"], shown["tid"], shown["ts"], shown["dur"]) == (2, 13, 30, 10)
    assert shown["args"] == {"grid": "2x1x1", "block": "32x1x1", "correlation": 5}
    arrows = [(e["ph"], e["pid"], e["tid"], e["ts"]) for e in entries if e["ph"] in "sf"]
    assert arrows == [("s", 0, 23, 10), ("f", 2, 13, 30)]


def test_no_events_make_an_empty_file(tmp_path: Path) -> None:
    write(Trace(), tmp_path / "trace.json", "nothing")
    assert written(tmp_path / "trace.json") == []
