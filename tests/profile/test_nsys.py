"""Command lines to the last argument, a real nsys where there is one, and its failures by a pretend one."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runner.profile import nsys as nsys_module
from runner.profile.base import Capture, Ended, ProfileSettings, Subject
from runner.profile.nsys import NsysProfiler
from runner.profile.nvtx import CAPTURE
from runner.result.model import ProfileStatus, TraceEvent
from runner.timeline.trace import Trace

HOST = Subject("worker", "host")
CUDA = Subject("worker", "cuda")
Run = Callable[..., Ended]
Captures = Callable[..., list[Capture]]
Pretend = Callable[[str], Path]


def trace(*ranges: str) -> Trace:
    return Trace([TraceEvent("range", name, 0, 0, 1.0 * i, 2.0 * i + 1) for i, name in enumerate(ranges)])


def test_launch_keeps_the_environment_clean(
    pretend_nsys: Pretend, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    pretend_nsys("exit 0")
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    assert launch.environment["MLFLOW_TRACKING_PASSWORD"] == ""
    assert launch.environment["TMPDIR"] == str(launch.scratch)
    assert launch.environment["NSYS_NVTX_PROFILER_REGISTER_ONLY"] == "0"
    assert launch.scratch.stat().st_mode & 0o077 == 0
    profiler.collect(launch, Ended(0))
    assert not launch.scratch.exists()


# A real nsys


def test_three_variants_give_three_checked_reports(
    nsys: Path, run_worker: Run, weird_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_API_TOKEN", "do-not-record-me")
    profiler = NsysProfiler(ProfileSettings())
    assert profiler.unavailable(HOST) == ""
    folder = weird_path / "B=1,T=4%h"
    wanted = [Capture(v, f"decode/demo/{v}", f"demo_{v}", folder / v) for v in ("a", "b", "c")]
    (launch,) = profiler.launches(wanted, HOST)
    ended = run_worker(launch, "0", "a", "b", "c")
    assert ended.returncode == 0, ended.output

    profiles = profiler.collect(launch, ended)

    for capture, profile in zip(wanted, profiles, strict=True):
        assert profile.status is ProfileStatus.OK, profile.reason
        assert profile.ranges == [capture.range]
        assert profile.tool.startswith("nsys 20")
        assert profile.artifacts[0] == f"{capture.name}.nsys-rep"
        report = (capture.folder / profile.artifacts[0]).read_bytes()
        assert b"do-not-record-me" not in report
        (raw,) = profile.reports
        assert (raw.path, raw.bytes) == (profile.artifacts[0], len(report))
        assert [row["range"] for row in _rows(capture.folder / f"{capture.name}_ranges.csv")] == [
            CAPTURE,
            capture.range,
        ]
        assert {call.kind for call in profile.calls} == {"os"}
        assert f"{capture.name}_calls.csv" in profile.artifacts
        assert not profile.kernels and not profile.categories and not profile.gaps
    assert not launch.scratch.exists()


def test_a_worker_that_dies_costs_only_the_variants_it_did_not_reach(
    nsys: Path, run_worker: Run, captures: Captures
) -> None:
    """A lone report has no number, and nsys passes the worker's exit code on."""
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a", "b"), HOST)
    ended = run_worker(launch, "3", "b")
    assert ended.returncode == 3

    lost, kept = profiler.collect(launch, ended)

    assert (kept.status, kept.ranges) == (ProfileStatus.OK, ["decode/demo/b"])
    assert lost.status is ProfileStatus.FAILED
    assert "no report was written for the range decode/demo/a (1 were for others)" in lost.reason
    assert "code 3" in lost.reason


def test_a_report_that_cannot_be_read_is_not_taken_for_a_missing_one(
    pretend_nsys: Callable[[str], Path], captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_NSYS", str(pretend_nsys("echo 'it is garbage' >&2; exit 3")))
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a", "b"), HOST)
    (launch.scratch / "capture.1.nsys-rep").write_text("garbage")

    for profile in profiler.collect(launch, Ended(0)):
        assert profile.status is ProfileStatus.FAILED
        assert "(0 were for others, 1 cannot be read): the report cannot be read: nsys export" in profile.reason
        assert "it is garbage" in profile.reason
    assert not launch.scratch.exists()


def test_a_report_without_kernels_fails_where_kernels_must_be(nsys: Path, run_worker: Run, captures: Captures) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a", holds="kernels"), HOST)
    (profile,) = profiler.collect(launch, run_worker(launch, "0", "a"))
    assert profile.status is ProfileStatus.FAILED
    assert "no GPU kernel" in profile.reason
    assert profile.artifacts == ["model_a.nsys-rep", "model_a_ranges.csv"]


def test_one_report_for_all_lies_with_the_first_and_is_named_by_the_others(
    nsys: Path, run_worker: Run, captures: Captures, tmp_path: Path
) -> None:
    profiler = NsysProfiler(ProfileSettings(reports="experiment"))
    (launch,) = profiler.launches(captures("a", "b", "c"), HOST)
    a, b, c = profiler.collect(launch, run_worker(launch, "0", "a", "b"))
    assert (a.status, b.status) == (ProfileStatus.OK, ProfileStatus.OK), a.reason + b.reason
    assert a.ranges == b.ranges == ["decode/demo/a", "decode/demo/b"]
    assert a.artifacts[0] == "model_a.nsys-rep"
    assert not any(name.endswith(".nsys-rep") for name in b.artifacts)
    assert [raw.path for raw in b.reports] == ["../a/model_a.nsys-rep"]
    assert b.reports[0].sha256 == a.reports[0].sha256
    assert (tmp_path / "job" / "b" / b.reports[0].path).is_file()
    assert c.status is ProfileStatus.FAILED
    assert "lacks the range decode/demo/c" in c.reason


def test_whole_processes_are_one_each_and_hold_the_preparation_too(
    nsys: Path, run_worker: Run, captures: Captures
) -> None:
    profiler = NsysProfiler(ProfileSettings(capture="all"))
    launches = profiler.launches(captures("a", "b"), HOST)
    assert [[capture.variant for capture in launch.captures] for launch in launches] == [["a"], ["b"]]
    for launch in launches:
        variant = launch.captures[0].variant
        (profile,) = profiler.collect(launch, run_worker(launch, "0", variant))
        assert profile.status is ProfileStatus.OK, profile.reason
        assert profile.ranges == ["decode/demo/prepare", f"decode/demo/{variant}"]


def test_the_whole_experiment_in_one_process(nsys: Path, run_worker: Run, captures: Captures) -> None:
    profiler = NsysProfiler(ProfileSettings(capture="all", reports="experiment"))
    (launch,) = profiler.launches(captures("a", "b"), HOST)
    profiles = profiler.collect(launch, run_worker(launch, "0", "a", "b"))
    assert [profile.status for profile in profiles] == [ProfileStatus.OK] * 2
    assert profiles[0].ranges == ["decode/demo/prepare", "decode/demo/a", "decode/demo/b"]


def test_tables_agree_with_the_tools_own_statistics(
    nsys: Path, run_worker: Run, captures: Captures, tmp_path: Path
) -> None:
    profiler = NsysProfiler(ProfileSettings(capture="all"))
    (launch,) = profiler.launches([replace(captures("a")[0], range="")], Subject("program", "host"))
    (profile,) = profiler.collect(launch, run_worker(launch, "0", "a"))
    report = tmp_path / "job" / "a" / "model_a.nsys-rep"
    done = subprocess.run(
        [nsys, "stats", "--format=csv", "--report=nvtx_sum", "--report=osrt_sum", f"--output={tmp_path}/own", report],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    own = {row["Range"].lstrip(":"): row for row in _rows(tmp_path / "own_nvtx_sum.csv")}
    ours = {row["range"]: row for row in _rows(report.with_name("model_a_ranges.csv"))}
    assert set(ours) == set(own) == {CAPTURE, "decode/demo/prepare", "decode/demo/a"}
    for name, row in ours.items():
        assert int(row["calls"]) == int(own[name]["Instances"])
        assert float(row["total_us"]) == pytest.approx(float(own[name]["Total Time (ns)"]) / 1e3, abs=0.01)
    calls = {row["Name"]: row for row in _rows(tmp_path / "own_osrt_sum.csv")}
    assert {call.name: call.calls for call in profile.calls} == {
        name: int(row["Num Calls"]) for name, row in calls.items()
    }
    for call in profile.calls:
        assert call.total_us == pytest.approx(float(calls[call.name]["Total Time (ns)"]) / 1e3, abs=0.01)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_range_that_never_opens_is_explained(
    nsys: Path, run_worker: Run, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    ended = run_worker(launch, "0")
    monkeypatch.setattr("runner.profile.nvtx.version", lambda: "0.2.11")
    (profile,) = profiler.collect(launch, ended)
    assert profile.status is ProfileStatus.FAILED
    assert "no report was written: nsys never saw the range runner_capture" in profile.reason


@pytest.mark.parametrize("isolated", [True, False])
def test_a_hang_is_killed_with_everything_it_started(
    nsys: Path,
    run_worker: Run,
    captures: Captures,
    tmp_path: Path,
    isolated: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNNER_PROFILE_ISOLATE", "1" if isolated else "0")
    profiler = NsysProfiler(ProfileSettings(timeout_s=2.5))
    (launch,) = profiler.launches(captures("a"), HOST)
    for _ in range(3):
        ended = run_worker(launch, "hang", timeout_s=2.5)
        if "Connection to Agent lost" not in ended.output:  # nsys calls it a bug of its own
            break
    assert ended.timed_out and "hanging" in ended.output

    (profile,) = profiler.collect(launch, ended)

    assert profile.status is ProfileStatus.FAILED
    assert "profiler.timeout_s=2.5" in profile.reason
    time.sleep(0.1)
    assert [p for p in psutil.process_iter() if _started_by(p, tmp_path)] == []


def _started_by(process: psutil.Process, folder: Path) -> bool:
    try:
        return any(str(folder) in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def test_a_report_shows_no_other_process(nsys: Path, run_worker: Run, captures: Captures, tmp_path: Path) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    if launch.command[0] != "unshare":
        pytest.skip("this system does not allow a process namespace")
    with subprocess.Popen(["sh", "-c", "sleep 30; : do-not-record-me"], start_new_session=True) as bystander:
        try:
            (profile,) = profiler.collect(launch, run_worker(launch, "0", "a"))
        finally:
            os.killpg(bystander.pid, 9)
    assert profile.status is ProfileStatus.OK, profile.reason
    report = tmp_path / "job" / "a" / profile.artifacts[0]
    text = tmp_path / "report.txt"
    subprocess.run([nsys, "export", "--type=text", f"--output={text}", report], check=True, capture_output=True)
    assert "decode/demo/a" in text.read_text(errors="replace")
    assert "do-not-record-me" not in text.read_text(errors="replace")


# What can go wrong, by a pretend nsys

FAILURES = {
    "no report": ("exit 0", "never saw the range runner_capture"),
    "exit code": (
        "echo 'unrecognised option --wait'; exit 2",
        "ended with code 2 (unrecognised option --wait)",
    ),
    "full disk": ("echo 'Failed to create x.qdstrm: No space left on device.'; exit 0", "is full; free space"),
    "importer": ('touch "$TMPDIR/capture.1.qdstrm"; exit 0', "its importer is missing or lacks a library"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failures_name_the_cause_and_the_remedy(
    failure: str, pretend_nsys: Pretend, run_worker: Run, captures: Captures
) -> None:
    body, said = FAILURES[failure]
    pretend_nsys(body)
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a", "b"), HOST)
    profiles = profiler.collect(launch, run_worker(launch, "0", "a", "b"))
    assert [p.status for p in profiles] == [ProfileStatus.FAILED] * 2
    assert said in profiles[0].reason
    assert profiles[0].tool == "nsys 2025.1.1.0"


def test_a_tool_that_is_killed_half_way_is_no_missing_importer(
    pretend_nsys: Pretend, run_worker: Run, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_PROFILE_ISOLATE", "0")
    pretend_nsys('touch "$TMPDIR/capture.qdstrm"; echo collecting; kill -9 $$')
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    (profile,) = profiler.collect(launch, run_worker(launch, "0", "a"))
    assert profile.status is ProfileStatus.FAILED
    assert profile.reason == "no report was written: nsys was killed by SIGKILL (collecting); profile again"


def test_what_could_not_be_imported_is_kept_for_another_machine(
    pretend_nsys: Pretend, run_worker: Run, captures: Captures, tmp_path: Path
) -> None:
    pretend_nsys('for i in 1 2; do echo $i > "$TMPDIR/capture.$i.qdstrm"; done')
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a", "b"), HOST)
    profiles = profiler.collect(launch, run_worker(launch, "0"))
    assert [p.artifacts for p in profiles] == [["model_a.qdstrm"], ["model_b.qdstrm"]]
    assert (tmp_path / "job" / "b" / "model_b.qdstrm").read_text() == "2\n"


def test_nvtx_too_new_is_named_when_nothing_was_captured(
    pretend_nsys: Pretend, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pretend_nsys("exit 0")
    path.write_text(path.read_text().replace("2025.1.1.0", "2023.4.4.54"))
    monkeypatch.setattr("runner.profile.nvtx.version", lambda: "0.2.17")
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    (profile,) = profiler.collect(launch, Ended(0))
    assert "nvtx 0.2.17 is not recorded by Nsight Systems 2023.4.4.54" in profile.reason


def test_what_the_worker_reported_comes_before_what_the_tool_did(pretend_nsys: Pretend, captures: Captures) -> None:
    pretend_nsys("exit 0")
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), CUDA)
    (profile,) = profiler.collect(launch, Ended(0, problem="out of memory: 8 GiB asked for"))
    assert "the worker failed while being profiled: out of memory" in profile.reason


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "capture.nsys-rep is empty"), (b"x", "nsys export ended with code 1: not a report")],
)
def test_a_report_that_cannot_be_read_fails_and_is_kept(
    content: bytes, said: str, pretend_nsys: Pretend, captures: Captures, tmp_path: Path
) -> None:
    pretend_nsys("echo 'not a report'; exit 1")
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    (launch.scratch / "capture.nsys-rep").write_bytes(content)
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert said in profile.reason
    assert (tmp_path / "job" / "a" / "model_a.nsys-rep").read_bytes() == content


def test_a_disk_that_fills_while_filing_fails_the_profile(
    pretend_nsys: Pretend, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_nsys("exit 0")
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), HOST)
    (launch.scratch / "capture.nsys-rep").write_bytes(b"x")
    monkeypatch.setattr(nsys_module, "_read", lambda report: trace("decode/demo/a"))

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "move", full)
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert "could not be filed" in profile.reason
    assert "No space left on device" in profile.reason


def test_reports_are_matched_by_the_range_they_hold_then_by_order(captures: Captures) -> None:
    a, b, c = captures("a", "b", "c")
    holds: dict[str, Trace | str] = {x.variant: trace(x.range) for x in (a, b, c)}
    match = nsys_module._match
    assert match([a, b, c], [holds["b"], holds["c"]]) == [None, 0, 1]
    assert match([a, b, c], [holds["c"], holds["a"], holds["b"]]) == [1, 2, 0]
    assert match([a, b, c], [holds["a"], "unreadable", Trace()]) == [0, 1, 2]
    assert match([a, a], [holds["a"], holds["a"]]) == [0, 1]
    assert match([a, b], ["unreadable"]) == [None, None]
