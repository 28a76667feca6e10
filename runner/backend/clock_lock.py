"""The SM clock of GPUs held at one frequency, through NVML, and let go again whatever happens.

Who locks lets go in a ``finally``. For an end that leaves no time for that (SIGKILL, ``os._exit``) a child process,
``clock_guard.py``, waits for the pipe to its parent to close. NVML does not tell what was locked before: a lock that
somebody else had set is gone afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from runner.backend import nvml
from runner.backend.base import BackendError

DONE = b"done\n"
"""What the guard reads when it is no longer needed; any other end of its input means that its parent is gone."""
READY = b"ready\n"
"""What the guard says once it could let go at once."""
_SET, _RESET = "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"
_STOP_S = 10.0
"""A dismissed guard ends within this."""


class ClockError(BackendError):
    """Clocks could not be locked, or not be let go."""


class ClockRefused(ClockError):
    """The clocks cannot be locked; the message says why and what is needed."""


class ClockLeft(ClockError):
    """The clocks could not be let go; the message says how to do it by hand."""


@contextmanager
def locked(uuids: Sequence[str], mhz: int) -> Iterator[None]:
    """Holds these GPUs' SM clocks at ``mhz``. Raises ``ClockRefused`` where that is not possible, with nothing locked;
    ``ClockLeft`` at the end where one could not be let go."""
    library, why = nvml.opened()
    if library is None:
        raise ClockRefused(why)
    if not hasattr(library, _SET):
        raise ClockRefused(f"this nvidia-ml-py has no {_SET}: update it (pip install -U nvidia-ml-py)")
    guard = _Guard(uuids)  # before anything is locked: from here on somebody lets go
    taken: list[str] = []
    try:
        for uuid in uuids:
            taken.append(uuid)  # first: an interrupt may come as soon as it is locked
            _lock(library, uuid, mhz)
        yield
    finally:
        left = let_go(library, taken)
        guard.dismiss()
    if left:
        raise ClockLeft(left)


def _lock(library: Any, uuid: str, mhz: int) -> None:
    try:
        getattr(library, _SET)(library.nvmlDeviceGetHandleByUUID(uuid), mhz, mhz)
    except library.NVMLError as error:
        highest = nvml.Gpu(uuid).max_sm_clock_mhz()
        known = f" (its SM clock goes up to {highest} MHz)" if highest else ""
        raise ClockRefused(
            f"NVML does not lock the clock of {uuid}{known}: {error}. It takes root, or an administrator who locks it "
            f"with 'nvidia-smi -lgc {mhz}'; then leave measure.lock_clocks at 0"
        ) from error


def let_go(library: Any, uuids: Sequence[str]) -> str:
    """Lets every one of them go; what failed in words, empty when nothing did."""
    failed = []
    for uuid in uuids:
        try:
            getattr(library, _RESET)(library.nvmlDeviceGetHandleByUUID(uuid))
        except library.NVMLError as error:
            failed.append(f"the clock of {uuid} may still be locked ({error}): run 'nvidia-smi -i {uuid} -rgc' as root")
    return "; ".join(failed)


class _Guard:
    """The child process that lets the clocks go when this one is gone."""

    def __init__(self, uuids: Sequence[str]) -> None:
        """Returns once the child is ready. Raises ``ClockRefused``."""
        root = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
        # A session of its own: Ctrl-C and a terminal that is closed end the whole group of this one.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runner.backend.clock_guard", *uuids],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        if self._pipe(self._process.stdout).readline() != READY:
            self._process.kill()
            self._process.wait()
            raise ClockRefused("the process that would unlock the clocks in an emergency does not start")

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe

    def dismiss(self) -> None:
        """It may be gone already: who ends a command at once ends its children."""
        with suppress(OSError):
            self._pipe(self._process.stdin).write(DONE)
            self._pipe(self._process.stdin).close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe(self._process.stdout).close()
