"""Who else has a GPU open while it is measured, as far as the driver says so for certain."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import psutil

from runner.backend.nvml import Gpu

_WORKER = "runner.worker"
"""In the command line of a worker of this runner; whoever's it is, it waits for the device's lock meanwhile."""


class Company:
    """Processes seen on several GPUs that are none of this runner's; ask it before and after what must be alone."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._gpus = [Gpu(uuid) for uuid in uuids]
        self._seen: dict[int, str] = {}
        """Number of a process → its name."""

    def look(self) -> None:
        """Notes the processes that have one of the GPUs open now."""
        for gpu in self._gpus:
            listed = gpu.compute_pids() or []
            # In a container the driver may list other numbers than this process knows: then nobody is known for sure.
            if os.getpid() in listed:
                self._seen.update({pid: _name(pid) for pid in listed if not _own(pid)})

    def words(self) -> list[str]:
        """One sentence where somebody was seen."""
        if not self._seen:
            return []
        listed = ", ".join(f"{pid} {name}".strip() for pid, name in sorted(self._seen.items()))
        what = "another process has" if len(self._seen) == 1 else "other processes have"
        return [f"{what} the GPU open ({listed}): what they do meanwhile is in these times"]


def _own(pid: int) -> bool:
    """This process, the one that started it, or a worker of this runner."""
    if pid in (os.getpid(), os.getppid()):
        return True
    with contextlib.suppress(psutil.Error):
        return _WORKER in psutil.Process(pid).cmdline()
    return False


def _name(pid: int) -> str:
    """Empty for a process of which nothing more is known."""
    with contextlib.suppress(psutil.Error):
        return str(psutil.Process(pid).name())
    return ""
