"""The profilers by name, and what several of them found for one variant made into one profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from runner.profile import nvtx
from runner.profile.base import Capture, Ended, Launch, Profiler, ProfileSettings, Subject
from runner.profile.monitor import MonitorProfiler
from runner.profile.ncu import NcuProfiler
from runner.profile.nsys import NsysProfiler
from runner.profile.sanitizer import Sanitizer
from runner.profile.sanitizer_report import grouped
from runner.profile.timeline import TimelineProfiler
from runner.result.model import Profile, ProfileStatus

_WORST_FIRST = (ProfileStatus.FAILED, ProfileStatus.UNAVAILABLE, ProfileStatus.OK, ProfileStatus.OFF)


class NvtxProfiler:
    """``nvtx``: the ranges that the worker emits anyway are wanted, for a tool that the user puts round the command;
    here they are only found possible or not."""

    name = "nvtx"
    verdict = False

    def __init__(self, settings: ProfileSettings) -> None:
        self.title = f"nvtx {nvtx.version()}"

    def unavailable(self, subject: Subject) -> str:
        if subject.kind == "program":
            return "profiler=nvtx is about the runner's ranges, and a program has its own: record them by profiler=nsys"
        return nvtx.unrecorded(nvtx.version(), "")

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        return []

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        raise ValueError("profiler=nvtx starts no process")


TOOLS: dict[str, Callable[[ProfileSettings], Profiler]] = {
    "nvtx": NvtxProfiler,
    "nsys": NsysProfiler,
    "ncu": NcuProfiler,
    "timeline": TimelineProfiler,
    "monitor": MonitorProfiler,
    **{name: partial(Sanitizer, name) for name in ("memcheck", "racecheck", "initcheck", "synccheck")},
}


def open_profiler(tool: str, settings: ProfileSettings) -> Profiler:
    """Raises ``ValueError`` naming the tools there are."""
    if tool not in TOOLS:
        raise ValueError(f"profiler.tools={tool!r}: allowed are {', '.join(TOOLS)}")
    return TOOLS[tool](settings)


def merged(profiles: Sequence[Profile]) -> Profile:
    """What several tools, or several runs of one, found for one variant; OFF for none. Of two timelines the last one
    counts, in the tables as in the metrics and in the CSV files, which it has written over."""
    if len(profiles) < 2:
        return profiles[0] if profiles else Profile()
    worst = min((profile.status for profile in profiles), key=_WORST_FIRST.index)
    several = len({p.tool for p in profiles}) > 1
    last_first = profiles[::-1]
    reasons = [f"{p.tool.split(' ')[0]}: {p.reason}" if several else p.reason for p in profiles if p.reason]
    return Profile(
        status=worst,
        reason="; ".join(dict.fromkeys(reasons)),
        tool=", ".join(dict.fromkeys(p.tool for p in profiles if p.tool)),
        ranges=list(dict.fromkeys(name for p in profiles for name in p.ranges)),
        artifacts=list(dict.fromkeys(name for p in profiles for name in p.artifacts)),
        reports=[report for p in profiles for report in p.reports],
        commands=[command for p in profiles for command in p.commands],
        metrics={name: value for p in profiles for name, value in p.metrics.items()},
        kernels=next((p.kernels for p in last_first if p.kernels), []),
        categories=next((p.categories for p in last_first if p.categories), []),
        calls=next((p.calls for p in last_first if p.calls), []),
        gaps=next((p.gaps for p in last_first if p.gaps), []),
        counters=[counters for p in profiles for counters in p.counters],
        findings=grouped(finding for p in profiles for finding in p.findings),
        series={name: points for p in profiles for name, points in p.series.items()},
        started=next((p.started for p in profiles if p.started), ""),
    )
