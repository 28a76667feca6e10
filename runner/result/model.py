"""What came out: one ``Result`` per (experiment, variant), complete in itself, written to ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA_VERSION = 2
INTERRUPTED = "interrupted by the user"
"""Message of a SKIPPED result that Ctrl-C kept from ending; trackers file it as killed."""


class Status(str, Enum):
    """Did it run, and is it right? Only this decides the exit code."""

    PASSED = "PASSED"
    """Ran, and every check held before and after timing."""
    INCORRECT = "INCORRECT"
    """Ran, but an output differs from the reference, is not finite, is all zero, or changed between checks; or a rate
    is above what the GPU can physically do."""
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
    """How far the numbers can be trusted. Only ``ABOVE_PEAK`` changes the exit code: its result is INCORRECT."""

    OK = "OK"
    UNSTABLE = "UNSTABLE"
    """The hard limit came before the spread settled."""
    THROTTLED = "THROTTLED"
    L2_RESIDENT = "L2_RESIDENT"
    """Hot figures come from the cache: the working set fits in it."""
    ABOVE_PEAK = "ABOVE_PEAK"
    """A cold bandwidth, or a rate of arithmetic, above the peak of the GPU's datasheet: the measurement or the count of
    bytes or FLOPs is wrong."""
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
    """``cold``, ``hot``, ``graph`` or ``host``."""
    method: str
    """What took the time: ``cuda_events``, ``host_events``, ``host_clock``; ``wall_clock`` of a whole program.
    ``…_with_launch`` where launch latency is within (``measure.hide_latency=false``)."""
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
    trial: int = 1
    """Which of ``measure.trials`` processes took it, counted from 1."""
    clock_mhz: list[float] = field(default_factory=list)
    """Mean clock of the SMs round each sample, from before its flush to behind its step, as many as there are samples
    (of several devices the slowest one's); 0 = this one is unknown; empty = not measured."""
    launch_us: list[float] = field(default_factory=list)
    """Of samples by the host's clock the part until the step was queued, microseconds, as many as there are samples;
    empty where a step waits for the device itself."""
    dropped: int = 0
    """Samples that are not among these because the clock was held down."""
    throttled: int = 0
    """Samples among these whose clock was held down: kept, because as many as may be had been dropped."""
    rotated: int = 1
    """Copies of the inputs that the steps of a graph walk through; 1 = always the same."""
    warm: bool = False
    """In a graph: the caches may hold what a step reads, for all copies together are not larger than they are."""


@dataclass(slots=True)
class TraceEvent:
    """One thing that happened on a device or a CPU thread; Nsight, CUPTI and the host backend all fill it."""

    kind: str
    """On a device ``launch`` (a kernel), ``graph`` (a whole graph), ``copy`` or ``fill``; on a thread ``range``,
    ``api`` (a CUDA call) or ``os`` (a call into the system)."""
    name: str
    """Name of the range, kernel or call; of a copy its direction (``HtoD``)."""
    device: int
    """Device ordinal; 0 for what happens on a thread."""
    stream: int
    """Number of the stream on that device."""
    start_us: float
    """Microseconds from the start of the trace."""
    end_us: float
    """As ``start_us``."""
    thread: int = 0
    """Number of the thread, for what happens on one."""
    correlation: int = 0
    """Shared by a call and the device work that it caused; 0 = unknown."""
    bytes: int = 0
    """Bytes copied or filled."""
    grid: str = ""
    """Of a kernel, ``264x1x1``."""
    block: str = ""
    """As ``grid``."""
    registers: int = 0
    """Per thread of a kernel; 0 = unknown."""
    shared_bytes: int = 0
    """Shared memory of a block, static and dynamic."""
    memory: str = ""
    """Of a copy, the kind of host memory: ``pinned``, ``pageable``; empty = unknown or none."""


@dataclass
class KernelUse:
    """One row of the kernel table: all launches of one kernel within the profiled range."""

    name: str
    """Base name of the kernel, or the copy's direction, or ``memset``."""
    category: str
    """By the rules of ``runner/timeline/categories.yaml``: ``matmul``, ``attention``, ``memcpy``, …"""
    calls: int
    """Launches."""
    total_us: float
    """Device time of all of them."""
    mean_us: float
    """Device time of one."""
    share: float
    """Of the device time of all kernels, copies and fills, 0 to 1."""
    grid: str = ""
    """Of its largest launch."""
    block: str = ""
    """As ``grid``."""
    registers: int = 0
    """Per thread; 0 = unknown."""
    shared_bytes: int = 0
    """Per block, static and dynamic."""


@dataclass
class CategoryUse:
    """One row of the category table."""

    category: str
    """As in the kernel table."""
    calls: int
    """Launches, copies and fills."""
    total_us: float
    """Device time."""
    share: float
    """Of the device time of all categories, 0 to 1."""


@dataclass
class CallUse:
    """One row of the call table: all calls of one function on the host within the profiled range."""

    kind: str
    """``api`` (CUDA) or ``os``."""
    name: str
    """Function, without a version suffix: ``cuLaunchKernel``."""
    calls: int
    """How often."""
    total_us: float
    """Time within it, on all threads."""
    mean_us: float
    """Of one call."""
    max_us: float
    """The longest."""


@dataclass
class GapCause:
    """What the host did while a device waited."""

    kind: str
    """``launch``, ``sync``, ``alloc``, ``copy``, ``api`` (another CUDA call), ``os``, ``host`` (none of them: the
    program's own code), or ``device`` (the next work had been submitted before: the device's own turnaround)."""
    call: str
    """Function that filled most of it; empty for ``host`` and ``device``."""
    thread: str
    """Name or number of the thread that made the call."""
    count: int
    """Gaps of this cause."""
    total_us: float
    """Their time."""


@dataclass
class GapUse:
    """The gaps between pieces of device work within one NVTX range, all streams of a device taken together."""

    range: str
    """Name of the range."""
    device: int
    """Device ordinal."""
    count: int
    """Gaps, those before the first and after the last work of the range included."""
    total_us: float
    """Time without work on the device."""
    span_us: float
    """Length of the range, up to the end of the last work launched in it, summed over its occurrences."""
    median_us: float
    """Of one gap."""
    p95_us: float
    """95 % of the gaps are shorter."""
    max_us: float
    """The longest."""
    causes: list[GapCause] = field(default_factory=list)
    """The largest first."""


@dataclass
class KernelCounters:
    """What hardware counters say about one kernel, as the mean over its profiled launches."""

    name: str
    """Kernel, or the range where a whole range was replayed."""
    launches: int
    """Profiled launches."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Our names (``dram_throughput_pct``, ``sectors_per_request_load``, …); absent = not collected."""
    limiter: str = ""
    """What limits the occupancy: ``registers``, ``shared_memory``, ``blocks``, ``warps``, ``barriers`` or ``grid``."""
    stalls: dict[str, float] = field(default_factory=dict)
    """Stall reason → share of the warps' stalled time, 0 to 1, the largest first."""


@dataclass
class Finding:
    """Something a sanitizer found, with all its repetitions."""

    kind: str
    """``Invalid __global__ write of size 4 bytes``."""
    where: str = ""
    """Kernel, file and line, as far as known."""
    count: int = 1
    """How often it was reported."""
    detail: str = ""
    """One line: the thread, the address, what lies there."""


@dataclass
class RawReport:
    """A profiler's own report file."""

    path: str
    """Relative to the result's folder."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Of its contents, in hex."""


@dataclass
class Profile:
    status: ProfileStatus = ProfileStatus.OFF
    """What became of the profiler's run; with several tools the worst of theirs."""
    reason: str = ""
    """Why there is no good report, or what it lacks; empty otherwise."""
    tool: str = ""
    """Name and version: ``nsys 2023.4.4``; empty when off, joined with ``, `` for several."""
    ranges: list[str] = field(default_factory=list)
    """NVTX ranges the report holds, in order of their start."""
    artifacts: list[str] = field(default_factory=list)
    """Paths relative to the result's folder."""
    reports: list[RawReport] = field(default_factory=list)
    """The raw reports among them."""
    commands: list[str] = field(default_factory=list)
    """What was run, as a shell would take it, free of secrets."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Figures of the profiled run (``gpu_idle_share``, ``launches_per_step``); never times of the kernel itself."""
    kernels: list[KernelUse] = field(default_factory=list)
    """The kernel table, the largest total first."""
    categories: list[CategoryUse] = field(default_factory=list)
    """The category table, the largest total first."""
    calls: list[CallUse] = field(default_factory=list)
    """CUDA and system calls, the largest total first."""
    gaps: list[GapUse] = field(default_factory=list)
    """Idle time of the devices by NVTX range."""
    counters: list[KernelCounters] = field(default_factory=list)
    """Hardware counters by kernel."""
    findings: list[Finding] = field(default_factory=list)
    """What a sanitizer found."""
    series: dict[str, list[list[float]]] = field(default_factory=dict)
    """Sampled figure → ``[[seconds since the start, value], …]``, under MLflow's names of system metrics."""
    started: str = ""
    """When the series began, ISO 8601, UTC; empty without one."""


@dataclass
class Cause:
    """One rule of the diagnosis that applied."""

    rule: str
    """Name of the rule in ``runner/diagnose/rules.yaml``."""
    bound: str
    """What it says the time goes to: ``memory``, ``compute``, ``latency``, ``launches``, ``host_sync``, ``copies``,
    ``allocation``, ``interconnect``, ``host``, …"""
    confidence: str
    """``sure`` (counted or traced), ``likely`` or ``possible``."""
    evidence: list[str] = field(default_factory=list)
    """The numbers that say so, one sentence each."""
    advice: list[str] = field(default_factory=list)
    """What to try."""


@dataclass
class Diagnosis:
    """What bounds this variant, and how that is known."""

    bound: str = ""
    """Of the first cause; empty when nothing can be said."""
    confidence: str = ""
    """Of the first cause."""
    causes: list[Cause] = field(default_factory=list)
    """The most certain and weighty first."""
    next_step: str = ""
    """Which profiler would settle what is open; empty when nothing is."""


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
    compute: str = ""
    """Arithmetic type of its FLOPs, a key of ``environment.target.tflops``; empty where it declares none."""
    params: dict[str, Any] = field(default_factory=dict)
    """The family's parameters under their letters and their long names, what was chosen of each group, and of several
    ``devices`` how many."""
    names: dict[str, str] = field(default_factory=dict)
    """Letter → long name of the family's parameters that have one: ``{"T": "context"}``."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metric name → value; a figure that is not finite is absent."""
    flags: list[str] = field(default_factory=list)
    """What the series behind ``time_us`` looks like: ``first_outlier``, ``drift``, ``bimodal``."""
    checks: list[CheckResult] = field(default_factory=list)
    """Every comparison with the reference."""
    samples: list[Series] = field(default_factory=list)
    """Raw times, by mode."""
    profile: Profile = field(default_factory=Profile)
    """What the profiler delivered."""
    events: list[TraceEvent] = field(default_factory=list)
    """Timeline of the first checked step: its range, launches and copies."""
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    """What bounds it, by the rules of ``runner/diagnose/rules.yaml``."""
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
