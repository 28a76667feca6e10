"""Command lines to the last argument, and the trial of GPU metrics by pretend tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.profile import nsys_command
from runner.profile.base import ProfileSettings, Subject
from runner.profile.nsys_command import command_line, gpu_metrics

NSYS, STEM = Path("/opt/nsys"), Path("/out/raw")
HOST, CUDA = Subject("worker", "host"), Subject("worker", "cuda")
Pretend = Callable[[str], Path]


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    gpu_metrics.cache_clear()
    yield
    gpu_metrics.cache_clear()


def line(settings: ProfileSettings, subject: Subject, captures: int = 1) -> list[str]:
    """The options after ``nsys profile``."""
    made = command_line(NSYS, settings, STEM, subject, captures, "session-1")
    assert made[:2] == ("/opt/nsys", "profile")
    return list(made[2:])


def captured(settings: ProfileSettings, subject: Subject, captures: int = 1) -> list[str]:
    """The options that say what is captured."""
    return [part for part in line(settings, subject, captures) if "capture" in part]


def test_with_a_gpu() -> None:
    assert line(ProfileSettings(), CUDA, 3) == [
        "--trace=cuda,nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=repeat:3",
        "--force-overwrite=true",
        "--wait=primary",
        "--output=/out/raw",
    ]


def test_without_a_gpu_the_capture_follows_the_range_and_no_cuda_library_is_traced() -> None:
    assert line(ProfileSettings(trace=("cuda", "osrt", "cublas-verbose", "cudnn")), HOST) == [
        "--trace=osrt,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--capture-range=nvtx",
        "--nvtx-capture=runner_capture@*",
        "--capture-range-end=repeat:1",
        "--force-overwrite=true",
        "--wait=primary",
        "--output=/out/raw",
    ]


def test_a_gpu_can_be_captured_by_the_range_too() -> None:
    assert captured(ProfileSettings(capture="nvtx"), CUDA, 2) == [
        "--capture-range=nvtx",
        "--nvtx-capture=runner_capture@*",
        "--capture-range-end=repeat:2",
    ]


def test_one_report_for_all_stays_open_from_the_first_range_to_the_end() -> None:
    settings = ProfileSettings(reports="experiment")
    assert captured(settings, CUDA, 2) == ["--capture-range=cudaProfilerApi", "--capture-range-end=none"]


def test_a_whole_process_waits_for_nothing() -> None:
    assert captured(ProfileSettings(capture="all"), CUDA) == []


def test_graphs_are_traced_as_asked() -> None:
    assert "--cuda-graph-trace=graph" in line(ProfileSettings(graph_trace="graph"), CUDA)


def test_a_program_is_captured_whole_or_in_its_window() -> None:
    assert captured(ProfileSettings(), Subject("program", "cuda")) == []
    windowed = line(ProfileSettings(), Subject("program", "cuda", windowed=True))
    assert [part for part in windowed if "session" in part or "later" in part or "kill" in part] == [
        "--session-new=session-1",
        "--start-later=true",
        "--kill=none",
    ]


@pytest.mark.parametrize("option", ["--gpu-metrics-devices=all", "--gpu-metrics-device=all"])
def test_gpu_metrics_are_asked_for_under_the_name_this_version_knows(option: str, pretend_nsys: Pretend) -> None:
    nsys = pretend_nsys(
        f'case "$*" in *{option}*) exit 0;; esac\n'
        "echo \"unrecognised option '--gpu-metrics'\" >&2; echo 'usage: nsys profile' >&2; exit 1"
    )
    assert gpu_metrics(str(nsys)) == ((option,), "")
    made = command_line(nsys, ProfileSettings(gpu_metrics=True), STEM, CUDA, 1)
    assert option in made
    assert option not in command_line(nsys, ProfileSettings(gpu_metrics=True), STEM, HOST, 1)


def test_gpu_metrics_that_are_refused_are_left_out_with_the_tools_words(pretend_nsys: Pretend) -> None:
    nsys = pretend_nsys(
        'case "$*" in *--gpu-metrics-device=all*) echo "Insufficient privilege: ERR_NVGPUCTRPERM" >&2; exit 1;; esac\n'
        'echo "unrecognised option" >&2; exit 1'
    )
    assert gpu_metrics(str(nsys)) == ((), "Insufficient privilege: ERR_NVGPUCTRPERM")
    assert not any(
        "gpu-metrics" in part for part in command_line(nsys, ProfileSettings(gpu_metrics=True), STEM, CUDA, 1)
    )


def test_a_trial_that_hangs_is_given_up(pretend_nsys: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_command, "_PROBE_S", 0.3)
    options, why = gpu_metrics(str(pretend_nsys("exec sleep 30")))
    assert options == ()
    assert "did not end within 0.3 s" in why
