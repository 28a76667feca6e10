"""A real Ray on this machine, in namespaces of its own: it reaches no network, and ends with its first process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

PORT = 26379
_NAMESPACES = ("--net", "--pid", "--mount")
_LOOPBACK = """
import fcntl, socket, struct
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH", b"lo", 0x41))
"""
"""Brings the loopback device up: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING."""


@lru_cache(maxsize=1)
def reason() -> str:
    """Why there can be none; empty when there can."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is not installed (pip install '.[ray]')"
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return "no unshare and nsenter (util-linux)"
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces of its own for Ray: {tried.stderr.strip()}" if tried.returncode else ""


class RayHere:
    """Two CPUs; ``gpus`` that are only counted, and ``resources`` as ``ray start`` takes them."""

    def __init__(self, holder: int, folder: Path) -> None:
        self._holder = holder
        self.folder = folder

    def run(self, command: list[str], working: Path, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs a command beside it."""
        return subprocess.run(
            self.inside(command, working), capture_output=True, text=True, timeout=timeout, check=False
        )

    def inside(self, command: list[str], working: Path) -> list[str]:
        """The command line that does."""
        kinds = [f"{kind}=/proc/{self._holder}/ns/{kind[2:].replace('mount', 'mnt')}" for kind in _NAMESPACES]
        return ["nsenter", *kinds, f"--wd={working}", *command]


def _first_child(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(children.read_text().split()[0])


@contextlib.contextmanager
def started(gpus: int = 2, resources: str = '{"h100_sxm": 1}') -> Iterator[RayHere]:
    """Runs while the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets: their paths must be short
    ray = shlex.join(
        [
            *(str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", f"--port={PORT}"),
            *("--include-dashboard=false", "--disable-usage-stats", "--num-cpus=2", f"--num-gpus={gpus}"),
            *(f"--temp-dir={folder}", f"--resources={resources}", "--object-store-memory=100000000"),
        ]
    )
    script = f"{shlex.join([sys.executable, '-c', _LOOPBACK])} && exec {ray}"
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--mount-proc", "--fork", "--kill-child", "sh", "-c", script],
            stdout=log,
            stderr=log,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while b"Ray runtime started" not in (folder / "start.log").read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "start.log").read_text()
            time.sleep(0.2)
        yield RayHere(_first_child(process), folder)
    finally:
        process.send_signal(signal.SIGKILL)  # --kill-child: the first process goes too, and with it all others
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
