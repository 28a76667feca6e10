"""What becomes of a GPU's reports, with real exports of one (``tests/data/timeline``) and a pretend tool."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.profile import nsys_command
from runner.profile.base import Capture, Ended, Holds, ProfileSettings, Subject
from runner.profile.nsys import NsysProfiler
from runner.result.model import Profile, ProfileStatus

DATA = Path(__file__).resolve().parents[1] / "data" / "timeline"
CUDA = Subject("worker", "cuda")
EAGER = "decode/cuda_graph_decode/eager"
Pretend = Callable[[str], Path]


def collected(
    tmp_path: Path,
    pretend_nsys: Pretend,
    export: str,
    name: str,
    holds: Holds,
    settings: ProfileSettings,
    subject: Subject,
) -> Profile:
    """The profile of a report that exports to ``export``."""
    pretend_nsys(f'for a in "$@"; do case $a in --output=*) cp "{DATA / export}" "${{a#--output=}}";; esac; done')
    profiler = NsysProfiler(settings)
    (launch,) = profiler.launches([Capture("a", name, "model_a", tmp_path / "a", holds)], subject)
    (launch.scratch / "capture.nsys-rep").write_bytes(b"raw")
    (profile,) = profiler.collect(launch, Ended(0))
    return profile


def test_a_report_of_kernels_becomes_tables_and_metrics(tmp_path: Path, pretend_nsys: Pretend) -> None:
    settings = ProfileSettings(steps=3)
    profile = collected(tmp_path, pretend_nsys, "cuda_graph_decode.eager.sqlite", EAGER, "kernels", settings, CUDA)
    assert (profile.status, profile.reason) == (ProfileStatus.OK, "")
    tables = ("ranges", "kernels", "categories", "calls", "gaps", "gap_causes")
    assert profile.artifacts == ["model_a.nsys-rep", *(f"model_a_{table}.csv" for table in tables)]
    assert [raw.path for raw in profile.reports] == ["model_a.nsys-rep"]
    with (tmp_path / "a" / "model_a_kernels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["calls"]) for row in rows) == sum(kernel.calls for kernel in profile.kernels) > 0
    launches = sum(kernel.calls for kernel in profile.kernels if kernel.category not in ("memcpy", "memset"))
    assert profile.metrics["kernels_per_step"] == pytest.approx(launches / 3)
    assert 0 < profile.metrics["gpu_idle_share"] < 1


def test_a_programs_report_is_taken_whole_as_one_step(tmp_path: Path, pretend_nsys: Pretend) -> None:
    subject = Subject("program", "cuda")
    settings = ProfileSettings(steps=3)
    profile = collected(tmp_path, pretend_nsys, "cuda_graph_decode.eager.sqlite", "none", "ranges", settings, subject)
    assert profile.status is ProfileStatus.OK
    assert profile.metrics["kernels_per_step"] == sum(
        kernel.calls for kernel in profile.kernels if kernel.category not in ("memcpy", "memset")
    )


def test_metrics_of_the_gpu_that_are_refused_are_told_in_a_good_profile(
    tmp_path: Path, pretend_nsys: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.profile.nsys.gpu_metrics", lambda nsys: ((), "Insufficient privilege"))
    monkeypatch.setattr(nsys_command, "gpu_metrics", lambda nsys: ((), "Insufficient privilege"))
    settings = ProfileSettings(steps=3, gpu_metrics=True)
    profile = collected(tmp_path, pretend_nsys, "cuda_graph_decode.eager.sqlite", EAGER, "kernels", settings, CUDA)
    assert profile.status is ProfileStatus.OK
    assert profile.reason == "GPU metrics were not sampled: Insufficient privilege"
