"""Reasons for a report that is missing: the surest sign wins, and each names a remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Window
from runner.profile.nsys_missing import FULL, disk_full, why_missing
from runner.profile.nsys_session import SessionWindow

Captures = Callable[..., list[Capture]]
API = ("nsys", "profile", "--capture-range=cudaProfilerApi")


@pytest.fixture
def why(captures: Captures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The reason for a launch with this command that ended so."""
    monkeypatch.setattr("runner.profile.nvtx.version", lambda: "0.2.11")

    def reason(
        ended: Ended, command: tuple[str, ...] = API, window: Window | None = None, program: bool = False
    ) -> str:
        (capture,) = captures("a", holds="anything" if program else "kernels")
        launch = Launch((capture,), tmp_path, command, backend="cuda", window=window or Window())
        return why_missing(launch, ended, ProfileSettings(timeout_s=7), "2023.4.4")

    return reason


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(0), "nsys never saw cuProfilerStart; profile again"),
        (Ended(None, timed_out=True), "did not end within profiler.timeout_s=7"),
        (Ended(None), "was killed (it said nothing)"),
        (Ended(-9), "nsys was killed by SIGKILL"),
        (Ended(139, output="FATAL ERROR: x\nGenerating y"), "nsys was killed by SIGSEGV (FATAL ERROR: x)"),
        (Ended(-200), "nsys was killed by signal 200"),
        (
            Ended(1, output="Illegal --trace argument 'x'.\n\nusage: nsys profile\n"),
            "code 1 (Illegal --trace argument 'x'.)",
        ),
        (
            Ended(
                1,
                problem="the worker exited with code 1",
                output="unrecognised option '--y'\nTry 'nsys profile --help'",
            ),
            "failed while being profiled: the worker exited with code 1 (unrecognised option '--y')",
        ),
        (Ended(0, problem="out of memory"), "the worker failed while being profiled: out of memory"),
        (Ended(1, problem="x", output="write: No space left on device"), "is full; free space"),
    ],
)
def test_the_reason_names_what_happened(ended: Ended, said: str, why: Callable[..., str]) -> None:
    assert said in why(ended)


def test_a_disk_with_no_room_explains_a_tool_that_hangs(
    why: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=FULL - 1))
    assert why(Ended(None, timed_out=True)) == (
        f"the disk that holds {tmp_path.parent} is full; free space, or set TMPDIR to another disk"
    )
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=FULL))
    assert disk_full(tmp_path, "") == ""


def test_a_whole_program_waits_for_no_range(why: Callable[..., str]) -> None:
    assert why(Ended(0), ("nsys", "profile"), program=True) == (
        "nsys ended well and wrote none (it said nothing); profile again"
    )
    assert "the program failed while being profiled: no load" in why(Ended(0, problem="no load"), program=True)


def test_a_window_that_failed_is_told_before_what_came_of_it(why: Callable[..., str], tmp_path: Path) -> None:
    window = SessionWindow(Path("nsys"), "s", tmp_path, 1)
    window.begin("a")
    said = why(Ended(0, problem="the load failed"), ("nsys", "profile"), window, program=True)
    assert said == "nsys start found no nsys to talk to: it ended before; profile again"
