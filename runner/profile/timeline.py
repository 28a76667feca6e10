"""``timeline``: the worker records its own hot region, and no Nsight is needed.

On a GPU the records are CUPTI's (``runner.backend.cuda.cupti``), on the host backend the backend's own. The trace opens
in https://ui.perfetto.dev and in ``chrome://tracing``, packed (``.gz``) as well as not.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runner.backend.cuda import cupti
from runner.profile import nvtx
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.tables import write_tables
from runner.result.model import Profile, ProfileStatus, TraceEvent
from runner.timeline import chrome
from runner.timeline.summary import fill
from runner.timeline.trace import Trace

SUFFIX = ".trace.json"
PACK_FROM_BYTES = 10_000_000
"""A larger trace is packed."""


class TimelineProfiler:
    """See ``runner.profile.base.Profiler``."""

    name = "timeline"
    verdict = False

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings

    @property
    def title(self) -> str:
        return f"timeline (cupti-python {cupti.version()})" if cupti.version() else "timeline"

    def unavailable(self, subject: Subject) -> str:
        if subject.kind == "program":
            return "profiler=timeline records within the runner's own worker; for a program use profiler=nsys"
        if subject.backend != "cuda":
            return ""
        tool = nvtx.attached()
        if tool:
            return (
                f"{tool} is attached to this process, and CUPTI serves one tool at a time: run the command without it"
            )
        return cupti.reason()

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """One process for all captures."""
        scratch = Path(tempfile.mkdtemp(prefix="runner-timeline-"))
        steps = self._settings.steps
        return [Launch(tuple(captures), scratch, backend=subject.backend, steps=steps, record=True)]

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        try:
            return [self._one(launch, capture, ended) for capture in launch.captures]
        finally:
            shutil.rmtree(launch.scratch, ignore_errors=True)

    def _one(self, launch: Launch, capture: Capture, ended: Ended) -> Profile:
        profile = Profile(ProfileStatus.FAILED, tool=self.title)
        try:
            events = _read(launch.scratch / f"{capture.variant}.events.json")
        except FileNotFoundError:
            profile.reason = f"nothing was recorded: {self._why_missing(ended)}"
            return profile
        except (OSError, ValueError, TypeError) as error:
            profile.reason = f"the recorded events cannot be read ({error}); profile again"
            return profile
        trace = Trace(events)
        profile.ranges = trace.range_names()
        profile.reason = _what_lacks(capture, trace)
        try:
            if not profile.reason:
                fill(profile, trace, capture.range, launch.steps, self._settings.categories)
                profile.status = ProfileStatus.OK
                profile.artifacts += write_tables(profile, capture.folder, capture.name)
            profile.artifacts.append(_write_trace(trace, capture))
        except OSError as error:
            profile.status = ProfileStatus.FAILED
            profile.reason = f"the trace could not be filed in {capture.folder}: {error.strerror or error}"
        return profile

    def _why_missing(self, ended: Ended) -> str:
        if ended.timed_out:
            return (
                f"the worker did not end within profiler.timeout_s={self._settings.timeout_s:g} and was killed; "
                "raise profiler.timeout_s or lower profiler.steps"
            )
        if ended.problem:
            return ended.problem
        lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
        return f"the worker ended with code {ended.returncode} ({lines[-1] if lines else 'it said nothing'})"


def _read(path: Path) -> list[TraceEvent]:
    """Raises ``OSError``, or ``ValueError`` and ``TypeError`` for what are no events."""
    return [TraceEvent(**event) for event in json.loads(path.read_text(encoding="utf-8"))]


def _what_lacks(capture: Capture, trace: Trace) -> str:
    """Why the events are not good enough; empty when they are."""
    if capture.range not in trace.range_names():
        return f"the recording lacks the range {capture.range}; profile again"
    lacks = {"ranges": False, "work": not trace.work, "kernels": not trace.count("launch", "graph")}[capture.holds]
    if lacks:
        what = "kernel" if capture.holds == "kernels" else "kernel or copy"
        return (
            f"CUPTI recorded no {what} within the range {capture.range}: another tool holds it, or it is "
            "older than the driver; stop other profilers, or pip install --upgrade cupti-python"
        )
    return ""


def _write_trace(trace: Trace, capture: Capture) -> str:
    """Writes the trace, packed when it is large, and returns its file's name. Raises ``OSError``."""
    capture.folder.mkdir(parents=True, exist_ok=True)
    path = capture.folder / f"{capture.name}{SUFFIX}"
    chrome.write(trace, path, capture.range)
    if path.stat().st_size <= PACK_FROM_BYTES:
        return path.name
    packed = path.with_name(f"{path.name}.gz")
    with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target)
    path.unlink()
    return packed.name
