"""A program once more, under a profiler. What the tool wants to hear of it is said through the launch's window."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psutil

from runner.plan.model import BackendName, CommandPlan
from runner.profile import processes
from runner.profile.base import Ended, Launch, Subject
from runner.profile.isolate import blanked
from runner.program.find import profiled
from runner.program.logs import Logs
from runner.program.process import Process, ProgramFailed
from runner.program.serving import serving
from runner.result.model import Status

OUTPUT = 8000
"""Characters kept of each stream's end."""


@dataclass
class ProfiledProgram:
    """One run of the program per launch: the whole of it, or a server while its load runs."""

    variant: str
    command: CommandPlan
    backend: BackendName
    uuids: tuple[str, ...]
    hold: Callable[[], AbstractContextManager[None]]
    """Takes the locks of the devices."""

    @property
    def about(self) -> Subject:
        return Subject("program", self.backend, self.uuids, windowed=self.command.ready is not None)

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        """Runs the program under ``launch`` to its end. Never raises for what the program does."""
        with self.hold():
            return _Run(self, launch, timeout_s).end()


class _Run:
    """One profiled run."""

    def __init__(self, subject: ProfiledProgram, launch: Launch, timeout_s: float) -> None:
        self._command = subject.command
        self._variant = subject.variant
        self._launch = launch
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        # Reports hold the environment: what the user gave the program is blanked as the runner's own is by the tool.
        self._environment = {**launch.environment, **blanked(subject.command.environment)}
        self._logs = Logs(
            {**subject.command.environment, **launch.environment}, [*subject.command.argv, *subject.command.load]
        )
        self._process: Process | None = None
        self._problem = ""
        self._timed_out = False

    def end(self) -> Ended:
        """Runs it; returns how it ended."""
        try:
            if self._command.ready is None:
                self._alone()
            else:
                self._served()
        except ProgramFailed as failure:
            self._problem = str(failure)
            self._timed_out = failure.status is Status.TIMEOUT
        code, output = None, ""
        if self._process is not None:
            self._timed_out = self._timed_out or self._process.killed
            code = None if self._process.killed else self._process.code
            output = self._process.stdout.text()[-OUTPUT:] + self._process.stderr.text()[-OUTPUT:]
        return Ended(
            returncode=code,
            timed_out=self._timed_out,
            output=self._logs.hidden(output),
            problem=self._logs.hidden(self._problem),
            command=" ".join(filter(None, [shlex.join(self._launch.command), self._command.shown])),
        )

    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _alone(self) -> None:
        self._launch.window.begin(self._variant)
        try:
            with Process(
                self._command,
                self._command.argv,
                prefix=self._launch.command,
                environment=self._environment,
            ) as self._process:
                if not self._process.wait(self._left_s()):
                    self._process.end()
        finally:
            self._launch.window.end(self._variant)

    def _served(self) -> None:
        command, launch = self._command, self._launch
        with serving(command, self._left_s(), launch.command, self._environment) as self._process:
            try:
                launch.window.begin(self._variant)
                try:
                    self._load(self._process)
                finally:
                    if self._process.code is None:
                        launch.window.end(self._variant)
            finally:
                self._stop(self._process)

    def _load(self, server: Process) -> None:
        with Process(self._command, self._command.load) as load:
            ended = load.wait(self._left_s())
            if not ended:
                load.end()
        if server.code is not None:
            raise ProgramFailed(Status.RUNTIME_ERROR, f"the server {server.how()} (while its load ran)")
        if not ended:
            raise ProgramFailed(Status.TIMEOUT, "the load did not end in time")
        if load.code != 0:
            raise ProgramFailed(Status.RUNTIME_ERROR, f"the load {load.how()}")

    def _stop(self, server: Process) -> None:
        """Ends the profiled server, never the tool, which has its report to write once the server is gone."""
        targets = profiled(server.members(), self._command, self._launch.command)
        for process in targets:
            _signal(process)
        deadline = time.monotonic() + self._command.stop_s
        while any(map(processes.lives, targets)) and time.monotonic() < deadline:
            time.sleep(0.02)
        processes.end([process for process in targets if processes.lives(process)])
        if not server.wait(max(self._left_s(), self._command.stop_s)):
            server.end()


def _signal(process: psutil.Process) -> None:
    try:
        process.terminate()
    except psutil.Error:
        return  # gone meanwhile
