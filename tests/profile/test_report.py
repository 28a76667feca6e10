"""Reports that cannot be exported or read, and what a tool said last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.profile import report
from runner.profile.report import Report, ReportError
from runner.result.model import TraceEvent
from runner.timeline.trace import Trace


def test_ranges_are_named_once_in_order_of_their_start_without_the_captures_own() -> None:
    spans = {"runner_capture": (0, 9), "decode/demo/b": (1, 3), "decode/demo/a": (4, 6)}
    events = [TraceEvent("range", name, 0, 0, start, end) for name, (start, end) in reversed(spans.items())]
    events += [TraceEvent("range", "decode/demo/b", 0, 0, 7, 8), TraceEvent("os", "poll", 0, 0, 0, 1)]
    assert report.ranges(Trace(events)) == ["decode/demo/b", "decode/demo/a"]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", ""),
        (
            "unrecognised option '--x'\n\nusage: nsys profile [<args>]\nTry 'nsys profile --help'.\n",
            "unrecognised option '--x'",
        ),
        ("one\ntwo\n[1/1] [0%   ] a.nsys-rep\r[1/1] [=100%] a.nsys-rep\nthree\n", "two three"),
        ("the agent is gone\nPlease refer to the troubleshooting section:\nhttps://docs\n", "the agent is gone"),
        ("\x1b[31mFATAL ERROR: lost\x1b[0m\n", "FATAL ERROR: lost"),
        ("Importer error status: none found\nGenerated:\n  a.qdstrm\n", "Importer error status: none found"),
    ],
)
def test_last_words_leave_out_progress_and_hints(output: str, said: str) -> None:
    assert report.last_words(output) == said


def test_a_tool_that_hangs_is_given_up(pretend_nsys: Callable[[str], Path], tmp_path: Path) -> None:
    nsys = pretend_nsys("exec sleep 30")
    path = tmp_path / "r.nsys-rep"
    path.write_bytes(b"x")
    with pytest.raises(ReportError, match=r"nsys export did not end within 0\.2 s"):
        Report(nsys, path, 0.2).read()


def test_a_broken_export_is_an_error(pretend_nsys: Callable[[str], Path], tmp_path: Path) -> None:
    nsys = pretend_nsys("echo nonsense > r.nsys-rep.sqlite")
    path = tmp_path / "r.nsys-rep"
    path.write_bytes(b"x")
    with pytest.raises(ReportError, match="cannot be read"):
        Report(nsys, path, 5).read()
