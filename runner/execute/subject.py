"""What a profiler's process runs: the worker on an experiment's plan, or the program of ``kernel=command``."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from runner.build.api import build, requests
from runner.build.model import CompileError
from runner.execute.experiment import worker_key
from runner.execute.planning import Experiment
from runner.plan import wire
from runner.profile.base import Ended, Launch, Subject
from runner.program.profiled import ProfiledProgram
from runner.result.model import CheckResult
from runner.worker import locks
from runner.worker.client import START_S, Worker, WorkerDied, WorkerTimeout
from runner.worker.protocol import ProfileRequest, checks_from_list


class Profiled(Protocol):
    """What can be run under a profiler."""

    @property
    def about(self) -> Subject: ...

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        """Runs one process under ``launch`` to its end. Never raises for what the process does."""
        ...


@dataclass
class ProfiledWorker:
    """One worker per launch, asked for the hot region of each capture, then left to end by itself."""

    experiment: Experiment
    programs: Mapping[str, Path]

    @property
    def about(self) -> Subject:
        assert self.experiment.plan is not None
        uuids = tuple(device.uuid for device in self.experiment.devices)
        return Subject("worker", self.experiment.plan.target.backend, uuids)

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        try:
            programs = self._sanitized() if launch.sanitize else self.programs
        except CompileError as error:
            return Ended(None, problem=str(error))
        deadline = time.monotonic() + timeout_s
        worker = Worker(worker_key(self.experiment, launch.command, launch.environment))
        heard = _Heard(launch)
        timed_out = False
        code: int | None = None
        try:
            ready = worker.receive(min(START_S, timeout_s))
            if ready["kind"] == "failed":
                heard.problem = ready["message"]
            else:
                worker.send("profile", **self._request(launch, programs))
                for message in worker.messages(timeout_s, "done"):
                    if not heard.take(message):
                        break
            code = worker.stop(max(1.0, deadline - time.monotonic()))
            timed_out = code is None
        except WorkerTimeout:
            timed_out = True
        except WorkerDied as death:
            heard.problem = death.detail
            code = worker.returncode
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            raise
        command = shlex.join([*launch.command, "python", "-m", "runner.worker", launch.backend])
        return Ended(code, timed_out, worker.log(), heard.problem, command, heard.checks)

    def _sanitized(self) -> dict[str, Path]:
        """The experiment's programs, compiled with the host backend's sanitizer. Raises ``CompileError``."""
        assert self.experiment.plan is not None
        wanted = requests(replace(self.experiment.plan, sanitize=True))
        built = build(wanted.values())
        found: dict[str, Path] = {}
        for unit, request in wanted.items():
            program = built[request]
            if isinstance(program, CompileError):
                raise program
            found[unit] = program.path
        return found

    def _request(self, launch: Launch, programs: Mapping[str, Path]) -> dict[str, Any]:
        assert self.experiment.plan is not None
        folder = str(launch.scratch) if launch.record else ""
        return {
            "plan": wire.to_dict(self.experiment.plan),
            "programs": {unit: str(path) for unit, path in programs.items()},
            "variants": [capture.variant for capture in launch.captures],
            "held": self.experiment.held,
            "request": asdict(
                ProfileRequest(
                    steps=launch.steps,
                    min_time_s=launch.min_time_s,
                    record=folder,
                    flushed=launch.flushed,
                    checked=launch.checked,
                )
            ),
        }


def profiled(experiment: Experiment, programs: Mapping[str, Path]) -> Profiled:
    """What a profiler's processes run: the worker, or the program of ``kernel=command``."""
    plan = experiment.plan
    assert plan is not None
    if plan.command is None:
        return ProfiledWorker(experiment, programs)
    uuids = tuple(device.uuid for device in experiment.devices)
    name = plan.variants[0].name
    return ProfiledProgram(
        name, plan.command, plan.target.backend, uuids, lambda: locks.hold(experiment.devices, lambda lock: None)
    )


class _Heard:
    """What the worker said while it was profiled."""

    def __init__(self, launch: Launch) -> None:
        self._window = launch.window
        self.problem = ""
        self.checks: dict[str, list[CheckResult]] = {}

    def take(self, message: Mapping[str, Any]) -> bool:
        """False when nothing more is to be expected."""
        if message["kind"] == "failed":
            self.problem = message["message"]
            return False
        if message["kind"] == "started":
            self._window.begin(message["variant"])
        if message["kind"] == "profiled":
            self._window.end(message["variant"])
            self.checks[message["variant"]] = checks_from_list(message["checks"])
        return True
