"""The sanitizers: ``memcheck``, ``racecheck``, ``initcheck`` and ``synccheck``. What they find makes a result wrong.

On a GPU, and for programs, the word is a tool of NVIDIA's compute-sanitizer; for a worker on the host backend see
``runner.profile.sanitizer_host``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.find_tool import Found, Tool, required
from runner.profile.sanitizer_host import HostSanitizer
from runner.profile.sanitizer_report import Reading, read
from runner.result.model import Profile, ProfileStatus

COMPUTE_SANITIZER = Tool(
    name="compute-sanitizer",
    title="Compute Sanitizer",
    variable="RUNNER_COMPUTE_SANITIZER",
    places=("cuda*/bin/compute-sanitizer", "cuda*/compute-sanitizer/compute-sanitizer"),
    hint="it comes with the CUDA toolkit (package cuda-sanitizer of NVIDIA's apt or yum repository; conda install -c "
    "nvidia cuda-sanitizer-api); put it on the PATH or set RUNNER_COMPUTE_SANITIZER to it",
)
FOUND_EXIT = 42
"""Exit code of compute-sanitizer where it found something."""
PRINTED = 1000
"""Errors written out; further ones are counted."""
_LOG = "log.txt"


class Sanitizer:
    """See ``runner.profile.base.Profiler``."""

    verdict = True

    def __init__(self, name: str, settings: ProfileSettings) -> None:
        self.name = name
        self._settings = settings
        self._found = COMPUTE_SANITIZER.find()
        self._host = HostSanitizer(name, settings)

    @property
    def title(self) -> str:
        if isinstance(self._found, Found):
            return f"{self.name} {COMPUTE_SANITIZER.name} {self._found.version}"
        return self.name

    def unavailable(self, subject: Subject) -> str:
        if _on_host(subject):
            return self._host.unavailable()
        return "" if isinstance(self._found, Found) else str(self._found)

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """A process per variant: an error ends the context, and others could not run after it. Raises
        ``RuntimeError`` when compute-sanitizer is needed and not available."""
        if _on_host(subject):
            return self._host.launches(captures, subject)
        path = required(self._found).path
        launches = []
        for capture in captures:
            scratch = Path(tempfile.mkdtemp(prefix=f"runner-{self.name}-")).resolve()
            command = command_line(path, self.name, self._settings, scratch / _LOG, subject.kind)
            launches.append(Launch((capture,), scratch, command, backend=subject.backend))
        return launches

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        if launch.sanitize:
            return self._host.collect(launch, ended)
        (capture,) = launch.captures
        log = launch.scratch / _LOG
        try:
            return [self._one(capture, log, ended)]
        finally:
            shutil.rmtree(launch.scratch, ignore_errors=True)

    def _one(self, capture: Capture, log: Path, ended: Ended) -> Profile:
        reading = read(log.read_text(errors="replace")) if log.is_file() else Reading()
        profile = Profile(ProfileStatus.OK, tool=self.title, findings=reading.findings)
        if not reading.findings:
            profile.reason = self._failure(reading, ended)
        if profile.reason:
            unsupported = reading.unsupported and not ended.timed_out
            profile.status = ProfileStatus.UNAVAILABLE if unsupported else ProfileStatus.FAILED
        if reading.unprinted:
            profile.reason = f"{reading.unprinted} further errors were counted and not written out"
        if log.is_file():
            try:
                capture.folder.mkdir(parents=True, exist_ok=True)
                target = capture.folder / f"{capture.name}_{self.name}.txt"
                shutil.move(log, target)
                profile.artifacts.append(target.name)
            except OSError as error:
                profile.status = ProfileStatus.FAILED
                profile.reason = f"the findings could not be filed in {capture.folder}: {error.strerror or error}"
        return profile

    def _failure(self, reading: Reading, ended: Ended) -> str:
        """Why a log without findings is no all-clear; empty when it is."""
        if ended.timed_out:
            return (
                f"the run did not end within profiler.timeout_s={self._settings.timeout_s:g}: {self.name} makes "
                "kernels 10 to 100 times slower. Choose a smaller shape (scale=smoke), or raise profiler.timeout_s"
            )
        if reading.problem:
            return f"compute-sanitizer: {reading.problem}"
        if not reading.finished:
            end = "was killed" if ended.returncode is None else f"ended with code {ended.returncode}"
            said = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "it said nothing")
            return (
                f"compute-sanitizer {end} before its summary ({said.strip()}). Choose a smaller shape (scale=smoke), "
                "limit it to some kernels with profiler.kernels, or install a newer CUDA toolkit"
            )
        if ended.problem:
            return f"the run failed: {ended.problem}"
        return ""


def _on_host(subject: Subject) -> bool:
    """A worker on the host backend; a program is compute-sanitizer's, whatever it uses."""
    return subject.kind == "worker" and subject.backend == "host"


def command_line(path: Path, tool: str, settings: ProfileSettings, log: Path, kind: str) -> tuple[str, ...]:
    """The exact command before the worker's or the program's own. ``kind``: of the subject."""
    line = [str(path), f"--tool={tool}", f"--error-exitcode={FOUND_EXIT}", "--target-processes=all"]
    line += [f"--print-limit={PRINTED}", f"--launch-timeout={settings.timeout_s:.0f}", f"--log-file={log}"]
    # How the process ends is its own affair, and reported as such.
    line.append("--check-exit-code=no")
    if tool == "memcheck":
        # The worker raises every failed call itself; libraries try calls that may fail.
        line += ["--report-api-errors=no"] if kind == "worker" else ["--ignore-getprocaddress-notfound"]
        # An access just past one allocation would otherwise lie within the next.
        line.append("--padding=512")
    if tool == "initcheck" and kind == "worker":
        # A copy may take unused elements along (a partly filled page); what kernels read is what counts.
        line.append("--check-api-memory-access=no")
    if settings.kernels:
        line.append(f"--kernel-name=regex={settings.kernels}")
    if settings.launch_skip:
        line.append(f"--launch-skip={settings.launch_skip}")
    if settings.launch_count:
        line.append(f"--launch-count={settings.launch_count}")
    return tuple(line)
