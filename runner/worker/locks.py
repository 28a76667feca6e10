"""One experiment per device at a time, also between two users' commands on one machine.

A lock is a file held with ``flock``: it goes with the process, so a killed worker leaves none behind. All virtual
devices of the host backend share one lock, for they share the machine's cores.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from runner.backend.base import DeviceInfo


def folder() -> Path:
    """Shared by all users of the machine (``RUNNER_LOCKS`` names another)."""
    path = Path(os.environ.get("RUNNER_LOCKS") or Path(tempfile.gettempdir()) / "gpu-runner-locks")
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_uid == os.getuid():
        path.chmod(0o1777)
    return path


def names(devices: Iterable[DeviceInfo]) -> list[str]:
    """Lock names in the order in which they are taken; sorted, so that two experiments never wait in a circle."""
    return sorted({"host" if d.backend == "host" else f"cuda-{d.uuid}" for d in devices})


@contextmanager
def hold(devices: Iterable[DeviceInfo], waiting: Callable[[str], None]) -> Iterator[None]:
    """Takes the devices' locks; calls ``waiting(name)`` once for each that another experiment holds."""
    with ExitStack() as stack:
        for name in names(devices):
            lock = FileLock(folder() / f"{name}.lock", mode=0o666)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                waiting(name)
                lock.acquire()
            stack.callback(lock.release)
        yield
