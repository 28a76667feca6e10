"""The sanitizers' words on the host backend, answered by programs compiled with the address sanitizer.

* ``memcheck``: the address sanitizer's report.
* ``racecheck``: several checked steps, each with another order of the threads of a block and of the blocks. A result
  that is wrong in one of them depends on an order that nobody promised.
* ``initcheck``: checked steps with fresh memory full of one pattern, a process for each. A result that is wrong under
  one of them depends on memory that nobody wrote.
* ``synccheck``: the barriers each thread of a block has passed are counted, and must be as many for all.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.backend.host.backend import BARRIERS_VARIABLE, ORDER_VARIABLE
from runner.build import sanitizer
from runner.build.host import sanitizer_environment
from runner.build.model import CompileError
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.sanitizer_report import grouped
from runner.result.model import CheckResult, Finding, Profile, ProfileStatus

ORDERS = 4
"""Orders of threads and blocks that ``racecheck`` tries."""
PATTERNS = (0xFF, 0x7E, 0xFE)
"""Bytes of fresh memory that ``initcheck`` tries: NaN and -1; large and positive; large and negative."""
_FILL = "max_malloc_fill_size=2147483647:malloc_fill_byte={}"
_LOG = "report"
_BARRIER = re.compile(r"kernel (\S+), (block .*(?:__syncthreads|warp function).*)", re.DOTALL)


class HostSanitizer:
    """One of the four words for a worker on the host backend."""

    def __init__(self, tool: str, settings: ProfileSettings) -> None:
        self._tool = tool
        self._title = f"{tool} of the host backend"
        self._settings = settings
        self._patterns: dict[Path, int] = {}

    def unavailable(self) -> str:
        try:
            sanitizer_environment()
        except CompileError as error:
            return str(error)
        return ""

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """A process per variant, for the address sanitizer ends it at the first error."""
        patterns = PATTERNS if self._tool == "initcheck" else (0,)
        return [self._launch(capture, pattern) for capture in captures for pattern in patterns]

    def _launch(self, capture: Capture, pattern: int) -> Launch:
        scratch = Path(tempfile.mkdtemp(prefix=f"runner-{self._tool}-")).resolve()
        self._patterns[scratch] = pattern
        environment = sanitizer_environment()
        options = [environment["ASAN_OPTIONS"], f"log_path={scratch / _LOG}", _FILL.format(pattern)]
        environment["ASAN_OPTIONS"] = ":".join(options)
        environment[ORDER_VARIABLE] = "1" if self._tool == "racecheck" else "0"
        environment[BARRIERS_VARIABLE] = "1" if self._tool == "synccheck" else "0"
        return Launch(
            (capture,),
            scratch,
            environment=environment,
            steps=ORDERS if self._tool == "racecheck" else 1,
            checked=self._tool in ("racecheck", "initcheck"),
            sanitize=True,
        )

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        """See ``runner.profile.base.Profiler``."""
        (capture,) = launch.captures
        try:
            log = "".join(path.read_text(errors="replace") for path in sorted(launch.scratch.glob(f"{_LOG}.*")))
        finally:
            shutil.rmtree(launch.scratch, ignore_errors=True)
        fault = sanitizer.read(log)
        findings = grouped(self._findings(capture, ended, fault, self._patterns.pop(launch.scratch)))
        profile = Profile(ProfileStatus.OK, tool=self._title, findings=findings)
        if not findings:
            profile.reason = self._failure(ended, fault)
        if profile.reason:
            profile.status = ProfileStatus.FAILED
        profile.artifacts = [_keep(capture, self._tool, findings, log)] if findings else []
        return [profile]

    def _findings(self, capture: Capture, ended: Ended, fault: sanitizer.Fault | None, pattern: int) -> list[Finding]:
        wrong = [check for check in ended.checks.get(capture.variant, []) if not check.passed]
        if self._tool == "memcheck":
            return [_access(fault)] if fault else []
        if self._tool == "racecheck":
            return [_wrong("Result depends on the order of threads and blocks", check) for check in wrong]
        if self._tool == "initcheck":
            filled = f"with memory full of 0x{pattern:02X}"
            if fault:
                return [_access(fault, filled)]
            return [_wrong("Result depends on uninitialised memory", check, filled) for check in wrong]
        barrier = _BARRIER.search(ended.problem)
        if not barrier:
            return []
        kind = "Divergent __syncthreads" if "__syncthreads" in barrier[2] else "Warp function without all its lanes"
        return [Finding(kind, barrier[1], detail=barrier[2].strip())]

    def _failure(self, ended: Ended, fault: sanitizer.Fault | None) -> str:
        """Why nothing can be said; empty when the run did all it was asked."""
        if ended.timed_out:
            return (
                f"the run did not end within profiler.timeout_s={self._settings.timeout_s:g}: a sanitized program is "
                "many times slower. Choose a smaller shape (scale=smoke), or raise profiler.timeout_s"
            )
        if fault:
            return f"a {fault.kind} in {_where(fault)} ended the run before; look at it with profiler=memcheck"
        if ended.problem:
            return f"the run failed: {ended.problem}"
        if ended.returncode:
            return f"the worker ended with code {ended.returncode}"
        return ""


def _access(fault: sanitizer.Fault, circumstance: str = "") -> Finding:
    place = f"the address is {fault.place}" if fault.place else ""
    return Finding(fault.kind, _where(fault), detail="; ".join(filter(None, [place, circumstance])))


def _where(fault: sanitizer.Fault) -> str:
    """``kernel in file.cu:12``, as compute-sanitizer has it."""
    name = fault.kernel or fault.function
    return f"{name} in {Path(fault.path).name}:{fault.line}" if fault.path else "code outside the kernels"


def _wrong(kind: str, check: CheckResult, circumstance: str = "") -> Finding:
    return Finding(kind, f"check {check.name}", detail=": ".join(filter(None, [circumstance, check.message])))


def _keep(capture: Capture, tool: str, findings: Sequence[Finding], log: str) -> str:
    """Adds the findings, with the address sanitizer's own report if there is one, to a file, and returns its name."""
    capture.folder.mkdir(parents=True, exist_ok=True)
    path = capture.folder / f"{capture.name}_{tool}.txt"
    lines = [f"{finding.kind}, {finding.where}, {finding.count} times: {finding.detail}" for finding in findings]
    with path.open("a") as file:
        file.write("\n".join([*lines, "", log]) if log else "\n".join([*lines, ""]))
    return path.name
