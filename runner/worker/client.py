"""The driver's end of a worker: start it, ask, listen with a deadline, replace it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from runner.worker import protocol
from runner.worker.locks import ASK_S

START_S = 120.0
"""A worker must report within this; opening a CUDA context on a machine with many GPUs takes seconds."""
STOP_S = 60.0
"""A worker asked to exit has this long (a profiler round it writes its reports then)."""

LOG_BYTES = 8000
"""Of a worker's stderr, its end: what explains how it ended."""
AWAKE_S = 1.0
"""The driver's thread wakes this often: Ray interrupts a task without a signal, which a thread at rest does not see."""
WAIT_S = 12 * ASK_S
"""A worker that waits for a lock says so again and again; after this long a silence it hangs."""


class WorkerDied(RuntimeError):
    """The process ended in mid-conversation; ``detail`` says how, ``log`` has the end of its stderr.

    ``code`` is its exit code, negative for a signal; None where it did not end by itself.
    """

    def __init__(self, detail: str, log: str, code: int | None = None) -> None:
        self.detail = detail
        self.log = log
        self.code = code
        super().__init__(detail)


class WorkerTimeout(RuntimeError):
    """Nothing was heard in time; the worker has been killed."""


@dataclass(frozen=True)
class WorkerKey:
    """What makes two experiments able to share a worker."""

    backend: str
    devices: tuple[int, ...]
    environment: tuple[tuple[str, str], ...] = ()
    prefix: tuple[str, ...] = ()
    """Command line put before the interpreter: ``nsys profile …``."""


@dataclass
class Worker:
    """One child process."""

    key: WorkerKey
    folder: Path | None = None
    _process: subprocess.Popen[bytes] = field(init=False)
    _lines: queue.SimpleQueue[bytes | None] = field(init=False, default_factory=queue.SimpleQueue)
    _log: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the worker
        command = [*self.key.prefix, sys.executable, "-m", "runner.worker", self.key.backend]
        root = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, **dict(self.key.environment)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
            cwd=self.folder,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # the pipe is closed by stop() while we read
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def send(self, kind: str, **fields: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(protocol.encode(kind, **fields))
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._died() from None

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next message. Raises ``WorkerTimeout`` (after killing the worker) or ``WorkerDied``."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(queue.Empty):
                line = self._lines.get(timeout=max(0.0, min(AWAKE_S, deadline - time.monotonic())))
                if line is None:
                    raise self._died()
                message = protocol.decode(line)
                if message is not None:
                    return message
            # Also after lines that are none of ours: they are no answer, however many there are.
            if time.monotonic() >= deadline:
                self.kill()
                raise WorkerTimeout(f"no answer within {timeout_s:g} s")

    def messages(self, timeout_s: float, last: str) -> Iterator[dict[str, Any]]:
        """Messages up to the one of kind ``last``; a worker that says it waits for a lock may wait for ever."""
        limit = timeout_s
        while True:
            message = self.receive(limit)
            limit = WAIT_S if message["kind"] == "waiting" else timeout_s
            yield message
            if message["kind"] == last:
                return

    def _died(self) -> WorkerDied:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
            return WorkerDied("the worker closed its pipe and did not exit", self.log())
        return WorkerDied(f"the worker {how(code)}", self.log(), code)

    def log(self) -> str:
        """The end of what the worker wrote to stderr, ``LOG_BYTES`` at most."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_BYTES))
        return self._log.read().decode(errors="replace")

    def stop(self, timeout_s: float = STOP_S) -> int | None:
        """Asks the worker to exit and waits; returns its exit code, or None when it had to be killed."""
        with contextlib.suppress(WorkerDied):
            self.send("exit")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """Ends the process and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()


class WorkerPool:
    """Keeps one worker alive; another key (other devices, environment or prefix) replaces it."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def get(self, key: WorkerKey) -> Worker:
        """A living worker for this key. Raises ``WorkerDied`` when it cannot be started."""
        if self._worker is not None and (self._worker.key != key or not self._worker.alive):
            self.close()
        if self._worker is None:
            worker = Worker(key)
            try:
                message = worker.receive(START_S)
            except BaseException:
                worker.kill()
                raise
            if message["kind"] != "ready":
                worker.kill()
                raise WorkerDied(str(message.get("message", message)), worker.log())
            self._worker = worker
        return self._worker

    def discard(self) -> None:
        """Kills the worker at once: after an error nothing it holds can be trusted."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def how(code: int) -> str:
    """An exit code in words: ``was killed by SIGSEGV``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
