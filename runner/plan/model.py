"""The plan: everything one experiment will do, resolved to plain numbers.

A plan is a frozen value. It knows every buffer, launch, byte and FLOP before anything is compiled or
allocated, it can be printed without a GPU, and it travels to the worker as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

BackendName = Literal["cuda", "host"]
Unit = Literal["prepare", "main", "fill", "flush"]
"""Which program a kernel comes from: ``prepare`` is the family's source compiled without contraction (fused
multiply-add), so that quantised inputs agree with NumPy to the last bit; ``main`` the same source with the family's
own flags; ``fill`` and ``flush`` are ``cuda_src/common/fill.cu``, compiled like ``prepare``, and ``flush.cu``, like
``main``."""


@dataclass(frozen=True)
class Fill:
    """How a buffer gets its first contents, on the device and identically in NumPy (``check.generator``)."""

    kind: Literal["none", "zeros", "constant", "uniform", "integers", "reference"] = "none"
    """``reference``: the family's reference makes it, ``inputs(case, name)``; for tables and lengths."""
    low: float = -1.0
    """``uniform``: smallest value; ``integers``: smallest integer."""
    high: float = 1.0
    """``uniform`` and ``integers``: exclusive upper end."""
    value: float = 0.0
    """``constant``: the value."""


@dataclass(frozen=True)
class Buffer:
    """One device array, C order."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    """A name known to ``runner.plan.dtypes``: float32, float16, bfloat16, float8_e4m3, int8, …"""
    fill: Fill = Fill()
    device: int = 0
    """Index into the experiment's ``devices``, not a device ordinal."""

    @property
    def elements(self) -> int:
        count = 1
        for dim in self.dims:
            count *= dim
        return count


@dataclass(frozen=True)
class Argument:
    """One kernel argument: a buffer's address, or a scalar passed by value."""

    kind: Literal["buffer", "int64", "int32", "uint64", "float32"]
    buffer: str = ""
    """Name of the buffer, where ``kind`` says so."""
    value: float | int = 0
    """Any other kind: the number, in range of that type."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch."""

    function: str
    """Name of the entry point."""
    grid: tuple[int, int, int]
    """Blocks along x, y, z; with a zero among them the grid is empty and never launched."""
    block: tuple[int, int, int]
    """Threads along x, y, z."""
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    unit: Unit = "main"
    device: int = 0
    """As ``Buffer.device``."""


@dataclass(frozen=True)
class Check:
    """One named comparison of an output buffer with the reference."""

    name: str
    """The name printed and filed: ``q8_kv_scan``."""
    output: str
    """Buffer compared."""
    row_dims: int
    """How many leading dimensions of ``output`` index a row; a row is what the reference computes at a time."""
    row_cost: int
    """Input elements the reference touches for one row; rows are sampled when all of them would be slow."""
    atol: float
    """An element may differ by ``atol + rtol * |reference|``."""
    rtol: float
    exact: bool = False
    """Integer results: bit for bit, and no error figures are printed."""
    zero_ok: bool = False
    """An all-zero output is right (otherwise it fails, whatever the tolerance)."""
    varies: bool = False
    """Two steps may differ where the reference allows both (otherwise a step that repeats must give the same)."""


@dataclass(frozen=True)
class Variant:
    """One implementation within the family."""

    name: str
    launches: tuple[Launch, ...]
    """Empty for a workload class, which enqueues its own."""
    checks: tuple[Check, ...]
    bytes_read: int
    """Declared, per step: what has to come from device memory when no cache holds it."""
    bytes_written: int
    flops: int
    """Declared, per step; a multiply-add counts two."""
    dtype: str
    """Storage type of the main operand, filed as the parameter ``dtype``."""
    compute: str = "float32"
    """Arithmetic type whose peak bounds the FLOP rate: a key of ``Target.tflops``."""
    drift: str = ""
    """Another variant's check, whose reference the output of this one's first check is compared with."""
    report: dict[str, float] = field(default_factory=dict)
    """Further figures by arithmetic, filed as metrics: ``weight_bytes``, ``scale_bytes``, …"""
    timed: dict[str, str] = field(default_factory=dict)
    """Figures by arithmetic over the symbols, ``report`` and ``time_us``: metric → expression."""

    @property
    def bytes_moved(self) -> int:
        """Read and written together."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True)
class Target:
    """The GPU (or CPU) the experiment is placed against."""

    name: str
    """Option of the ``gpu`` group; for ``auto`` the option that was detected, or ``host``."""
    title: str = ""
    backend: BackendName = "host"
    arch: str = ""
    """``sm_90a`` and so on; empty on host."""
    sms: int = 0
    l2_bytes: int = 0
    memory_bytes: int = 0
    """What the driver reports; 0 when unknown."""
    bandwidth_gbps: float = 0.0
    """Datasheet DRAM bandwidth, 1e9 byte/s; 0 when unknown."""
    tflops: dict[str, float] = field(default_factory=dict)
    """Dense datasheet peak, 1e12 FLOP/s, by arithmetic type (float32, float16, bfloat16, float8, int8)."""
    note: str = ""
    """Why this target: ``no NVIDIA GPU found, running on the CPU``."""


@dataclass(frozen=True)
class WorkloadRef:
    """Which workload class runs the variants; the declared one unless the family names another."""

    target: str = "runner.workload.declared.DeclaredWorkload"
    options: dict[str, float | int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadyPlan:
    """How it is known that a server can take load."""

    kind: Literal["port", "url", "output"]
    value: str
    """The port's number, the URL, or a regular expression for a line of output."""
    timeout_s: float


@dataclass(frozen=True)
class CommandPlan:
    """A program of the user that is the experiment."""

    argv: tuple[str, ...]
    """The program's absolute path and its arguments."""
    shown: str
    """``argv`` as a shell would take it, free of secrets."""
    folder: str
    """Absolute; where it runs."""
    environment: dict[str, str]
    """Set on top of the runner's own environment."""
    warmup: int
    """Runs that are not measured."""
    repeat: int
    """Measured runs."""
    metrics: dict[str, str]
    """Metric name → regular expression with one group, or a JSON path; ``runner.config.metric_source``."""
    shell: bool = False
    """``argv`` is a shell with a command line of the user's."""
    ready: ReadyPlan | None = None
    """With ``load``: ``argv`` is a server."""
    load: tuple[str, ...] = ()
    """The client that loads the server, as ``argv``: what is measured."""
    stop_s: float = 10.0
    """A server has this long to end after SIGTERM."""


COMPANION = "companion."
"""How names of a companion's buffers and programs begin where they stand among those of its plan."""


@dataclass(frozen=True)
class Plan:
    """One fully resolved experiment."""

    kernel: str
    phase: str
    params: dict[str, float | int | str]
    """Every parameter under its letter and its long name, as filed: ``{"T": 4096, "context": 4096, …}``."""
    symbols: dict[str, float | int | str]
    """Letters and derived values only; what references and workloads read."""
    model: str
    shape: str
    target: Target
    devices: tuple[int, ...]
    """Ordinals; ``Buffer.device`` and ``Launch.device`` are positions in here."""
    source: str
    """Absolute path of the ``.cu``; empty for kinds without one."""
    reference: str
    """Dotted module, or absolute path of a ``.py`` for a family outside the package."""
    defines: dict[str, str]
    """Preprocessor definitions, part of the compile key."""
    flags: tuple[str, ...]
    """Extra flags for the ``main`` unit (nvcc)."""
    buffers: tuple[Buffer, ...]
    prepare: tuple[Launch, ...]
    """Run once before anything is measured, in this order."""
    variants: tuple[Variant, ...]
    """Those chosen and possible at this point."""
    baseline: str
    """Variant that speed-ups refer to; it need not be among ``variants``."""
    seed: int
    """Of the inputs and of the sample of rows."""
    workload: WorkloadRef = WorkloadRef()
    sanitize: bool = False
    """Compile with the address sanitizer (host backend)."""
    shape_line: str = ""
    """One line that says the sizes, printed after the checks."""
    companion: Plan | None = None
    """What stands beside it, with buffers and programs of its own and no variants."""
    command: CommandPlan | None = None
    """``kernel=command``: the program that is run instead of kernels; such a plan never goes to a worker."""

    def buffer(self, name: str) -> Buffer:
        """Raises ``KeyError`` naming the kernel and the buffer it lacks."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(f"{self.kernel} has no buffer {name!r} in this plan")

    def variant(self, name: str) -> Variant:
        """Raises ``KeyError`` naming the kernel and the variant it lacks."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(f"{self.kernel} has no variant {name!r} in this plan")
