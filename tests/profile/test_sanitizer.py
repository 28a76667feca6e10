"""compute-sanitizer round a process, with a pretend one in its place."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.sanitizer import Sanitizer, command_line
from runner.result.model import Profile, ProfileStatus

DATA = Path(__file__).resolve().parents[1] / "data" / "sanitizer"
GPU = Subject("worker", "cuda")
PROGRAM = Subject("program", "host")
SETTINGS = ProfileSettings(timeout_s=600)


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An executable that tells a version."""
    path = tmp_path / "compute-sanitizer"
    path.write_text('#!/bin/sh\necho "NVIDIA (R) Compute Sanitizer"\necho "Version 2025.3.1.0 (build 36400806)"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("RUNNER_COMPUTE_SANITIZER", str(path))
    return path


@pytest.fixture
def collected(pretend: Path, captures: Callable[..., list[Capture]]) -> Callable[..., tuple[Profile, Launch]]:
    """The profile of a run that left ``log`` and ended so."""

    def run(log: str | None, ended: Ended, tool: str = "memcheck") -> tuple[Profile, Launch]:
        profiler = Sanitizer(tool, SETTINGS)
        (launch,) = profiler.launches(captures("a"), GPU)
        if log is not None:
            (launch.scratch / "log.txt").write_text(log)
        (profile,) = profiler.collect(launch, ended)
        assert not launch.scratch.exists()
        return profile, launch

    return run


def test_the_command_line_round_a_worker() -> None:
    line = command_line(Path("/bin/cs"), "memcheck", SETTINGS, Path("/s/log.txt"), "worker")
    assert line == (
        "/bin/cs",
        "--tool=memcheck",
        "--error-exitcode=42",
        "--target-processes=all",
        "--print-limit=1000",
        "--launch-timeout=600",
        "--log-file=/s/log.txt",
        "--check-exit-code=no",
        "--report-api-errors=no",
        "--padding=512",
    )


def test_a_programs_failed_calls_are_reported_but_not_probes_for_functions() -> None:
    line = command_line(Path("/bin/cs"), "memcheck", SETTINGS, Path("/s/log.txt"), "program")
    assert "--ignore-getprocaddress-notfound" in line
    assert not any(option.startswith("--report-api-errors") for option in line)


def test_kernels_can_be_chosen() -> None:
    settings = ProfileSettings(kernels="decode.*", launch_skip=2, launch_count=5)
    line = command_line(Path("/bin/cs"), "racecheck", settings, Path("/s/log.txt"), "worker")
    assert line[-3:] == ("--kernel-name=regex=decode.*", "--launch-skip=2", "--launch-count=5")
    assert not any(option.startswith("--padding") for option in line)


def test_each_variant_has_a_process_of_its_own(pretend: Path, captures: Callable[..., list[Capture]]) -> None:
    profiler = Sanitizer("initcheck", SETTINGS)
    assert profiler.unavailable(GPU) == "" and profiler.verdict
    assert profiler.title == "initcheck compute-sanitizer 2025.3.1.0"
    launches = profiler.launches(captures("a", "b"), GPU)
    assert [[capture.variant for capture in launch.captures] for launch in launches] == [["a"], ["b"]]
    assert len({launch.scratch for launch in launches}) == 2
    for launch in launches:
        assert launch.command[0] == str(pretend)
        assert "--check-api-memory-access=no" in launch.command
        assert launch.backend == "cuda" and launch.steps == 1
        assert not launch.checked and not launch.sanitize
        launch.scratch.rmdir()


@pytest.mark.parametrize("subject", [GPU, PROGRAM])
def test_without_compute_sanitizer_there_is_a_hint(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, captures: Callable[..., list[Capture]]
) -> None:
    monkeypatch.setenv("RUNNER_COMPUTE_SANITIZER", "/not/there/compute-sanitizer")
    profiler = Sanitizer("memcheck", SETTINGS)
    assert "cuda-sanitizer" in profiler.unavailable(subject)
    with pytest.raises(RuntimeError, match="no such file"):
        profiler.launches(captures("a"), subject)


def test_the_host_backend_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_COMPUTE_SANITIZER", "/not/there/compute-sanitizer")
    assert Sanitizer("memcheck", SETTINGS).unavailable(Subject("worker", "host")) == ""


def test_findings_come_with_the_whole_log(collected: Callable[..., tuple[Profile, Launch]]) -> None:
    log = (DATA / "initcheck.txt").read_text()
    # The worker's own error is what the sanitizer's finding led to.
    profile, launch = collected(log, Ended(42, problem="unspecified launch failure"), "initcheck")
    assert profile.status is ProfileStatus.OK and profile.reason == ""
    assert [finding.count for finding in profile.findings] == [32]
    assert profile.artifacts == ["model_a_initcheck.txt"]
    assert (launch.captures[0].folder / "model_a_initcheck.txt").read_text() == log


def test_a_clean_run_is_ok(collected: Callable[..., tuple[Profile, Launch]]) -> None:
    profile, _ = collected((DATA / "clean.txt").read_text(), Ended(0))
    assert profile.status is ProfileStatus.OK
    assert profile.findings == [] and profile.reason == ""
    assert profile.artifacts == ["model_a_memcheck.txt"]


BROKEN_OFF = "========= COMPUTE-SANITIZER\n"
REFUSED = BROKEN_OFF + "========= Error: Device not supported\n"
UNUSED = BROKEN_OFF + "========= Error: Target application terminated before first instrumented API call\n"


@pytest.mark.parametrize(
    ("log", "ended", "status", "words"),
    [
        (
            None,
            Ended(-11, output="x\nSegmentation fault\n"),
            "FAILED",
            "code -11 before its summary (Segmentation fault)",
        ),
        (BROKEN_OFF, Ended(None, timed_out=True), "FAILED", "profiler.timeout_s=600"),
        (BROKEN_OFF, Ended(None), "FAILED", "was killed before its summary (it said nothing)"),
        (REFUSED, Ended(1), "UNAVAILABLE", "Device not supported"),
        (UNUSED, Ended(1), "FAILED", "before first instrumented API call"),
        (
            (DATA / "clean.txt").read_text(),
            Ended(3, problem="out of memory"),
            "FAILED",
            "the run failed: out of memory",
        ),
    ],
)
def test_a_run_that_says_nothing_is_no_all_clear(
    collected: Callable[..., tuple[Profile, Launch]], log: str | None, ended: Ended, status: str, words: str
) -> None:
    profile, _ = collected(log, ended)
    assert profile.status.value == status
    assert words in profile.reason
    assert profile.findings == []


def test_what_was_found_before_the_end_of_time_counts(collected: Callable[..., tuple[Profile, Launch]]) -> None:
    log = (DATA / "synccheck.txt").read_text().split("========= ERROR SUMMARY")[0]
    profile, _ = collected(log, Ended(None, timed_out=True), "synccheck")
    assert [finding.count for finding in profile.findings] == [16]


def test_a_folder_that_cannot_be_written_fails_the_profile(
    pretend: Path, captures: Callable[..., list[Capture]], tmp_path: Path
) -> None:
    (tmp_path / "job").write_text("a file in the folder's place")
    profiler = Sanitizer("memcheck", SETTINGS)
    (launch,) = profiler.launches(captures("a"), GPU)
    (launch.scratch / "log.txt").write_text((DATA / "clean.txt").read_text())
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert "could not be filed" in profile.reason
