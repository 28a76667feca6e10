"""Which processes on a GPU are told of: those that are others' for certain."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runner.backend import nvml
from runner.backend.company import Company

LISTED: list[list[int]] = []


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers ``LISTED`` one after another; the last one for ever."""
    LISTED.clear()
    monkeypatch.setattr(nvml.Gpu, "compute_pids", lambda gpu: LISTED.pop(0) if len(LISTED) > 1 else LISTED[0])


def seen(*uuids: str) -> list[str]:
    company = Company(uuids or ["GPU-a"])
    company.look()
    company.look()
    return company.words()


def test_this_process_and_its_driver_are_no_company() -> None:
    LISTED.append([os.getpid(), os.getppid()])
    assert seen() == []


def test_another_process_is_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        LISTED.append([os.getpid(), other.pid])
        (said,) = seen()
        other.communicate()
    assert said.startswith(f"another process has the GPU open ({other.pid} python")


def test_one_that_comes_while_it_is_measured_counts_and_one_that_is_gone_has_no_name() -> None:
    LISTED.extend([[os.getpid()], [os.getpid(), 2**22 + 1]])
    assert seen() == ["another process has the GPU open (4194305): what they do meanwhile is in these times"]


def test_a_worker_of_another_command_waits_for_the_lock() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", "runner.worker"], stdin=subprocess.PIPE) as other:
        LISTED.append([os.getpid(), other.pid])
        assert seen() == []
        other.communicate()


def test_nothing_is_sure_where_the_driver_counts_processes_otherwise() -> None:
    LISTED.append([2**22 + 1, 2**22 + 2])
    assert seen() == []


def test_without_a_gpu_nobody_is_asked() -> None:
    company = Company([])
    company.look()
    assert company.words() == []
