"""What came out: one ``Result`` per (experiment, variant), complete in itself, written to ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA_VERSION = 1


class Status(str, Enum):
    """Did it run, and is it right? Only this decides the exit code."""

    PASSED = "PASSED"
    """Ran, and every check held before and after timing."""
    INCORRECT = "INCORRECT"
    """Ran, but an output differs from the reference, is not finite, is all zero, or changed between checks."""
    SKIPPED = "SKIPPED"
    """Not run, for a stated reason (a constraint, a device that lacks the feature, an interrupt)."""
    INVALID_CONFIG = "INVALID_CONFIG"
    """The plan refused it; nothing was compiled or allocated."""
    COMPILE_ERROR = "COMPILE_ERROR"
    """The compiler refused the source."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """Larger than the device's memory."""
    LAUNCH_ERROR = "LAUNCH_ERROR"
    """The device refused a launch configuration."""
    RUNTIME_ERROR = "RUNTIME_ERROR"
    """The device or the worker failed while running."""
    TIMEOUT = "TIMEOUT"
    """Did not end in time; the worker was replaced."""

    @property
    def failed(self) -> bool:
        return self not in (Status.PASSED, Status.SKIPPED)


class Quality(str, Enum):
    """How far the numbers can be trusted; never changes the exit code."""

    OK = "OK"
    UNSTABLE = "UNSTABLE"
    """The hard limit came before the spread settled."""
    THROTTLED = "THROTTLED"
    L2_RESIDENT = "L2_RESIDENT"
    """Hot figures come from the cache: the working set fits in it."""
    ABOVE_PEAK = "ABOVE_PEAK"
    """A cold bandwidth above the datasheet's peak: the measurement or the byte count is wrong."""
    UNMEASURED = "UNMEASURED"
    """No timing exists (the variant failed before)."""


class ProfileStatus(str, Enum):
    OFF = "OFF"
    OK = "OK"
    UNAVAILABLE = "UNAVAILABLE"
    """The profiler is not on this machine; the reason carries the install hint."""
    FAILED = "FAILED"
    """The profiler ran and did not deliver; the reason says what."""


@dataclass
class CheckResult:
    """One named check against the reference."""

    name: str
    passed: bool
    max_abs_err: float | None = None
    """None for exact (integer) checks."""
    max_rel_err: float | None = None
    l2_err: float | None = None
    """Relative L2 norm of the error: ||out - ref|| / ||ref||."""
    rows_checked: int = 0
    rows_total: int = 0
    message: str = ""


@dataclass
class Series:
    """The raw samples of one mode and how they were taken."""

    mode: str
    """``cold``, ``hot`` or ``host``."""
    method: str
    """What took the time: ``cuda_events``, ``host_events``, ``host_clock``."""
    samples_us: list[float]
    """Time of one step per sample, microseconds, in order."""
    batch: int = 1
    """Steps per sample; a hot sample is the mean of this many."""
    stop_reason: str = ""
    """``rsd``, ``settled``, ``fixed``, ``max_samples``, ``max_time``."""
    flush_bytes: int = 0
    wall_s: float = 0.0


@dataclass
class TraceEvent:
    """One thing that happened: filled by the host backend and by CUPTI alike."""

    kind: str
    """``range``, ``launch``, ``copy`` or ``api``."""
    name: str
    device: int
    stream: int
    start_us: float
    end_us: float


@dataclass
class Profile:
    status: ProfileStatus = ProfileStatus.OFF
    reason: str = ""
    tool: str = ""
    ranges: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    """Paths relative to the result's folder."""


@dataclass
class Result:
    """One variant of one experiment. ``config`` is already free of secrets."""

    id: str
    """UUID4; the tag by which the tracker files it exactly once."""
    kernel: str
    variant: str
    status: Status
    message: str = ""
    """What went wrong and what to do; empty when PASSED."""
    quality: Quality = Quality.UNMEASURED
    warnings: list[str] = field(default_factory=list)
    sweep_id: str = ""
    experiment_id: str = ""
    """Shared by the variants of one experiment."""
    backend: str = ""
    phase: str = ""
    model: str = ""
    shape: str = ""
    gpu: str = ""
    baseline: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    checks: list[CheckResult] = field(default_factory=list)
    samples: list[Series] = field(default_factory=list)
    profile: Profile = field(default_factory=Profile)
    events: list[TraceEvent] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    """Other files beside ``result.json``, relative to its folder."""
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    repeat: str = ""
    """The command that runs this experiment again."""
    started: str = ""
    """ISO 8601, UTC."""
    duration_s: float = 0.0
    schema_version: int = SCHEMA_VERSION
