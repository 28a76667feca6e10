"""Command lines to the last argument, and what becomes of reports and failures, by a pretend ncu."""

from __future__ import annotations

import csv
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.build.cache import cache_dir
from runner.profile import ncu
from runner.profile.base import Capture, Ended, Holds, Launch, ProfileSettings, Subject
from runner.profile.ncu import NcuProfiler, command_line
from runner.profile.sections import SETS
from runner.result.model import Profile, ProfileStatus

CUDA = Subject("worker", "cuda")
DATA = Path(__file__).parents[1] / "data" / "ncu"
Pretend = Callable[..., Path]

PROGRAM = """
import sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1) (public-release)")
elif arguments[0] == "--import":
    assert arguments[2:] == ["--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function"]
    assert open(arguments[1]).read() == "a report"
    sys.stdout.write(open({table!r}).read() if {table!r} else "")
    sys.exit({import_code})
else:
    option = dict(zip(arguments, arguments[1:]))
    open(option["--log-file"], "w").write({log!r})
    if {table!r} or {import_code}:
        open(option["--export"] + ".ncu-rep", "w").write("a report")
    sys.exit({code})
"""


@pytest.fixture
def pretend_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretend]:
    """An executable in place of ncu, which writes ``log``, a report whose table is the file ``table`` (none: no
    report), and ends with ``code``."""

    def make(table: Path | str = "", log: str = "", code: int = 0, import_code: int = 0) -> Path:
        folder = tmp_path / "pretend"
        folder.mkdir(exist_ok=True)
        script = folder / "ncu.py"
        script.write_text(PROGRAM.format(table=str(table), log=log, code=code, import_code=import_code))
        path = folder / "ncu"
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("RUNNER_NCU", str(path))
        return path

    yield make
    ncu._denied.clear()


def captures(tmp_path: Path, *variants: str, holds: Holds = "kernels") -> list[Capture]:
    return [Capture(v, f"decode/kv_quant/{v}", f"model_{v}", tmp_path / "job" / v, holds) for v in variants]


def profiled(
    profiler: NcuProfiler, wanted: list[Capture], ended: Ended | None = None, subject: Subject = CUDA
) -> list[Profile]:
    """Every launch run and collected, as a driver would; ``ended`` instead of what really happened."""
    found = []
    for launch in profiler.launches(wanted, subject):
        done = subprocess.run([*launch.command, "true"], env={**os.environ, **launch.environment}, check=False)
        found += profiler.collect(launch, ended or Ended(done.returncode))
        assert not launch.scratch.exists()
    return found


# Command lines


def test_the_command_for_a_worker() -> None:
    settings = ProfileSettings(sections="traffic", kernels="kv_scan.*|rope", launch_skip=3, launch_count=20)
    assert command_line(Path("/opt/ncu"), settings, Path("/scratch"), CUDA) == (
        "/opt/ncu",
        "--target-processes",
        "all",
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        "--cache-control",
        "all",
        "--nvtx",
        "-f",
        "--export",
        "/scratch/report",
        "--log-file",
        "/scratch/ncu.log",
        "--replay-mode",
        "kernel",
        *SETS["traffic"].arguments("kernel"),
        "--kernel-name",
        "regex:kv_scan.*|rope",
        "--launch-skip",
        "3",
        "--launch-count",
        "20",
    )


@pytest.mark.parametrize(
    ("subject", "replay"),
    [(Subject("program", "cuda"), "kernel"), (CUDA, "range"), (Subject("program", "cuda"), "range")],
)
def test_a_program_and_a_range_are_profiled_from_the_start(subject: Subject, replay: str) -> None:
    command = command_line(Path("ncu"), ProfileSettings(replay=replay), Path("/scratch"), subject)
    assert "--profile-from-start" not in command
    assert command[command.index("--replay-mode") + 1] == replay
    assert not {"--kernel-name", "--launch-skip", "--launch-count"} & set(command)


@pytest.mark.parametrize(
    ("settings", "processes"),
    [
        (ProfileSettings(), 2),
        (ProfileSettings(reports="experiment"), 1),
        (ProfileSettings(reports="experiment", launch_count=5), 2),
        (ProfileSettings(reports="experiment", launch_skip=5), 2),
        (ProfileSettings(reports="experiment", replay="range"), 2),
    ],
)
def test_processes(tmp_path: Path, pretend_ncu: Pretend, settings: ProfileSettings, processes: int) -> None:
    pretend_ncu()
    profiler = NcuProfiler(settings)
    launches = profiler.launches(captures(tmp_path, "fp32", "q8"), CUDA)
    assert len(launches) == processes
    assert [capture.variant for launch in launches for capture in launch.captures] == ["fp32", "q8"]
    for launch in launches:
        assert launch.steps == 1
        assert launch.note.startswith("speed_of_light: ")
        assert launch.environment["TMPDIR"] == str(cache_dir() / "ncu"), "one lock for all of a user's ncu"
        profiler.collect(launch, Ended(0))


def test_what_a_timed_out_ncu_leaves_behind_is_ended(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu()
    profiler = NcuProfiler(ProfileSettings())
    late, other = profiler.launches(captures(tmp_path, "fp32", "q8"), CUDA)

    def agent(launch: Launch) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, **launch.environment}, start_new_session=True)

    with agent(late) as left_behind, agent(other) as elsewhere:
        try:
            profiler.collect(late, Ended(None, timed_out=True))
            assert left_behind.wait(timeout=5) == -signal.SIGKILL
            assert elsewhere.poll() is None
        finally:
            left_behind.kill()
            elsewhere.kill()
    profiler.collect(other, Ended(0))


def test_no_credential_reaches_the_tool(tmp_path: Path, pretend_ncu: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_API_TOKEN", "do-not-record-me")
    pretend_ncu()
    profiler = NcuProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures(tmp_path, "fp32"), CUDA)
    assert launch.environment["DEMO_API_TOKEN"] == ""
    profiler.collect(launch, Ended(0))


# Where it cannot be used


def test_without_ncu_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUNNER_NCU", str(tmp_path / "nowhere"))
    profiler = NcuProfiler(ProfileSettings())
    assert profiler.title == "ncu"
    assert "cuda-nsight-compute" in profiler.unavailable(CUDA)


def test_the_host_has_no_counters(pretend_ncu: Pretend) -> None:
    pretend_ncu()
    assert "a GPU" in NcuProfiler(ProfileSettings()).unavailable(Subject("worker", "host"))
    assert NcuProfiler(ProfileSettings()).unavailable(Subject("program", "host")) == ""


def test_a_worker_is_not_started_once_for_every_pass(pretend_ncu: Pretend) -> None:
    pretend_ncu()
    profiler = NcuProfiler(ProfileSettings(replay="application"))
    assert "use profiler.replay=kernel or range" in profiler.unavailable(CUDA)
    assert profiler.unavailable(Subject("program", "cuda")) == ""


# Reports


def test_one_report_for_all_variants(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "kv_quant.csv")
    wanted = captures(tmp_path, "fp32", "fp32_block", "q8")
    profiles = profiled(NcuProfiler(ProfileSettings(reports="experiment")), wanted)
    kernels = ["kv_scan_fp32_kernel", "kv_scan_fp32_block_kernel", "kv_scan_q8_kernel"]
    for capture, profile, kernel in zip(wanted, profiles, kernels, strict=True):
        assert profile.status is ProfileStatus.OK, profile.reason
        assert profile.tool == "ncu 2025.3.1.0"
        assert [counters.name for counters in profile.counters] == [kernel]
        assert profile.ranges == [capture.range]
        assert profile.metrics["ncu_launches"] == 1
        with (capture.folder / f"{capture.name}_counters.csv").open(newline="") as table:
            assert [row["kernel"] for row in csv.DictReader(table)] == [kernel]
    first, second, _ = profiles
    assert first.metrics["counted_dram_bytes"] == 33577472 + 577792
    assert first.metrics["counted_l2_bytes"] == first.metrics["l2_bytes"] > 33577472
    assert first.artifacts == ["model_fp32.ncu-rep", "model_fp32_counters.csv"]
    assert second.artifacts == ["model_fp32_block_counters.csv"]
    assert (wanted[0].folder / "model_fp32.ncu-rep").read_text() == "a report"
    (report,) = first.reports
    assert (report.path, report.bytes, len(report.sha256)) == ("model_fp32.ncu-rep", 8, 64)
    assert second.reports == []


def test_a_process_s_kernels_are_its_variant_s_even_without_ranges(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "sync.csv")
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "elsewhere"))
    assert profile.status is ProfileStatus.OK, profile.reason
    assert profile.ranges == []
    assert profile.counters[0].launches == 4


@pytest.mark.parametrize(
    "settings",
    [ProfileSettings(launch_count=4), ProfileSettings(launch_skip=1), ProfileSettings(kernels="decode")],
    ids=["count", "skip", "filter"],
)
def test_part_of_a_step_is_not_the_step_s_traffic(
    tmp_path: Path, pretend_ncu: Pretend, settings: ProfileSettings
) -> None:
    pretend_ncu(DATA / "sync.csv")
    (profile,) = profiled(NcuProfiler(settings), captures(tmp_path, "sync_each_step"))
    assert profile.metrics["ncu_launches"] == 4
    assert profile.metrics["dram_bytes_read"] > 0
    assert not {"counted_dram_bytes", "counted_l2_bytes"} & profile.metrics.keys()


def test_fewer_launches_than_the_limit_are_the_whole_step(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "sync.csv")
    (profile,) = profiled(NcuProfiler(ProfileSettings(launch_count=5)), captures(tmp_path, "sync_each_step"))
    assert profile.metrics["counted_dram_bytes"] == pytest.approx(
        profile.metrics["dram_bytes_read"] + profile.metrics["dram_bytes_written"]
    )


def test_a_replayed_range_is_named_after_the_range(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "sync.csv")
    (profile,) = profiled(NcuProfiler(ProfileSettings(replay="range")), captures(tmp_path, "fp32"))
    assert [one.name for one in profile.counters] == ["decode/kv_quant/fp32"]


def test_launches_that_could_not_be_counted_are_told(tmp_path: Path, pretend_ncu: Pretend) -> None:
    log = '==PROF== Profiling "k" - 0: 0%\n==ERROR== Failed to profile "k" in process 7\n'
    pretend_ncu(DATA / "sync.csv", log)
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "a"))
    assert profile.status is ProfileStatus.OK
    assert profile.reason == 'some launches could not be counted: Failed to profile "k" in process 7'
    assert "counted_dram_bytes" not in profile.metrics


def test_a_worker_that_fails_half_way_keeps_the_variants_it_came_through(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "kv_quant.csv")
    ended = Ended(1, problem="too many resources", checks={"fp32": []})
    good, bad = profiled(NcuProfiler(ProfileSettings(reports="experiment")), captures(tmp_path, "fp32", "q8"), ended)
    assert good.status is ProfileStatus.OK
    assert bad.status is ProfileStatus.FAILED
    assert bad.reason == "the worker failed while being profiled: too many resources"


# Failures

PERMISSION = (
    "==PROF== Connected to process 7\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA "
    "GPU Performance Counters on the target device 0.\n==WARNING== No kernels were profiled.\n"
)


def test_missing_permission_is_learnt_once(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(log=PERMISSION, code=1)
    profiler = NcuProfiler(ProfileSettings())
    assert profiler.unavailable(CUDA) == ""
    first, second = profiled(profiler, captures(tmp_path, "fp32", "q8"))
    for profile in (first, second):
        assert profile.status is ProfileStatus.UNAVAILABLE
        for word in ("NVreg_RestrictProfilingToAdminUsers=0", "CAP_SYS_ADMIN", "WSL2"):
            assert word in profile.reason
    assert NcuProfiler(ProfileSettings()).unavailable(CUDA) == first.reason
    (launch,) = profiler.launches(captures(tmp_path, "fp8"), CUDA)
    (third,) = profiler.collect(launch, Ended(None, problem=first.reason))
    assert (third.status, third.reason) == (ProfileStatus.UNAVAILABLE, first.reason)


NOTHING = "==WARNING== No kernels were profiled.\n"
FAILURES: dict[str, tuple[dict[str, str], str, Ended, str]] = {
    "no kernel": ({}, NOTHING, Ended(0), "no kernel was profiled (No kernels were profiled)"),
    "filter": ({"kernels": "gemm"}, NOTHING, Ended(0), "none matches profiler.kernels=gemm"),
    "range": (
        {"replay": "range"},
        "==ERROR== Range contains an unsupported API call: cuGraphLaunch\n",
        Ended(1),
        "no range was profiled (Range contains an unsupported API call: cuGraphLaunch)",
    ),
    "empty range": ({"replay": "range"}, "", Ended(0), "use profiler.replay=kernel"),
    "error": ({}, "==ERROR== Failed to prepare kernel for profiling\n", Ended(9), "ncu failed (Failed to prepare"),
    "busy": ({}, "==ERROR== Profiling failed: Driver Resource Unavailable\n", Ended(9), "dcgmi profile --pause"),
    "full disk": ({}, "", Ended(1, output="ncu: No space left on device"), "is full; free space"),
    "exit code": ({}, "", Ended(2, output="unrecognised option"), "ended with code 2 (unrecognised option)"),
    "killed": ({}, "", Ended(None, output="out of memory"), "was killed (out of memory)"),
    "time-out": ({}, "", Ended(None, timed_out=True), "profiler.timeout_s=300"),
    "worker, and why": (
        {},
        "==ERROR== Another instance holds the device\n",
        Ended(9, problem="the worker exited with code 9"),
        "the worker exited with code 9 (Another instance holds the device)",
    ),
    "worker's own words": (
        {},
        "",
        Ended(134, output="terminate called\n", problem="the worker exited with code 134"),
        "the worker exited with code 134 (terminate called)",
    ),
    "worker": ({}, NOTHING, Ended(0, problem="misaligned address"), "the worker failed while being profiled: mis"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_say_what_happened_and_what_to_do(tmp_path: Path, pretend_ncu: Pretend, name: str) -> None:
    changed, log, ended, words = FAILURES[name]
    pretend_ncu(log=log)
    (profile,) = profiled(NcuProfiler(ProfileSettings(**changed)), captures(tmp_path, "fp32"), ended)  # type: ignore[arg-type]
    assert profile.status is ProfileStatus.FAILED
    assert words in profile.reason
    assert profile.metrics == {}
    assert profile.counters == []
    assert profile.artifacts == []


def test_the_driver_s_library_is_missing(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(log="==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", code=1)
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "fp32"))
    assert profile.status is ProfileStatus.UNAVAILABLE
    assert "--gpus all" in profile.reason


def test_a_variant_that_only_copies_has_nothing_to_count(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(log=NOTHING)
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "pinned", holds="work"))
    assert profile.status is ProfileStatus.UNAVAILABLE
    assert profile.reason.startswith("no kernel ran")


def test_kernels_outside_every_range_cannot_be_told_apart(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "sync.csv")
    profiles = profiled(NcuProfiler(ProfileSettings(reports="experiment")), captures(tmp_path, "fp32", "q8"))
    for profile in profiles:
        assert profile.status is ProfileStatus.FAILED
        assert "use profiler.reports=variant" in profile.reason
    assert profiles[0].artifacts == ["model_fp32.ncu-rep"]


def test_a_report_that_cannot_be_read_is_kept(tmp_path: Path, pretend_ncu: Pretend) -> None:
    table = tmp_path / "broken.csv"
    table.write_text("==ERROR== The file is not a report\n")
    pretend_ncu(table, import_code=1)
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "fp32"))
    assert profile.status is ProfileStatus.FAILED
    assert "ended with code 1: ==ERROR== The file is not a report" in profile.reason
    assert profile.artifacts == ["model_fp32.ncu-rep"]


def test_a_table_without_kernels_is_unreadable(tmp_path: Path, pretend_ncu: Pretend) -> None:
    table = tmp_path / "strange.csv"
    table.write_text('"Something","else"\n')
    pretend_ncu(table)
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "fp32"))
    assert profile.status is ProfileStatus.FAILED
    assert "there is no column 'Kernel Name'" in profile.reason


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu(DATA / "sync.csv")
    (tmp_path / "job").write_text("a file where a folder should be")
    (profile,) = profiled(NcuProfiler(ProfileSettings()), captures(tmp_path, "fp32"))
    assert profile.status is ProfileStatus.FAILED
    assert "could not be filed" in profile.reason


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, pretend_ncu: Pretend) -> None:
    pretend_ncu()
    profiler = NcuProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures(tmp_path, "fp32"), CUDA)
    assert isinstance(launch, Launch)
    profiler.collect(launch, Ended(None, problem="interrupted"))
    assert not launch.scratch.exists()
