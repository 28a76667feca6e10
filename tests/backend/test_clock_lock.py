"""Locked clocks with a pretended NVML, which writes down what is asked of it: they are let go whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.backend import clock_lock, nvml
from runner.backend.clock_lock import ClockLeft, ClockRefused, locked

NVML = """
import os

class NVMLError(Exception):
    pass

NVML_CLOCK_SM = 1

def say(line):
    with open(os.environ["CLOCK_LOG"], "a") as log:
        log.write(line + "\\n")

def nvmlInit(): ...
def nvmlShutdown(): ...
def nvmlDeviceGetHandleByUUID(uuid):
    return uuid

def nvmlDeviceGetMaxClockInfo(handle, kind):
    return 1980

def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    if handle in os.environ.get("CLOCK_REFUSED", ""):
        raise NVMLError("Insufficient Permissions")
    say(f"lock {handle} {low} {high}")

def nvmlDeviceResetGpuLockedClocks(handle):
    if handle in os.environ.get("CLOCK_STUCK", ""):
        raise NVMLError("GPU is lost")
    say(f"reset {handle}")
"""
HOLD = """
import sys, time
from runner.backend.clock_lock import locked
with locked(sys.argv[1:], 1500):
    print("in", flush=True)
    time.sleep(60)
"""


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Log]:
    """What was asked of the pretended library, by this process and by those that it starts."""
    (tmp_path / "pynvml.py").write_text(NVML)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(nvml.__file__).parents[2])]))
    monkeypatch.setenv("CLOCK_LOG", str(tmp_path / "log"))
    nvml._start.cache_clear()
    yield Log(tmp_path / "log")
    nvml._start.cache_clear()
    sys.modules.pop("pynvml", None)


def guard() -> psutil.Process:
    (found,) = [child for child in psutil.Process().children() if "runner.backend.clock_guard" in child.cmdline()]
    return found


def test_clocks_are_locked_inside_and_let_go_once(log: Log) -> None:
    with locked(["GPU-a", "GPU-b"], 1500):
        assert log.lines == ["lock GPU-a 1500 1500", "lock GPU-b 1500 1500"]
    assert log.lines[2:] == ["reset GPU-a", "reset GPU-b"]
    assert not [child for child in psutil.Process().children() if "runner.backend.clock_guard" in child.cmdline()]


def test_an_interrupt_lets_them_go(log: Log) -> None:
    with pytest.raises(KeyboardInterrupt), locked(["GPU-a"], 1500):
        raise KeyboardInterrupt
    assert log.lines == ["lock GPU-a 1500 1500", "reset GPU-a"]


def test_without_permission_nothing_stays_locked(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCK_REFUSED", "GPU-b")
    with pytest.raises(ClockRefused) as refused, locked(["GPU-a", "GPU-b"], 1500):
        raise AssertionError("the clocks are not locked")
    assert str(refused.value) == (
        "NVML does not lock the clock of GPU-b (its SM clock goes up to 1980 MHz): Insufficient Permissions. It takes "
        "root, or an administrator who locks it with 'nvidia-smi -lgc 1500'; then leave measure.lock_clocks at 0"
    )
    assert log.lines == ["lock GPU-a 1500 1500", "reset GPU-a", "reset GPU-b"]


def test_an_interrupt_while_a_clock_is_being_locked_lets_it_go(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = clock_lock._lock

    def interrupted(library: Any, uuid: str, mhz: int) -> None:
        lock(library, uuid, mhz)
        raise KeyboardInterrupt

    monkeypatch.setattr(clock_lock, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt), locked(["GPU-a", "GPU-b"], 1500):
        raise AssertionError("must not get here")
    assert log.lines == ["lock GPU-a 1500 1500", "reset GPU-a"]


def test_clocks_that_stay_locked_are_told_with_what_to_do(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCK_STUCK", "GPU-a")
    with (
        pytest.raises(ClockLeft, match=r"GPU-a may still be locked \(GPU is lost\): run 'nvidia-smi -i GPU-a -rgc'"),
        locked(["GPU-a", "GPU-b"], 1500),
    ):
        pass
    assert log.lines[-1] == "reset GPU-b"


def test_a_killed_process_leaves_no_clock_locked(log: Log) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, "GPU-a", "GPU-b"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"in\n"
        assert "reset GPU-a" not in log.lines
        holder.kill()
    end = time.monotonic() + 20
    while "reset GPU-b" not in log.lines and time.monotonic() < end:
        time.sleep(0.02)
    assert log.lines[2:] == ["reset GPU-a", "reset GPU-b"]


def test_signals_to_the_whole_job_leave_the_guard_alive(log: Log) -> None:
    with locked(["GPU-a"], 1500):
        watching = guard()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            watching.send_signal(number)
        time.sleep(0.1)
        assert watching.is_running() and watching.status() != psutil.STATUS_ZOMBIE
    assert log.lines == ["lock GPU-a 1500 1500", "reset GPU-a"]


def test_a_killed_guard_is_no_harm_to_its_parent(log: Log) -> None:
    with locked(["GPU-a"], 1500):
        guard().kill()
    assert log.lines == ["lock GPU-a 1500 1500", "reset GPU-a"]


def test_without_nvml_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "opened", lambda: (None, "NVML cannot start: no driver"))
    with pytest.raises(ClockRefused, match="no driver"), locked(["GPU-a"], 1500):
        raise AssertionError("the clocks are not locked")


def test_an_old_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "opened", lambda: (object(), ""))
    with pytest.raises(ClockRefused, match="update it"), locked(["GPU-a"], 1500):
        raise AssertionError("the clocks are not locked")
