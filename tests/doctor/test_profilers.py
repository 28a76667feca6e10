"""NVIDIA's tools, pretended: there, missing, broken, and not allowed to count."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.doctor import profilers
from runner.doctor.model import State
from tests.backend.test_topology import Linked

VERSION = '[ "$1" = --version ] && { echo "NVIDIA (R) tool, Version 2025.3.1.0"; exit 0; }; '


@pytest.fixture
def ncu(pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A pretended ncu beside a pretended PyCUDA."""

    def make(body: str) -> None:
        monkeypatch.setenv("RUNNER_NCU", str(pretend("ncu", VERSION + body)))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())

    return make


def test_a_kernel_that_is_counted_is_proof(ncu: Callable[[str], None], library: Linked) -> None:
    ncu("echo '==PROF== Profiling \"probe\"'; echo '    sm__cycles_elapsed.max  cycle  1,234'")
    assert profilers.counters().state is State.OK


def test_a_driver_that_forbids_counting_is_told_with_the_mend(ncu: Callable[[str], None], library: Linked) -> None:
    ncu("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters'; exit 1")
    answer = profilers.counters()
    assert answer.state is State.BROKEN
    assert "ERR_NVGPUCTRPERM" in answer.found
    assert "NVreg_RestrictProfilingToAdminUsers=0" in answer.mend


def test_any_other_failure_shows_the_tools_own_words(ncu: Callable[[str], None], library: Linked) -> None:
    ncu("echo starting; echo '==ERROR== Driver resource unavailable'; echo '==WARNING== nothing'; exit 9")
    answer = profilers.counters()
    assert answer.state is State.BROKEN
    assert "==ERROR== Driver resource unavailable" in answer.found


def test_a_success_without_a_counted_kernel_is_none(ncu: Callable[[str], None], library: Linked) -> None:
    ncu("echo '==WARNING== No kernels were profiled.'; exit 0")
    assert profilers.counters().state is State.BROKEN


def test_counters_are_not_tried_without_a_gpu(ncu: Callable[[str], None], no_nvml: None) -> None:
    ncu("exit 0")
    answer = profilers.counters()
    assert (answer.state, answer.found) == (State.MISSING, "cannot be tried without a GPU")


@pytest.mark.parametrize("variable", ["RUNNER_NSYS", "RUNNER_NCU", "RUNNER_COMPUTE_SANITIZER"])
def test_tools_tell_their_version_or_are_broken(
    pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    names = {"RUNNER_NSYS": "Nsight Systems", "RUNNER_NCU": "Nsight Compute"}
    (probe,) = [p for p in profilers.probes() if p.name == names.get(variable, "Compute Sanitizer")]
    path = pretend("tool", 'echo "tool version 2025.3.1.0"')
    monkeypatch.setenv(variable, str(path))
    assert probe.answer().found == f"{path}: 2025.3.1.0"
    monkeypatch.setenv(variable, "/none")
    answer = probe.answer()
    assert answer.state is State.BROKEN
    assert f"{variable}=/none is not a working" in answer.found
    assert variable in answer.mend


def test_ranges_that_this_nsys_does_not_record_are_told(
    pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_NSYS", str(pretend("nsys", 'echo "NVIDIA Nsight Systems version 2023.4.4.54"')))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.2.14")
    answer = profilers.ranges()
    assert (answer.state, answer.found) == (
        State.BROKEN,
        "nvtx 0.2.14 is not recorded by Nsight Systems 2023.4.4.54",
    )
    assert answer.mend == "pip install 'nvtx<0.2.12', or install a newer Nsight Systems"


def test_the_counted_program_is_valid_python() -> None:
    compile(profilers._KERNEL, "probe", "exec")
