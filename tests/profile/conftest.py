"""A real nsys where there is one, a program that behaves like a worker, and a pretend nsys for its
failures."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.profile.base import Capture, Ended, Holds, Launch

REPOSITORY = Path(__file__).resolve().parents[2]

WORKER = """
import os, sys, time
from runner.profile import nvtx

class Backend:
    def start_profiler(self): pass
    def stop_profiler(self): pass

with nvtx.range("decode/demo/prepare"):
    time.sleep(0.01)
for variant in sys.argv[2:]:
    with nvtx.capture(Backend(), "decode/demo/" + variant):
        time.sleep(0.002)
if sys.argv[1] == "hang":
    print("hanging", os.getpid(), flush=True)
    with nvtx.capture(Backend(), "decode/demo/never"):
        time.sleep(600)
sys.exit(int(sys.argv[1]))
"""
"""``WORKER <exit code or hang> <variant>...``: ranges as ``runner.profile.nvtx`` tells the worker to emit
them."""


def _find() -> str:
    chosen = os.environ.get("RUNNER_NSYS") or shutil.which("nsys")
    if chosen:
        return chosen
    unpacked = sorted((REPOSITORY / ".nsight").glob("**/target-linux-*/nsys"))
    return str(unpacked[0]) if unpacked else ""


@pytest.fixture
def nsys(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a real nsys, which the runner is made to use."""
    path = _find()
    if not path:
        pytest.skip("no Nsight Systems: not on the PATH, in $RUNNER_NSYS or below .nsight/")
    monkeypatch.setenv("RUNNER_NSYS", path)
    return Path(path)


@pytest.fixture
def run_worker(tmp_path: Path) -> Callable[..., Ended]:
    """Runs ``WORKER`` under a launch, as a driver would."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER)

    def run(launch: Launch, *arguments: str, timeout_s: float = 60.0) -> Ended:
        process = subprocess.Popen(
            [*launch.command, sys.executable, str(script), *arguments],
            env={**os.environ, **launch.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            return Ended(None, timed_out=True, output=(late.stdout or b"").decode())
        return Ended(process.returncode, output=output)

    return run


@pytest.fixture
def captures(tmp_path: Path) -> Callable[..., list[Capture]]:
    """Captures of the given variants, each with a folder of its own."""

    def make(*variants: str, holds: Holds = "ranges") -> list[Capture]:
        folder = tmp_path / "job"
        return [Capture(v, f"decode/demo/{v}", f"model_{v}", folder / v, holds) for v in variants]

    return make


@pytest.fixture
def pretend_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """An executable in place of nsys: a version, and the given shell commands for everything else."""

    def make(body: str) -> Path:
        folder = tmp_path / "pretend"
        folder.mkdir(exist_ok=True)
        path = folder / "nsys"
        path.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2025.1.1.0"; exit 0; fi\n'
            f"{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("RUNNER_NSYS", str(path))
        return path

    return make
