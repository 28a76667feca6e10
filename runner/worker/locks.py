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

from runner.backend.base import BackendError, DeviceInfo

ASK_S = 5.0
"""Who waits for a lock is asked this often whether to go on waiting."""


def folder() -> Path:
    """Shared by all users of the machine (``RUNNER_LOCKS`` names another). Not below ``TMPDIR``: batch systems give
    every job one of its own, and two jobs on a machine would then not see each other's locks."""
    shared = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    path = Path(os.environ.get("RUNNER_LOCKS") or shared / "gpu-runner-locks")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if path.stat().st_uid == os.getuid():
            path.chmod(0o1777)
    except OSError as error:
        raise _unusable(path, error) from error
    return path


def _unusable(path: Path, error: OSError) -> BackendError:
    why = error.strerror or str(error)
    return BackendError(f"RUNNER_LOCKS={path}: devices cannot be locked there: {why}; name a folder that all can write")


def names(devices: Iterable[DeviceInfo]) -> list[str]:
    """Lock names in the order in which they are taken; sorted, so that two experiments never wait in a circle."""
    return sorted({"host" if d.backend == "host" else f"cuda-{d.uuid}" for d in devices})


@contextmanager
def hold(devices: Iterable[DeviceInfo], waiting: Callable[[str], None]) -> Iterator[None]:
    """Takes the devices' locks; calls ``waiting(name)`` for each that another experiment holds, and again every few
    seconds: what it raises ends the wait."""
    with ExitStack() as stack:
        for name in names(devices):
            lock = FileLock(folder() / f"{name}.lock", mode=0o666)
            patience = 0.0
            while not lock.is_locked:
                try:
                    lock.acquire(timeout=patience)
                except Timeout:
                    waiting(name)
                    patience = ASK_S
                except OSError as error:
                    raise _unusable(folder(), error) from error
            stack.callback(lock.release)
        yield
