"""One started program: a session of its own, its output kept, its end waited for, nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType

import psutil

from runner.plan.model import CommandPlan
from runner.profile import processes
from runner.program import family
from runner.program.output import Captured
from runner.program.usage import Usage
from runner.result.model import Status
from runner.streams import printable
from runner.worker.client import how

_LINGER_S = 0.5
"""Children may end this long after the program itself."""
_DRAIN_S = 2.0
_LATE_S = 0.2
"""The last words of a program that has just ended are read within this."""
_ROUNDS = 5
"""Of killing: a process may start another while the list is made."""


class ProgramFailed(RuntimeError):
    """The program did not do what it was started for; ``status`` is the result's."""

    def __init__(self, status: Status, message: str) -> None:
        self.status = status
        super().__init__(message)


class Process:
    """A running program. Leaving the context ends whatever is left of it."""

    def __init__(
        self,
        command: CommandPlan,
        argv: Sequence[str],
        *,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        watch: str = "",
    ) -> None:
        """``prefix`` and ``environment`` are a profiler's; ``watch``: regular expression for a line of output.

        Raises ``ProgramFailed`` where the system cannot run it.
        """
        self.argv = tuple(argv)
        self.mark = uuid.uuid4().hex
        self.killed = False
        """It had to be killed."""
        self.left_behind = 0
        """Processes that had to be ended after the program had ended by itself."""
        variables = {**os.environ, **command.environment, **(environment or {}), family.MARK: self.mark}
        self._begin = time.perf_counter()
        try:
            self._popen = subprocess.Popen(
                [*prefix, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.folder,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            program = prefix[0] if prefix else argv[0]
            why = error.strerror or str(error)
            if not os.path.isdir(command.folder):
                why = f"its working directory {command.folder} is gone"
            raise ProgramFailed(Status.RUNTIME_ERROR, f"{program} cannot be run: {why}") from error
        try:
            self._watch(watch)
        except BaseException:  # an interrupt: nobody has this object yet, so nobody else would end the program
            self._kill_all()
            raise

    def _watch(self, watch: str) -> None:
        assert self._popen.stdout is not None and self._popen.stderr is not None
        self.pid = self._popen.pid
        self.stdout = Captured(self._popen.stdout, watch)
        self.stderr = Captured(self._popen.stderr, watch)
        self.usage = Usage(self.pid)
        self.code: int | None = None
        """Exit code, negative for a signal; None while it runs."""
        self.wall_s = 0.0
        self.cpu_s = 0.0
        """Of the program and of the children it waited for."""
        self._ended = threading.Event()
        threading.Thread(target=self._reap, daemon=True).start()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(grace_s=0.0 if kind else _LINGER_S)

    def _reap(self) -> None:
        _, status, used = os.wait4(self.pid, 0)
        self.wall_s = time.perf_counter() - self._begin
        self.cpu_s = used.ru_utime + used.ru_stime
        self.code = self._popen.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time."""
        return self._ended.wait(max(0.0, timeout_s))

    def terminate(self, group: bool = False) -> None:
        """SIGTERM to the program, or to its whole process group (a shell does not pass it on)."""
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(self.pid, signal.SIGTERM)
            elif not self._ended.is_set():
                os.kill(self.pid, signal.SIGTERM)

    def end(self, grace_s: float = 0.0) -> None:
        """Kills the program if it still runs, and all that it left behind; then its output is complete. Idempotent."""
        by_itself = self._ended.is_set()
        self.killed = self.killed or not by_itself
        deadline = time.monotonic() + (grace_s if by_itself else 0.0)
        left = self.members()
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = [process for process in left if processes.lives(process)]
        killed = self._kill_all()
        self.left_behind += killed if by_itself else 0
        self._ended.wait(_DRAIN_S)
        self.usage.stop()
        for captured in (self.stdout, self.stderr):
            captured.wait(_DRAIN_S)

    def _kill_all(self) -> int:
        """How many processes there were to end."""
        count = 0
        for _ in range(_ROUNDS):
            left = family.members(self._popen.pid, self.mark)
            if not left:
                break
            count += len(left)
            processes.end(left)
        return count

    def members(self) -> list[psutil.Process]:
        """Every process of the program, oldest first."""
        return family.members(self.pid, self.mark)

    def last_line(self) -> str:
        """What it wrote last to stderr, or else to stdout; empty when it was silent."""
        for captured in (self.stderr, self.stdout):
            if self.code is not None:
                captured.wait(_LATE_S)
            lines = captured.text().strip().splitlines()
            if lines:
                return printable(lines[-1]).strip()[:500]
        return ""

    def how(self) -> str:
        """How it ended, with its last words: ``exited with code 1: ValueError: …``."""
        assert self.code is not None
        words = how(self.code)
        if self.code == -signal.SIGKILL:
            words += " (somebody killed it, or the machine ran out of memory)"
        last = self.last_line()
        return f"{words}: {last}" if last else words
