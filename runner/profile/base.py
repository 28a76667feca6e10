"""What every profiler offers, so that another tool is one more file and nothing else changes.

A profiler never touches the timed run. It asks for processes of its own (``launches``): the worker, or the program of
``kernel=command``, once more, under the tool's command line. The driver runs each, tells it when the interesting part
begins and ends (``Launch.window``), and hands what happened to ``collect``, which returns one ``Profile`` per capture
and never raises for a report that is missing or wrong: a failed profile keeps the timings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from runner.plan.model import BackendName
from runner.result.model import CheckResult, Profile

Holds = Literal["anything", "ranges", "work", "kernels"]
"""What a report must hold: nothing certain (a program of which nothing is known); the variant's range; also device work
of any kind (copies); also a kernel."""


@dataclass(frozen=True)
class ProfileSettings:
    """The ``profiler`` group as a plain value."""

    steps: int = 10
    """Steps inside the captured range."""
    timeout_s: float = 300.0
    """Limit for a whole profiled process, and again for reading each report."""
    reports: str = "variant"
    """``variant``: one report for each; ``experiment``: one for all variants, which lies with the first."""
    trace: tuple[str, ...] = ("cuda", "nvtx", "osrt")
    """Nsight Systems: what is traced."""
    capture: str = "api"
    """Nsight Systems: ``api`` (from cuProfilerStart to cuProfilerStop), ``nvtx`` (the range ``runner_capture``) or
    ``all`` (the whole process, preparation included)."""
    gpu_metrics: bool = False
    """Nsight Systems: sample the GPU's metrics too, where the driver allows it."""
    graph_trace: str = "node"
    """Nsight Systems: CUDA graphs by ``node`` (each kernel, at some cost) or as a whole (``graph``)."""
    sections: str = "speed_of_light"
    """Nsight Compute: name of a section set, ``runner.profile.sections``."""
    kernels: str = ""
    """Nsight Compute: regular expression of the kernels to profile; empty = all."""
    launch_skip: int = 0
    """Nsight Compute: matching launches of each variant left out at the start."""
    launch_count: int = 0
    """Nsight Compute: at most this many launches of each variant; 0 = all of them."""
    replay: str = "kernel"
    """Nsight Compute: ``kernel`` (each kernel again for every pass), ``range`` (the whole captured range) or
    ``application`` (the whole process)."""
    categories: tuple[Path, ...] = ()
    """Files of rules that sort kernels into categories, asked before ours."""
    interval_s: float = 0.1
    """``monitor``: time between two samples."""
    duration_s: float = 3.0
    """``monitor``: how long the hot region is repeated."""


@dataclass(frozen=True)
class Capture:
    """One variant's report: what it must hold, and where it goes."""

    variant: str
    range: str
    """Name of the range round the hot region, ``names.range_name``: ``decode/kv_quant/q8``."""
    name: str
    """File name without suffix, ``names.report_name``."""
    folder: Path
    """The variant's result folder; ``Profile.artifacts`` are relative to it."""
    holds: Holds = "ranges"


@dataclass(frozen=True)
class Subject:
    """What is profiled."""

    kind: Literal["worker", "program"]
    """Our worker, which runs the hot regions and speaks ``runner.profile.nvtx``'s protocol; or any program, which is
    captured whole, or while its load runs."""
    backend: BackendName
    uuids: tuple[str, ...] = ()
    """Of the devices it uses, where they are known."""
    windowed: bool = False
    """Of a program: only what happens between ``Window.begin`` and ``Window.end`` is wanted (a server's load)."""


class Window:
    """Hears when the interesting part of a process begins and ends. This one does nothing."""

    def begin(self, name: str) -> None:
        """``name``: the variant whose hot region begins; the program's name for a program."""

    def end(self, name: str) -> None:
        """Called for every ``begin`` whose process still lives."""


@dataclass(frozen=True)
class Launch:
    """One process to run under a tool. Used once, then given to ``collect``."""

    captures: tuple[Capture, ...]
    """Those this process serves, in this order."""
    scratch: Path
    """Private folder for raw reports and the tool's temporary files; ``collect`` removes it."""
    command: tuple[str, ...] = ()
    """Put before the interpreter, or the program."""
    environment: dict[str, str] = field(default_factory=dict)
    """Set in the tool's process, and so in the profiled one."""
    backend: BackendName = "host"
    steps: int = 1
    """Of each hot region."""
    min_time_s: float = 0.0
    """Repeat the steps for at least this long."""
    record: bool = False
    """The worker itself records what happens (CUPTI; the host backend) and leaves
    ``<scratch>/<variant>.events.json``, a list of ``TraceEvent`` documents."""
    flushed: bool = False
    """Each step alone, as a cold sample is: its caches flushed before, queued behind a held stream. What is recorded is
    then ``<scratch>/<variant>.steps.json``, a list of such lists, one for each step."""
    checked: bool = False
    """Each step on poisoned outputs, which are then compared with the reference; see ``Ended.checks``."""
    sanitize: bool = False
    """Programs compiled with the host backend's sanitizer."""
    window: Window = field(default_factory=Window)
    lock: Path | None = None
    """A file that is locked while the process runs: the tool does not bear a second process beside it."""
    note: str = ""
    """What the process costs, for who waits: ``full: about 40 passes …``."""


@dataclass(frozen=True)
class Ended:
    """How the profiled process ended."""

    returncode: int | None
    """None when it had to be killed."""
    timed_out: bool = False
    output: str = ""
    """The end of what it wrote to stdout and stderr."""
    problem: str = ""
    """What the worker itself reported (a launch error, say); empty when it did all it was asked."""
    command: str = ""
    """What was run, as a shell would take it, free of secrets."""
    checks: dict[str, list[CheckResult]] = field(default_factory=dict)
    """By variant, where ``Launch.checked`` asked for them: those of every step, one step after another."""


class Profiler(Protocol):
    @property
    def name(self) -> str:
        """As in ``profiler.tools``."""
        ...

    @property
    def title(self) -> str:
        """Name and version, for ``Profile.tool``."""
        ...

    @property
    def verdict(self) -> bool:
        """Whether ``Profile.findings`` say that the result is wrong."""
        ...

    def unavailable(self, subject: Subject) -> str:
        """Why this tool cannot be used here and how to get it; empty when it can."""
        ...

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        """The processes to run, one after another; every capture is in one at least, and what several found for it
        is merged. ``collect`` must follow each, whatever happens. Empty where nothing has to be run: the profile is
        then OK as it stands."""
        ...

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        """One profile per capture of ``launch``, in order."""
        ...
