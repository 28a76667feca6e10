"""What came out: one ``Result`` per (experiment, variant), complete in itself, written to ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA_VERSION = 1
INTERRUPTED = "interrupted by the user"
"""Message of a SKIPPED result that Ctrl-C kept from ending; trackers file it as killed."""


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
    """Name of the check."""
    passed: bool
    """The output agrees with the reference."""
    max_abs_err: float | None = None
    """None for exact (integer) checks."""
    max_rel_err: float | None = None
    """Largest relative error; null as for ``max_abs_err``."""
    l2_err: float | None = None
    """Relative L2 norm of the error: ||out - ref|| / ||ref||."""
    rows_checked: int = 0
    """Rows compared."""
    rows_total: int = 0
    """Rows of the output."""
    message: str = ""
    """What differs; empty when it passed."""


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
    """Bytes read before each sample to empty the caches; 0 = not flushed."""
    wall_s: float = 0.0
    """Wall-clock seconds the series took."""


@dataclass
class TraceEvent:
    """One thing that happened: filled by the host backend and by CUPTI alike."""

    kind: str
    """``range``, ``launch``, ``copy`` or ``api``."""
    name: str
    """Name of the range, kernel or call."""
    device: int
    """Device ordinal."""
    stream: int
    """Number of the stream on that device."""
    start_us: float
    """Microseconds from the start of the traced step."""
    end_us: float
    """As ``start_us``."""


@dataclass
class Profile:
    status: ProfileStatus = ProfileStatus.OFF
    """What became of the profiler's run."""
    reason: str = ""
    """Why there is no good report, or what it lacks; empty otherwise."""
    tool: str = ""
    """Name and version: ``nsys 2023.4.4``; empty when off."""
    ranges: list[str] = field(default_factory=list)
    """NVTX ranges the report holds, in order of their start."""
    artifacts: list[str] = field(default_factory=list)
    """Paths relative to the result's folder."""


@dataclass
class Result:
    """One variant of one experiment. ``config`` is already free of secrets."""

    id: str
    """UUID4; the tag by which the tracker files it exactly once."""
    kernel: str
    """The family: the option of the ``kernel`` group."""
    variant: str
    """One implementation within the family."""
    status: Status
    """Did it run, and is it right? Only this decides the exit code."""
    message: str = ""
    """What went wrong and what to do; empty when PASSED."""
    quality: Quality = Quality.UNMEASURED
    """How far the numbers can be trusted."""
    warnings: list[str] = field(default_factory=list)
    """What a reader of the numbers should know."""
    sweep_id: str = ""
    """Shared by all results of one command."""
    experiment_id: str = ""
    """Shared by the variants of one experiment."""
    backend: str = ""
    """``cuda`` or ``host``."""
    phase: str = ""
    """What the work belongs to: ``decode``, ``prefill``, ``transfer``."""
    model: str = ""
    """Option of the ``model`` group."""
    shape: str = ""
    """Option of the ``shape`` group."""
    gpu: str = ""
    """Option of the ``gpu`` group that was used."""
    baseline: bool = False
    """This variant is the one that speed-ups refer to."""
    params: dict[str, Any] = field(default_factory=dict)
    """The family's parameters under their letters and their long names, and what was chosen of each group."""
    names: dict[str, str] = field(default_factory=dict)
    """Letter → long name of the family's parameters that have one: ``{"T": "context"}``."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metric name → value; a figure that is not finite is absent."""
    checks: list[CheckResult] = field(default_factory=list)
    """Every comparison with the reference."""
    samples: list[Series] = field(default_factory=list)
    """Raw times, by mode."""
    profile: Profile = field(default_factory=Profile)
    """What the profiler delivered."""
    events: list[TraceEvent] = field(default_factory=list)
    """Timeline of the first checked step: its range, launches and copies."""
    artifacts: list[str] = field(default_factory=list)
    """Other files beside ``result.json``, relative to its folder."""
    config: dict[str, Any] = field(default_factory=dict)
    """The composed config, free of secrets."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Machine, driver, versions and commit."""
    overrides: list[str] = field(default_factory=list)
    """Hydra overrides of this experiment."""
    repeat: str = ""
    """The command that runs this experiment again."""
    started: str = ""
    """ISO 8601, UTC."""
    duration_s: float = 0.0
    """Wall-clock seconds from the first check to the last."""
    schema_version: int = SCHEMA_VERSION
    """Version of this document's layout."""
