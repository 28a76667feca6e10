"""The plan: everything one experiment will do, resolved to plain numbers.

A plan is a frozen value. It knows every buffer, launch, byte and FLOP before anything is compiled or
allocated, it can be printed without a GPU, and it travels to the worker as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

BackendName = Literal["cuda", "host"]
Unit = Literal["prepare", "main", "fill", "flush"]
"""Which compilation a kernel comes from: ``prepare`` is compiled without contraction (fused multiply-add),
so that quantised inputs agree with NumPy to the last bit; ``main`` with the family's own flags; ``fill`` is
``cuda_src/common/fill.cu``, compiled like ``prepare``."""


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
    value: float | int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch. ``grid`` and ``block`` are (x, y, z); an empty grid (a zero) is never launched."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    unit: Unit = "main"
    device: int = 0


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
    rtol: float
    exact: bool = False
    """Integer results: bit for bit, and no error figures are printed."""
    zero_ok: bool = False
    """An all-zero output is right (otherwise it fails, whatever the tolerance)."""


@dataclass(frozen=True)
class Variant:
    """One implementation within the family."""

    name: str
    launches: tuple[Launch, ...]
    """Empty for a workload class, which enqueues its own."""
    checks: tuple[Check, ...]
    bytes_read: int
    bytes_written: int
    flops: int
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
class Plan:
    """One fully resolved experiment."""

    kernel: str
    phase: str
    params: dict[str, float | int | str]
    """Family letters and long names, as filed: ``{"B": 1, "batch": 1, "T": 4096, "context": 4096, …}``."""
    symbols: dict[str, float | int | str]
    """Letters and derived values only; what references and workloads read."""
    model: str
    shape: str
    target: Target
    devices: tuple[int, ...]
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
    variants: tuple[Variant, ...]
    baseline: str
    seed: int
    workload: WorkloadRef = WorkloadRef()
    sanitize: bool = False
    shape_line: str = ""
    """One line that says the sizes, printed after the checks."""

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def variant(self, name: str) -> Variant:
        return next(v for v in self.variants if v.name == name)
