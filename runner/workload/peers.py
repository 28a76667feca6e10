"""What the devices of an experiment may do with each other's memory: asked, and then tried before anything is timed.

The trial runs in a process of its own (``peer_trial.py``) with a time limit for each pair. What it finds wrong, or a
pair that it never finishes, makes every variant that needs the pair INCORRECT; the process that measures moves nothing
over it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.backend.base import BackendError, Device, Unsupported, Untrusted
from runner.workload.base import Context
from runner.workload.peer_trial import KERNEL

START_S = 120.0
"""Until the devices are open: contexts of many GPUs take seconds."""
PAIR_S = 20.0
"""For a pair, which moves 1 MiB four times."""
END_S = 5.0
"""A killed process has this long to be gone; a device that hangs may keep it."""
WAYS = {"copy": "a copy by the copy engine", "read": "a kernel's reads", "write": "a kernel's writes"}

Pair = tuple[int, int]


@dataclass(frozen=True)
class Access:
    """What is known of one way from a device to another."""

    direct: bool
    """Both can address the other's memory; otherwise copies go through host memory."""
    wrong: str = ""
    """Why nothing is measured over it; empty when all that was sent arrived."""


_TRIED: dict[tuple[str, str, str], Access] = {}
"""By (backend, UUID from, UUID to): once in the life of a process."""


class Peers:
    """The devices of an experiment, by their positions in it."""

    def __init__(self, context: Context) -> None:
        """Raises ``LaunchError`` where the family's program lacks the kernel of the trial."""
        self._devices = context.devices
        self._program = context.modules[0]["main"].program
        context.function(KERNEL)

    @property
    def positions(self) -> list[Pair]:
        """Every ordered pair."""
        count = len(self._devices)
        return [(a, b) for a in range(count) for b in range(count) if a != b]

    def try_all(self, pairs: Iterable[Pair] | None = None) -> None:
        """Tries every pair that this process has not tried yet."""
        wanted = [(self._devices[a], self._devices[b]) for a, b in (self.positions if pairs is None else pairs)]
        waiting = [pair for pair in wanted if _key(*pair) not in _TRIED]
        if waiting:
            _TRIED.update(tried(waiting, self._program))

    def access(self, source: int, target: int) -> Access:
        """Of a pair that was tried. Raises ``KeyError`` otherwise."""
        return _TRIED[_key(self._devices[source], self._devices[target])]

    def require(self, pairs: Iterable[Pair], direct: bool) -> None:
        """Raises ``Untrusted`` for a pair that was found wrong, and ``Unsupported`` where ``direct`` access is needed
        and there is none."""
        chosen = list(pairs)
        self.try_all(chosen)
        for source, target in chosen:
            found = self.access(source, target)
            one, two = (self._devices[place].info.ordinal for place in (source, target))
            if found.wrong:
                raise Untrusted(f"from device {one} to device {two}: {found.wrong}")
            if direct and not found.direct:
                raise Unsupported(f"devices {one} and {two} cannot address each other's memory")


def _key(source: Device, target: Device) -> tuple[str, str, str]:
    return (source.info.backend, source.info.uuid, target.info.uuid)


def tried(pairs: Sequence[tuple[Device, Device]], program: Path) -> dict[tuple[str, str, str], Access]:
    """What a trial of every pair finds. A process that hangs or dies costs the pair it was at; another goes on."""
    found: dict[tuple[str, str, str], Access] = {}
    left = list(pairs)
    while left:
        ordinals = [(source.info.ordinal, target.info.ordinal) for source, target in left]
        command = [sys.executable, "-m", "runner.workload.peer_trial", left[0][0].info.backend, str(program)]
        done, end = run_trial([*command, json.dumps(ordinals)])
        for wrong in done:
            source, target = left.pop(0)
            said = "; ".join(f"{WAYS[way]}: {text}" for way, text in wrong.items() if text)
            found[_key(source, target)] = Access(_direct(source, target), said)
        if left:
            source, target = left.pop(0)
            found[_key(source, target)] = Access(
                _direct(source, target), end or "the trial of this pair ended without a word"
            )
    return found


def _direct(source: Device, target: Device) -> bool:
    return source.can_access_peer(target) and target.can_access_peer(source)


def run_trial(
    command: Sequence[str], start_s: float = START_S, pair_s: float = PAIR_S
) -> tuple[list[dict[str, str]], str]:
    """What the process said of each pair in turn, and, where it did not end well, how it ended.

    Raises ``BackendError`` where it ended before it had opened the devices: no pair is to blame.
    """
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        done: list[dict[str, str]] = []
        limit_s, opened = start_s, False
        try:
            while True:
                try:
                    line = lines.get(timeout=limit_s)
                except queue.Empty:
                    end = f"did not end within {limit_s:g} s"
                    if not opened:
                        raise BackendError(f"peer access cannot be tried: the process for it {end}") from None
                    return done, f"its trial {end}"
                if line is None:
                    break
                with contextlib.suppress(ValueError):  # something else that was printed
                    said = json.loads(line)
                    if isinstance(said, dict):
                        limit_s, opened = pair_s, True
                        done += [said["wrong"]] if "wrong" in said else []
        finally:
            _end(process)
        code = process.returncode
        if code == 0:
            return done, ""
        log.seek(0)
        last = log.read().decode(errors="replace").strip().splitlines()[-1:] or [""]
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with code {code}"
        if not opened:
            raise BackendError(f"peer access cannot be tried: the process for it {how}. {last[0]}".strip())
        return done, f"its trial {how}. {last[0]}".strip()


def _read(stream: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(ValueError):
        for line in stream:
            lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """Waits for a process that is done, kills one that is not, and does not wait for one that a device keeps."""
    begin = time.monotonic()
    while process.poll() is None and time.monotonic() - begin < END_S / 5:
        time.sleep(0.01)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=END_S)
