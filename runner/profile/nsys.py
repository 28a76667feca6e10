"""Nsight Systems: one process serves all variants of an experiment and gives one report for each.

The worker's side of the protocol is in ``runner.profile.nvtx``. With a GPU a capture goes from
``cuProfilerStart`` to ``cuProfilerStop``; without one the profiler API starts nothing (no report, exit code
0), so the capture follows the range ``runner_capture``. The tool passes the worker's pipes and its exit
code on.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runner.plan.model import BackendName
from runner.profile import find, isolate, nvtx
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.report import Reading, Report, ReportError
from runner.result.model import Profile, ProfileStatus

SUFFIX = ".nsys-rep"
_STEM = "capture"
_UNFINISHED = ".qdstrm"
"""What is left when a report's last step, the import, did not run."""


class NsysProfiler:
    """See ``runner.profile.base.Profiler``."""

    name = "nsys"
    verdict = False

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._found = find.find()

    @property
    def title(self) -> str:
        return self.name if isinstance(self._found, str) else f"nsys {self._found.version}"

    def unavailable(self, subject: Subject) -> str:
        return self._found if isinstance(self._found, str) else ""

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """One process for all captures. Raises ``RuntimeError`` when nsys is not available."""
        nsys = self._nsys()
        # Raw reports never go to the user's folder: with a ``$`` in the path this tool writes the first of
        # several reports only, and it takes a comma for a separator and a ``%`` for a pattern.
        scratch = Path(tempfile.mkdtemp(prefix="runner-nsys-")).resolve()
        environment = {
            **isolate.blanked(os.environ),
            "TMPDIR": str(scratch),
            "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0",
        }
        profile = command_line(nsys.path, self._settings, scratch / _STEM, len(captures), subject.backend)
        command = (*isolate.namespace_prefix(), *profile)
        return [Launch(tuple(captures), scratch, command, environment, subject.backend, steps=self._settings.steps)]

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        if ended.returncode is None or ended.timed_out:
            isolate.end_all(launch.scratch)
        try:
            return self._file(launch, launch.captures, ended)
        finally:
            shutil.rmtree(launch.scratch, ignore_errors=True)

    def _file(self, launch: Launch, captures: Sequence[Capture], ended: Ended) -> list[Profile]:
        nsys, limit = self._nsys().path, self._settings.timeout_s
        reports = [Report(nsys, path, limit) for path in _written(launch.scratch, SUFFIX)]
        if not reports:
            reason = f"no report was written: {self._why_missing(launch, ended)}"
            unfinished = _keep_unfinished(launch.scratch, captures)
            return [Profile(ProfileStatus.FAILED, reason, self.title, artifacts=names) for names in unfinished]
        with ThreadPoolExecutor(max_workers=min(len(reports), os.cpu_count() or 1)) as pool:
            readings = list(pool.map(_read, reports))
            owners = _match(captures, readings)
            jobs = [
                pool.submit(self._one, launch, capture, ended, reports, readings, owner)
                for capture, owner in zip(captures, owners, strict=True)
            ]
            return [job.result() for job in jobs]

    def _one(
        self,
        launch: Launch,
        capture: Capture,
        ended: Ended,
        reports: Sequence[Report],
        readings: Sequence[Reading | str],
        owner: int | None,
    ) -> Profile:
        """Checks one variant's report, files it, and makes its tables."""
        profile = Profile(ProfileStatus.FAILED, tool=self.title)
        if owner is None:
            profile.reason = (
                f"no report was written for the range {capture.range} ({len(reports)} were for others): "
                f"{self._why_missing(launch, ended)}"
            )
            return profile
        report, reading = reports[owner], readings[owner]
        try:
            tables: dict[str, Path] = {}
            if isinstance(reading, str):
                profile.reason = f"{reading}; profile again, or open it in the nsys-ui of the same version"
            else:
                profile.ranges = reading.ranges
                profile.reason = self._what_lacks(launch, capture, reading)
                if not profile.reason:
                    profile.status = ProfileStatus.OK
                    tables = report.tables(reading)
        except ReportError as error:
            profile.reason = f"the report is good, its tables are missing: {error}"
        try:
            profile.artifacts.append(_move(report.path, capture.folder / f"{capture.name}{SUFFIX}"))
            for name, path in tables.items():
                profile.artifacts.append(_move(path, capture.folder / f"{capture.name}_{name}.csv"))
        except OSError as error:
            profile.status = ProfileStatus.FAILED
            profile.reason = f"the report could not be filed in {capture.folder}: {error.strerror or error}"
        return profile

    def _what_lacks(self, launch: Launch, capture: Capture, reading: Reading) -> str:
        """Why a readable report is not good enough; empty when it is."""
        if capture.range not in reading.ranges:
            hint = nvtx.unrecorded(nvtx.version(), self._nsys().version)
            seen = ", ".join(reading.ranges) or "none"
            return f"the report lacks the range {capture.range} (it has: {seen}); {hint or 'profile again'}"
        if capture.holds == "ranges":
            return ""
        lacking = not reading.kernels if capture.holds == "kernels" else not reading.kernels + reading.copies
        if lacking:
            what = "kernel" if capture.holds == "kernels" else "kernel or copy"
            return (
                f"the report holds the range {capture.range} but no GPU {what}: the device was not traced. "
                "Detach other profilers from this GPU, or install an Nsight Systems as new as the driver"
            )
        return ""

    def _why_missing(self, launch: Launch, ended: Ended) -> str:
        """Why a report is missing, from what the tool said and left, the surest sign first."""
        if ended.timed_out:
            return (
                f"the profiled process did not end within profiler.timeout_s={self._settings.timeout_s:g} "
                "and was killed; raise profiler.timeout_s or lower profiler.steps"
            )
        if ended.problem:
            return f"the worker failed while being profiled: {ended.problem}"
        if "No space left on device" in ended.output:
            return f"the disk that holds {launch.scratch.parent} is full; free space, or set TMPDIR to another disk"
        if _written(launch.scratch, _UNFINISHED):
            return (
                "nsys collected, but its importer is missing or lacks a library (libssh-4 on Debian). Install the "
                f"complete package nsight-systems-cli; a {_UNFINISHED} file opens in nsys-ui on another machine"
            )
        if ended.returncode is None:
            return f"the profiled process was killed{_last_words(ended)}; profile again"
        if ended.returncode != 0:
            return f"nsys ended with code {ended.returncode}{_last_words(ended)}"
        hint = nvtx.unrecorded(nvtx.version(), self._nsys().version)
        what = "cuProfilerStart" if launch.backend == "cuda" else f"the range {nvtx.CAPTURE}"
        return f"nsys never saw {what}; {hint or f'profile again{_last_words(ended)}'}"

    def _nsys(self) -> find.Nsys:
        if isinstance(self._found, str):
            raise RuntimeError(self._found)
        return self._found


def command_line(
    nsys: Path, settings: ProfileSettings, stem: Path, variants: int, backend: BackendName
) -> tuple[str, ...]:
    """The exact command before the worker's own."""
    trace = [what for what in settings.trace if backend == "cuda" or what != "cuda"]
    if "nvtx" not in trace:
        trace.append("nvtx")  # the variant's range is how a report is recognised
    capture: tuple[str, ...] = ("--capture-range=cudaProfilerApi",)
    if backend != "cuda":
        # Whatever domain: versions of the nvtx package differ in what they call the default one.
        capture = ("--capture-range=nvtx", f"--nvtx-capture={nvtx.CAPTURE}@*")
    graphs = ("--cuda-graph-trace=node",) if "cuda" in trace else ()
    return (
        str(nsys),
        "profile",
        f"--trace={','.join(trace)}",
        # CPU sampling and context switches need privileges that containers do not give.
        "--sample=none",
        "--cpuctxsw=none",
        *graphs,
        *capture,
        f"--capture-range-end=repeat:{variants}",
        "--force-overwrite=true",
        "--wait=primary",
        f"--output={stem}",
    )


def _written(scratch: Path, suffix: str) -> list[Path]:
    """Files of one launch in order of capture: ``capture.1.nsys-rep`` and so on; a lone one has no number."""
    pattern = re.compile(rf"{_STEM}(?:\.(\d+))?{re.escape(suffix)}")
    found = [(match, path) for path in scratch.iterdir() if (match := pattern.fullmatch(path.name))]
    return [path for match, path in sorted(found, key=lambda item: int(item[0].group(1) or 0))]


def _keep_unfinished(scratch: Path, captures: Sequence[Capture]) -> list[list[str]]:
    """Files each capture gets instead of a report; they cannot be told apart when some are missing."""
    files = _written(scratch, _UNFINISHED)
    if len(files) != len(captures):
        return [[] for _ in captures]
    return [
        [_move(file, capture.folder / f"{capture.name}{_UNFINISHED}")]
        for file, capture in zip(files, captures, strict=True)
    ]


def _read(report: Report) -> Reading | str:
    """The reading, or why there is none."""
    try:
        return report.read()
    except (ReportError, OSError) as error:
        return f"the report cannot be read: {error}"


def _match(captures: Sequence[Capture], readings: Sequence[Reading | str]) -> list[int | None]:
    """Index of each capture's report: by the range it holds; what is left by order, when nothing is
    missing."""
    free = set(range(len(readings)))
    owners: list[int | None] = []
    for capture in captures:
        holding = (i for i in sorted(free) if _holds(readings[i], capture.range))
        owner = next(holding, None)
        free.discard(-1 if owner is None else owner)
        owners.append(owner)
    if len(readings) == len(captures):
        left = iter(sorted(free))
        owners = [next(left) if owner is None else owner for owner in owners]
    return owners


def _holds(reading: Reading | str, name: str) -> bool:
    return not isinstance(reading, str) and name in reading.ranges


def _move(source: Path, target: Path) -> str:
    """Moves a file, across file systems too, and returns its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)
    return target.name


def _last_words(ended: Ended) -> str:
    lines = [line for line in ended.output.replace("\r", "\n").splitlines() if line.strip() and "%" not in line]
    return f" ({lines[-1].strip()})" if lines else " (it said nothing)"
