"""A program's measured runs: what becomes of them is the outcome of the experiment's only variant."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from runner.plan.model import CommandPlan
from runner.program.figures import medians
from runner.program.logs import Logs
from runner.program.process import Process, ProgramFailed
from runner.program.serving import serving, stop
from runner.result import clock
from runner.result.model import Series, Status
from runner.worker.protocol import Outcome


@dataclass
class _Runs:
    """What the measured runs gave."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)


def measure(variant: str, command: CommandPlan, timeout_s: float, folder: Path) -> Outcome:
    """Warm-up and measured runs, each within ``timeout_s``. Their output is written to ``folder``, whatever happens."""
    outcome = Outcome(variant, Status.PASSED, started=clock.now())
    begin = time.monotonic()
    runs, logs = _Runs(), Logs(command.environment, [*command.argv, *command.load])
    try:
        if command.ready is None:
            _alone(command, timeout_s, runs, logs)
        else:
            _served(command, timeout_s, runs, logs)
        _conclude(command, runs, outcome)
    except ProgramFailed as failure:
        outcome.status, outcome.message = failure.status, logs.hidden(str(failure))
    finally:
        logs.write(folder)
    outcome.warnings += [logs.hidden(text) for text in runs.warnings]
    outcome.duration_s = time.monotonic() - begin
    return outcome


def _alone(command: CommandPlan, timeout_s: float, runs: _Runs, logs: Logs) -> None:
    for number in range(-command.warmup, command.repeat):
        process = _run(command, command.argv, _title(number, command), timeout_s, logs, "the program")
        if number >= 0:
            _keep(process, runs)
            runs.cpu_s.append(process.cpu_s)
            _keep_peak(process, runs)


def _served(command: CommandPlan, timeout_s: float, runs: _Runs, logs: Logs) -> None:
    assert command.ready is not None
    server: Process | None = None
    try:
        with serving(command, command.ready.timeout_s) as server:
            for number in range(-command.warmup, command.repeat):
                before = server.usage.cpu_s()
                try:
                    process = _run(command, command.load, _title(number, command), timeout_s, logs, "the load")
                except ProgramFailed as failure:
                    _check_alive(server, str(failure))
                    raise
                _check_alive(server, "its load had just ended")
                if number >= 0:
                    _keep(process, runs)
                    runs.cpu_s.append(server.usage.cpu_s() - before)
            runs.warnings |= dict.fromkeys(stop(command, server))
        _keep_peak(server, runs)
        if server.left_behind:
            runs.warnings["processes that the server had left behind were ended"] = None
    finally:
        if server is not None:
            logs.add_server(server.stdout.text(), server.stderr.text())


def _check_alive(server: Process, then: str) -> None:
    if server.wait(0):
        raise ProgramFailed(Status.RUNTIME_ERROR, f"the server {server.how()} (while its load ran; {then})")


def _run(command: CommandPlan, argv: tuple[str, ...], title: str, timeout_s: float, logs: Logs, what: str) -> Process:
    """One run to its end. Raises ``ProgramFailed`` unless it ended well and in time."""
    with Process(command, argv) as process:
        ended = process.wait(timeout_s)
        if not ended:
            process.end()
    logs.add(title, process.stdout.text(), process.stderr.text())
    where = f" ({title})" if command.warmup + command.repeat > 1 else ""
    if not ended:
        last = process.last_line()
        raise ProgramFailed(
            Status.TIMEOUT,
            f"{what} did not end within timeout_s={timeout_s:g}{where} and was killed"
            + (f"; it said last: {last}" if last else "; it said nothing"),
        )
    if process.code != 0:
        raise ProgramFailed(Status.RUNTIME_ERROR, f"{what} {process.how()}{where}")
    return process


def _keep(process: Process, runs: _Runs) -> None:
    runs.wall_s.append(process.wall_s)
    runs.outputs.append((process.stdout.text(), process.stderr.text()))
    if process.left_behind:
        runs.warnings["processes that the program had left behind were ended after each run"] = None


def _keep_peak(process: Process, runs: _Runs) -> None:
    if process.usage.peak_mb is not None:
        runs.peak_mb.append(process.usage.peak_mb)


def _conclude(command: CommandPlan, runs: _Runs, outcome: Outcome) -> None:
    outcome.series = [
        Series(
            mode="host",
            method="wall_clock",
            samples_us=[1e6 * seconds for seconds in runs.wall_s],
            stop_reason="fixed",
            wall_s=sum(runs.wall_s),
        )
    ]
    outcome.metrics["cpu_time_s"] = median(runs.cpu_s)
    if runs.peak_mb:
        outcome.metrics["peak_memory_mb"] = max(runs.peak_mb)
    found, warnings = medians(command.metrics, runs.outputs)
    outcome.metrics.update(found)
    outcome.warnings += warnings


def _title(number: int, command: CommandPlan) -> str:
    if number < 0:
        return f"warm-up {number + command.warmup + 1} of {command.warmup}"
    return f"run {number + 1} of {command.repeat}"
