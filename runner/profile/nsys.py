"""Nsight Systems: reports with what ran when, on every device and every thread, and the tables made from them.

The worker's side of the protocol is in ``runner.profile.nvtx``. With a GPU a capture goes from ``cuProfilerStart`` to
``cuProfilerStop``; without one the profiler API starts nothing (no report, exit code 0), so the capture follows the
range ``runner_capture``. One process serves all variants of an experiment, save where the whole process is captured. A
program is captured from its start to its end, or while its load runs. The tool passes pipes and exit code on.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from runner.build.cache import cache_dir
from runner.profile import isolate, nvtx
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject, Window
from runner.profile.find_tool import Found, Tool, required
from runner.profile.nsys_command import command_line, gpu_metrics
from runner.profile.nsys_missing import LOST_EVENTS, UNFINISHED, disk_full, failed_program, lost_events, why_missing
from runner.profile.nsys_session import SessionWindow
from runner.profile.range_table import write_ranges
from runner.profile.raw import raw_report
from runner.profile.report import Report, ReportError, ranges
from runner.profile.tables import write_tables
from runner.result.model import Profile, ProfileStatus
from runner.timeline.summary import fill
from runner.timeline.trace import Trace

TOOL = Tool(
    name="nsys",
    title="Nsight Systems",
    variable="RUNNER_NSYS",
    places=(
        "cuda*/bin/nsys",
        "nsight-systems*/bin/nsys",
        "nsight-systems*/*/bin/nsys",
        "nsight-systems*/target-linux-*/nsys",
        "nsight-systems*/*/target-linux-*/nsys",
    ),
    hint=(
        "install the package nsight-systems-cli from NVIDIA's apt or yum repository, or Nsight Systems from NVIDIA's "
        "developer download page, and put nsys on the PATH or set RUNNER_NSYS to it"
    ),
)
SUFFIX = ".nsys-rep"
_STEM = "capture"


class NsysProfiler:
    """See ``runner.profile.base.Profiler``."""

    name = "nsys"
    verdict = False

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._found = TOOL.find()

    @property
    def title(self) -> str:
        return f"nsys {self._found.version}" if isinstance(self._found, Found) else self.name

    def unavailable(self, subject: Subject) -> str:
        return "" if isinstance(self._found, Found) else str(self._found)

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """One process for all captures; one for each of a program, and where whole processes are captured.

        Raises ``RuntimeError`` when nsys is not available, ``OSError`` when there is no room for its files.
        """
        if subject.kind == "program":
            return [self._launch([replace(capture, holds="anything")], subject) for capture in captures]
        if self._settings.capture == "all" and self._settings.reports == "variant":
            return [self._launch([capture], subject) for capture in captures]
        return [self._launch(captures, subject)]

    def _launch(self, captures: Sequence[Capture], subject: Subject) -> Launch:
        nsys = self._nsys()
        # Raw reports never go to the user's folder: with a ``$`` in the path this tool writes the first of
        # several reports only, and it takes a comma for a separator and a ``%`` for a pattern.
        scratch = Path(tempfile.mkdtemp(prefix="runner-nsys-")).resolve()
        environment = {
            **isolate.blanked(os.environ),
            **isolate.of_scratch(scratch),
            "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0",
        }
        profile = command_line(nsys.path, self._settings, scratch / _STEM, subject, len(captures), scratch.name)
        return Launch(
            tuple(captures),
            scratch,
            (*isolate.namespace_prefix(), *profile),
            environment,
            subject.backend,
            steps=self._settings.steps if subject.kind == "worker" else 1,
            window=SessionWindow(nsys.path, scratch.name, scratch, self._settings.timeout_s)
            if subject.windowed
            else Window(),
            # Two at once, each in a process namespace of its own, were seen to lose the connection to their agents.
            lock=cache_dir() / "nsys.lock",
        )

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        isolate.end_all(launch.scratch)
        try:
            return self._file(launch, ended)
        finally:
            isolate.end_all(launch.scratch)  # an export that hung, and what it had started
            shutil.rmtree(launch.scratch, ignore_errors=True)

    def _file(self, launch: Launch, ended: Ended) -> list[Profile]:
        nsys, limit = self._nsys().path, self._settings.timeout_s
        reports = [Report(nsys, path, limit) for path in _written(launch.scratch, SUFFIX)]
        if not reports:
            reason = f"no report was written: {self._why_missing(launch, ended)}"
            return self._unfinished(launch, reason)
        with ThreadPoolExecutor(max_workers=min(len(reports), os.cpu_count() or 1)) as pool:
            traces = list(pool.map(_read, reports))
        if self._settings.reports == "experiment":
            owners: list[int | None] = [0] * len(launch.captures)
        else:
            owners = _match(launch.captures, traces)
        filed: dict[int, Path] = {}
        profiles = []
        for capture, owner in zip(launch.captures, owners, strict=True):
            if owner is None:
                unread = [trace for trace in traces if isinstance(trace, str)]
                others = f"{len(reports) - len(unread)} were for others"
                others += f", {len(unread)} cannot be read" if unread else ""
                why = unread[0] if unread else self._why_missing(launch, ended)
                reason = f"no report was written for the range {capture.range} ({others}): {why}"
                profiles.append(Profile(ProfileStatus.FAILED, reason, self.title))
                continue
            profile = self._judged(launch, ended, capture, traces[owner])
            self._keep(profile, capture, reports[owner], traces[owner], filed, owner)
            profiles.append(profile)
        return profiles

    def _judged(self, launch: Launch, ended: Ended, capture: Capture, trace: Trace | str) -> Profile:
        """What the report says about one variant, or why it says too little."""
        if isinstance(trace, str):
            remedy = disk_full(launch.scratch, trace) or "profile again, or open it in the nsys-ui of the same version"
            return Profile(ProfileStatus.FAILED, f"{trace}; {remedy}", self.title)
        profile = Profile(ProfileStatus.OK, self._not_sampled(launch), self.title, ranges=ranges(trace))
        if lacks := self._what_lacks(capture, profile.ranges, trace):
            profile.status, profile.reason = ProfileStatus.FAILED, lacks
            return profile
        fill(profile, trace, capture.range, launch.steps, self._settings.categories)
        if capture.holds == "anything" and LOST_EVENTS in ended.output:
            # What is missing would pass for idle time.
            profile.metrics, profile.gaps = {}, []
            profile.status, profile.reason = ProfileStatus.FAILED, lost_events(self._nsys().version)
        if failed := failed_program(launch, ended):
            profile.status, profile.reason = ProfileStatus.FAILED, f"{failed}; the report tells of that run"
        return profile

    def _keep(
        self,
        profile: Profile,
        capture: Capture,
        report: Report,
        trace: Trace | str,
        filed: dict[int, Path],
        number: int,
    ) -> None:
        """Moves the report to the first capture it serves, names it to the others, and writes the tables."""
        folder = capture.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if number in filed:
                name = os.path.relpath(filed[number], folder)
            else:
                name = _move(report.path, folder / f"{capture.name}{SUFFIX}")
                filed[number] = folder / name
                profile.artifacts.append(name)
                if not isinstance(trace, str):
                    profile.artifacts += write_ranges(trace, folder, capture.name)
            profile.reports.append(raw_report(folder, name))
            profile.artifacts += write_tables(profile, folder, capture.name)
        except OSError as error:
            profile.status = ProfileStatus.FAILED
            profile.reason = (
                f"the report could not be filed in {folder}: {error.strerror or error}; "
                "free space there and profile again"
            )

    def _unfinished(self, launch: Launch, reason: str) -> list[Profile]:
        """Profiles of captures without a report; what was collected is kept where it is known whose it is."""
        profiles = [Profile(ProfileStatus.FAILED, reason, self.title) for _ in launch.captures]
        files = _written(launch.scratch, UNFINISHED)
        if len(files) == len(launch.captures):
            for profile, capture, file in zip(profiles, launch.captures, files, strict=True):
                try:
                    capture.folder.mkdir(parents=True, exist_ok=True)
                    name = _move(file, capture.folder / f"{capture.name}{UNFINISHED}")
                    profile.artifacts.append(name)
                    profile.reports.append(raw_report(capture.folder, name))
                except OSError as error:
                    profile.reason += f" (and {file.name} could not be kept: {error.strerror or error})"
        return profiles

    def _what_lacks(self, capture: Capture, found: Sequence[str], trace: Trace) -> str:
        """Why a readable report is not good enough; empty when it is. ``found``: the ranges it holds."""
        if capture.holds == "anything":
            return ""
        if capture.range not in found:
            hint = nvtx.unrecorded(nvtx.version(), self._nsys().version)
            seen = ", ".join(found) or "none"
            return f"the report lacks the range {capture.range} (it has: {seen}); {hint or 'profile again'}"
        if capture.holds == "ranges":
            return ""
        # A graph traced as a whole shows its launches instead of its kernels.
        kinds = ("launch", "graph") if capture.holds == "kernels" else ("launch", "graph", "copy", "fill")
        if not trace.count(*kinds):
            what = "kernel" if capture.holds == "kernels" else "kernel or copy"
            return (
                f"the report holds the range {capture.range} but no GPU {what}: the device was not traced. "
                "Detach other profilers from this GPU, or install an Nsight Systems as new as the driver"
            )
        return ""

    def _not_sampled(self, launch: Launch) -> str:
        """Why the report lacks the GPU's metrics though they were asked for; empty when it does not."""
        if not self._settings.gpu_metrics:
            return ""
        why = "there is no GPU" if launch.backend != "cuda" else gpu_metrics(str(self._nsys().path))[1]
        return f"GPU metrics were not sampled: {why}" if why else ""

    def _why_missing(self, launch: Launch, ended: Ended) -> str:
        return why_missing(launch, ended, self._settings, self._nsys().version)

    def _nsys(self) -> Found:
        return required(self._found)


def _written(scratch: Path, suffix: str) -> list[Path]:
    """Files of one launch in order of capture: ``capture.1.nsys-rep`` and so on; a lone one has no number."""
    pattern = re.compile(rf"{_STEM}(?:\.(\d+))?{re.escape(suffix)}")
    found = [(match, path) for path in scratch.iterdir() if (match := pattern.fullmatch(path.name))]
    return [path for match, path in sorted(found, key=lambda item: int(item[0].group(1) or 0))]


def _read(report: Report) -> Trace | str:
    """The trace, or why there is none."""
    try:
        return report.read()
    except (ReportError, OSError) as error:
        return f"the report cannot be read: {error}"


def _match(captures: Sequence[Capture], traces: Sequence[Trace | str]) -> list[int | None]:
    """Index of each capture's report: by the range it holds; what is left by order, when nothing is missing."""
    free = set(range(len(traces)))
    owners: list[int | None] = []
    for capture in captures:
        holding = (i for i in sorted(free) if _holds(traces[i], capture.range))
        owner = next(holding, None)
        free.discard(-1 if owner is None else owner)
        owners.append(owner)
    if len(traces) == len(captures):
        left = iter(sorted(free))
        owners = [next(left) if owner is None else owner for owner in owners]
    return owners


def _holds(trace: Trace | str, name: str) -> bool:
    return not isinstance(trace, str) and name in trace.range_names()


def _move(source: Path, target: Path) -> str:
    """Moves a file, across file systems too, and returns its name. What was copied until it failed is removed."""
    try:
        shutil.move(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    return target.name
