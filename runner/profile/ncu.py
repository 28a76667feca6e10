"""Nsight Compute: hardware counters of every kernel of a step.

Its times are those of kernels run alone, at free clocks, with cold caches and many times over; they are reported as
``counted_time_us`` and weight other figures, but are never times of the experiment. One report holds one process, so
each variant gets a process unless ``profiler.reports=experiment`` asks for one report and nothing counts launches.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.build.cache import cache_dir
from runner.profile import counters, isolate, ncu_failures
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.counters import Counted, CountersError
from runner.profile.find_tool import Found, Tool, required
from runner.profile.raw import raw_report
from runner.profile.sections import SETS
from runner.result.model import Profile, ProfileStatus

TOOL = Tool(
    name="ncu",
    title="Nsight Compute",
    variable="RUNNER_NCU",
    places=("cuda*/bin/ncu", "nsight-compute*/ncu", "nsight-compute*/*/ncu", "NVIDIA-Nsight-Compute*/ncu"),
    hint=(
        "install the package cuda-nsight-compute of NVIDIA's apt or yum repository for your CUDA version, or Nsight "
        "Compute from NVIDIA's developer download page, and put ncu on the PATH or set RUNNER_NCU to it"
    ),
)
SUFFIX = ".ncu-rep"
_STEM = "report"
LOG = "ncu.log"
"""The tool's own messages: on the worker's stdout they would come between its answers."""
_STEPS = 1
"""A kernel is run some tens of times anyway, and counters of one step are those of the next."""

_denied: dict[str, str] = {}
"""Path of an ncu → why this machine does not let it count: learnt once, so that no further process is tried."""


class NcuProfiler:
    """See ``runner.profile.base.Profiler``."""

    name = "ncu"
    verdict = False

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._found = TOOL.find()

    @property
    def title(self) -> str:
        return f"ncu {self._found.version}" if isinstance(self._found, Found) else self.name

    def unavailable(self, subject: Subject) -> str:
        if subject.kind == "worker" and subject.backend != "cuda":
            return "Nsight Compute reads the counters of a GPU, and this experiment runs on the host: choose a gpu"
        if subject.kind == "worker" and self._settings.replay == "application":
            return (
                "profiler.replay=application starts the program once for every pass, which a program of "
                "kernel=command allows and the worker does not: use profiler.replay=kernel or range"
            )
        return _denied.get(str(self._found.path), "") if isinstance(self._found, Found) else str(self._found)

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """Raises ``RuntimeError`` when ncu is not available."""
        groups = [tuple(captures)] if self._one_report() else [(capture,) for capture in captures]
        return [self._launch(group, subject) for group in groups]

    def _one_report(self) -> bool:
        """Whether one process can serve all variants: launches are skipped and counted by process."""
        settings = self._settings
        counted = settings.launch_skip or settings.launch_count or settings.replay != "kernel"
        return settings.reports == "experiment" and not counted

    def _launch(self, captures: tuple[Capture, ...], subject: Subject) -> Launch:
        scratch = Path(tempfile.mkdtemp(prefix="runner-ncu-")).resolve()
        # The lock that keeps two ncu apart lies in TMPDIR: not in the scratch folder, where none would see the other's,
        # nor in the common one, where it belongs to whoever came first.
        lock = cache_dir() / "ncu"
        lock.mkdir(parents=True, exist_ok=True)
        environment = {**isolate.blanked(os.environ), **isolate.of_scratch(scratch, temporary=lock)}
        command = command_line(self._ncu().path, self._settings, scratch, subject)
        note = f"{self._settings.sections}: {SETS[self._settings.sections].cost}"
        return Launch(captures, scratch, command, environment, subject.backend, steps=_STEPS, note=note)

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        if ended.returncode is None or ended.timed_out:
            isolate.end_all(launch.scratch)
        try:
            return self._file(launch, ended)
        finally:
            shutil.rmtree(launch.scratch, ignore_errors=True)

    def _file(self, launch: Launch, ended: Ended) -> list[Profile]:
        report = launch.scratch / f"{_STEM}{SUFFIX}"
        log = _text(launch.scratch / LOG)
        path = str(self._ncu().path)
        denied = ncu_failures.denied(log or ended.output) or _denied.get(path, "")
        if denied:
            _denied[path] = denied
            return [Profile(ProfileStatus.UNAVAILABLE, denied, self.title) for _ in launch.captures]
        if not report.is_file() or not report.stat().st_size:
            return [self._missing(launch, capture, ended, log) for capture in launch.captures]
        try:
            launches: list[Counted] = self._read(report)
            problem = ""
        except CountersError as error:
            launches, problem = [], f"the report cannot be read: {error}"
        profiles = []
        for capture in launch.captures:
            own = [one for one in launches if len(launch.captures) == 1 or one.within(capture.range)]
            one = Profile(ProfileStatus.FAILED, problem, self.title) if problem else Profile(tool=self.title)
            if not problem and own:
                self._fill(one, capture, own, ended, log)
            elif not problem:
                one = self._missing(launch, capture, ended, log)
            profiles.append(one)
        self._keep(report, launch.captures[0], profiles[0])
        return profiles

    def _fill(self, profile: Profile, capture: Capture, launches: Sequence[Counted], ended: Ended, log: str) -> None:
        """The figures of one variant, and their table."""
        settings = self._settings
        profile.status = ProfileStatus.OK
        profile.reason = ncu_failures.incomplete(log)
        failed = ncu_failures.interrupted(capture, ended, settings.timeout_s)
        if failed:
            profile.status, profile.reason = ProfileStatus.FAILED, failed
        if any(one.within(capture.range) for one in launches):
            profile.ranges = [capture.range]
        if settings.replay == "range":
            launches = [Counted(capture.range, one.ranges, one.values) for one in launches]
        profile.counters = counters.by_kernel(launches)
        profile.metrics = counters.totals(launches)
        profile.metrics["ncu_launches"] = float(len(launches))
        if self._whole(len(launches)) and not profile.reason:
            profile.metrics.update(counters.traffic(profile.metrics))
        name = f"{capture.name}_counters.csv"
        try:
            capture.folder.mkdir(parents=True, exist_ok=True)
            counters.write(profile.counters, capture.folder / name)
            profile.artifacts.append(name)
        except OSError as error:
            profile.status = ProfileStatus.FAILED
            profile.reason = f"the table could not be filed in {capture.folder}: {error.strerror or error}"

    def _whole(self, launches: int) -> bool:
        """Whether all of the step's launches were counted."""
        settings = self._settings
        limited = settings.launch_count and launches >= settings.launch_count
        return not (settings.kernels or settings.launch_skip or limited)

    def _keep(self, report: Path, capture: Capture, profile: Profile) -> None:
        """Files the raw report with the first variant."""
        name = f"{capture.name}{SUFFIX}"
        try:
            capture.folder.mkdir(parents=True, exist_ok=True)
            shutil.move(report, capture.folder / name)
            profile.artifacts.insert(0, name)
            profile.reports.append(raw_report(capture.folder, name))
        except OSError as error:
            profile.status = ProfileStatus.FAILED
            profile.reason = f"the report could not be filed in {capture.folder}: {error.strerror or error}"

    def _missing(self, launch: Launch, capture: Capture, ended: Ended, log: str) -> Profile:
        """The profile of a variant of which nothing was counted."""
        reason = ncu_failures.why_missing(launch, capture, ended, log, self._settings)
        nothing_to_count = reason == ncu_failures.NO_KERNEL
        status = ProfileStatus.UNAVAILABLE if nothing_to_count else ProfileStatus.FAILED
        return Profile(status, reason, self.title)

    def _read(self, report: Path) -> list[Counted]:
        """The report's launches, through the tool's own table. Raises ``CountersError``."""
        table = report.with_name("raw.csv")
        command = [str(self._ncu().path), "--import", str(report), "--csv", "--page", "raw"]
        command += ["--print-units", "base", "--print-kernel-base", "function"]
        try:
            with table.open("wb") as out:
                done = subprocess.run(
                    command,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL,
                    timeout=self._settings.timeout_s,
                    check=False,
                    env={**os.environ, **isolate.of_scratch(report.parent)},
                )
        except subprocess.TimeoutExpired as error:
            raise CountersError(f"ncu --import did not end within {self._settings.timeout_s:g} s") from error
        except OSError as error:
            raise CountersError(f"ncu --import could not run ({error.strerror or error})") from error
        if done.returncode != 0:
            said = (_text(table)[-2000:] + done.stderr.decode(errors="replace")).strip().splitlines()
            raise CountersError(f"ncu --import ended with code {done.returncode}: {said[-1] if said else 'no message'}")
        return counters.read(table)

    def _ncu(self) -> Found:
        return required(self._found)


def command_line(ncu: Path, settings: ProfileSettings, scratch: Path, subject: Subject) -> tuple[str, ...]:
    """The exact command before the worker's, or the program's, own."""
    command = [str(ncu), "--target-processes", "all"]
    if subject.kind == "worker" and settings.replay == "kernel":
        # With replay=range the same calls delimit what is replayed.
        command += ["--profile-from-start", "off"]
    # Free clocks, as in the timed run; cold caches for every pass, as in its cold series.
    command += ["--clock-control", "none", "--cache-control", "all", "--nvtx", "-f"]
    command += ["--export", str(scratch / _STEM), "--log-file", str(scratch / LOG)]
    command += ["--replay-mode", settings.replay, *SETS[settings.sections].arguments(settings.replay)]
    if settings.kernels:
        command += ["--kernel-name", f"regex:{settings.kernels}"]
    if settings.launch_skip:
        command += ["--launch-skip", str(settings.launch_skip)]
    if settings.launch_count:
        command += ["--launch-count", str(settings.launch_count)]
    return tuple(command)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
