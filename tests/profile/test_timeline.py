"""``profiler=timeline``: from the worker's recorded events to a trace and tables, and every way it can fail."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

import pytest

from runner.backend.cuda import cupti
from runner.profile import nvtx, timeline
from runner.profile.base import Capture, Ended, Holds, Launch, ProfileSettings, Subject
from runner.profile.timeline import TimelineProfiler
from runner.result.model import ProfileStatus, TraceEvent

Captures = Callable[..., list[Capture]]
GPU = Subject("worker", "cuda", ("GPU-a",))


def events(name: str, kernels: int = 2) -> list[TraceEvent]:
    """A range of 100 µs with launches of 10 µs every 20 µs."""
    found = [TraceEvent("range", name, 0, 0, 0.0, 100.0, thread=9)]
    for index in range(kernels):
        start = 10.0 + 20.0 * index
        found.append(TraceEvent("api", "cuLaunchKernel", 0, 0, start - 5, start - 3, thread=9, correlation=index + 1))
        found.append(TraceEvent("launch", "axpy", 0, 7, start, start + 10, correlation=index + 1, grid="8x1x1"))
    return found


def launched(captures: Sequence[Capture], subject: Subject = GPU, steps: int = 2) -> tuple[TimelineProfiler, Launch]:
    profiler = TimelineProfiler(ProfileSettings(steps=steps))
    (launch,) = profiler.launches(captures, subject)
    return profiler, launch


def record(launch: Launch, found: dict[str, list[TraceEvent]]) -> None:
    for variant, recorded in found.items():
        path = launch.scratch / f"{variant}.events.json"
        path.write_text(json.dumps([asdict(event) for event in recorded]))


def test_the_worker_is_asked_to_record_and_gets_no_tool(captures: Captures) -> None:
    both = captures("a", "b")
    _, launch = launched(both)
    assert launch.captures == tuple(both)
    assert (launch.record, launch.steps, launch.backend) == (True, 2, "cuda")
    assert (launch.command, launch.environment, launch.min_time_s) == ((), {}, 0.0)
    launch.scratch.rmdir()


def test_each_variant_gets_a_trace_and_tables(captures: Captures) -> None:
    a, b = captures("a", "b", holds="kernels")
    profiler, launch = launched([a, b])
    record(launch, {"a": events(a.range), "b": events(b.range, kernels=4)})
    first, second = profiler.collect(launch, Ended(0))
    assert (first.status, first.reason, first.ranges) == (ProfileStatus.OK, "", [a.range])
    assert [(use.name, use.calls, use.total_us) for use in second.kernels] == [("axpy", 4, 40.0)]
    assert (first.metrics["launches_per_step"], second.metrics["launches_per_step"]) == (1, 2)
    assert set(first.artifacts) == {path.name for path in a.folder.iterdir()}
    assert {"model_a.trace.json", "model_a_kernels.csv", "model_a_calls.csv"} <= set(first.artifacts)
    entries = json.loads((a.folder / "model_a.trace.json").read_text())["traceEvents"]
    assert {"axpy", "cuLaunchKernel", a.range} <= {entry["name"] for entry in entries}
    assert not launch.scratch.exists()


def test_a_large_trace_is_packed(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "PACK_FROM_BYTES", 100)
    (one,) = captures("a")
    profiler, launch = launched([one])
    record(launch, {"a": events(one.range)})
    (profile,) = profiler.collect(launch, Ended(0))
    assert "model_a.trace.json.gz" in profile.artifacts
    with gzip.open(one.folder / "model_a.trace.json.gz") as file:
        assert json.load(file)["traceEvents"]
    assert not (one.folder / "model_a.trace.json").exists()


@pytest.mark.parametrize("holds", ["kernels", "work"])
def test_a_recording_without_work_is_a_failure_and_its_trace_is_kept(captures: Captures, holds: Holds) -> None:
    (one,) = captures("a", holds=holds)
    profiler, launch = launched([one])
    record(launch, {"a": events(one.range, kernels=0)})
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert f"within the range {one.range}" in profile.reason
    assert (profile.metrics, profile.kernels, profile.artifacts) == ({}, [], ["model_a.trace.json"])


def test_copies_are_work_but_no_kernels(captures: Captures) -> None:
    for holds, status in (("work", ProfileStatus.OK), ("kernels", ProfileStatus.FAILED)):
        (one,) = captures("a", holds=holds)
        profiler, launch = launched([one])
        scope, *_ = events(one.range, kernels=0)
        record(launch, {"a": [scope, TraceEvent("copy", "HtoD", 0, 7, 10.0, 20.0, bytes=4096, memory="pinned")]})
        (profile,) = profiler.collect(launch, Ended(0))
        assert profile.status is status


def test_a_recording_of_something_else_is_a_failure(captures: Captures) -> None:
    (one,) = captures("a")
    profiler, launch = launched([one])
    record(launch, {"a": events("decode/demo/other")})
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert f"lacks the range {one.range}" in profile.reason


@pytest.mark.parametrize("text", ["", "[{]", '[{"kind": "launch"}]', "{}", "[3]"])
def test_a_damaged_recording_is_a_failure(captures: Captures, text: str) -> None:
    (one,) = captures("a")
    profiler, launch = launched([one])
    (launch.scratch / "a.events.json").write_text(text)
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert profile.reason


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (Ended(None, timed_out=True), "profiler.timeout_s=300"),
        (Ended(0, problem="CUPTI cannot start: busy"), "CUPTI cannot start: busy"),
        (Ended(-11, output="one\ntwo\n\n"), "ended with code -11 (two)"),
        (Ended(1), "ended with code 1 (it said nothing)"),
    ],
)
def test_a_worker_that_fails_says_why_for_those_it_did_not_record(
    captures: Captures, ended: Ended, reason: str
) -> None:
    a, b = captures("a", "b")
    profiler, launch = launched([a, b])
    record(launch, {"a": events(a.range)})
    first, second = profiler.collect(launch, ended)
    assert first.status is ProfileStatus.OK
    assert second.status is ProfileStatus.FAILED
    assert reason in second.reason


def test_a_folder_that_cannot_be_written_is_told(captures: Captures) -> None:
    (one,) = captures("a")
    one.folder.parent.mkdir()
    one.folder.write_text("a file where the folder should be")
    profiler, launch = launched([one])
    record(launch, {"a": events(one.range)})
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert "could not be filed" in profile.reason


def test_what_it_needs_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = TimelineProfiler(ProfileSettings())
    monkeypatch.setattr(nvtx, "attached", lambda: "")
    monkeypatch.setattr(cupti, "version", lambda: "")
    assert profiler.title == "timeline"
    assert "pip install" in profiler.unavailable(GPU)
    assert profiler.unavailable(Subject("worker", "host")) == ""
    assert "profiler=nsys" in profiler.unavailable(Subject("program", "cuda"))
    monkeypatch.setattr(cupti, "version", lambda: "13.4.0")
    assert profiler.title == "timeline (cupti-python 13.4.0)"
    assert profiler.unavailable(GPU) == ""
    monkeypatch.setattr(nvtx, "attached", lambda: "nsys")
    assert profiler.unavailable(GPU).startswith("nsys is attached")
