"""What is compiled, what comes out, and what can go wrong."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.plan.model import BackendName, Unit


@dataclass(frozen=True)
class BuildRequest:
    """One compilation: a source as one unit, for one backend and architecture."""

    source: str
    """Absolute path of the ``.cu``."""
    backend: BackendName
    arch: str
    """``sm_90a``; empty on host."""
    unit: Unit
    """``prepare`` is compiled without contraction, ``main`` with the family's own flags."""
    defines: tuple[tuple[str, str], ...] = ()
    """Preprocessor definitions, sorted by name."""
    flags: tuple[str, ...] = ()
    """The family's own flags, written for nvcc; empty for ``prepare``. The CPU takes what fits it."""
    functions: tuple[str, ...] = ()
    """Every entry point in the source, in its order there."""
    sanitize: bool = False
    """Compile for a memory checker."""


@dataclass(frozen=True)
class KernelResources:
    """What the device compiler gave one kernel; bytes are per block (shared) or per thread (the others)."""

    registers: int
    """Registers per thread."""
    shared_bytes: int = 0
    """Static shared memory per block; dynamic shared memory comes on top at launch."""
    spill_stores: int = 0
    spill_loads: int = 0
    stack_bytes: int = 0
    """Local memory for arrays the compiler could not keep in registers, spills included."""


@dataclass(frozen=True)
class Program:
    """A compiled request: a ``.cubin`` or a shared library in the cache."""

    request: BuildRequest
    path: Path
    command: tuple[str, ...]
    """The compiler's command line. When it ran, the output had a temporary name."""
    log: str
    """What the compiler printed: warnings, and the resources of each kernel."""
    cached: bool
    seconds: float
    """Wall-clock time of this call: a compilation, or a look into the cache."""
    resources: dict[str, KernelResources] = field(default_factory=dict)
    """By function; empty on host."""


class CompileError(Exception):
    """A source that does not compile, or a compiler that cannot run."""

    def __init__(self, message: str, command: Sequence[str] = (), errors: Sequence[str] = (), advice: str = ""):
        self.message = message
        self.command = tuple(command)
        self.errors = tuple(errors)
        """The compiler's own first error lines."""
        self.advice = advice
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in self.errors)]
        if self.command:
            lines.append(f"  command: {shlex.join(self.command)}")
        if self.advice:
            lines.append(f"  {self.advice}")
        return "\n".join(lines)


class CompilerMissing(CompileError):
    """No compiler was found; the advice says how to install one."""


class CacheError(CompileError):
    """The compile cache cannot be written: a full disk, or a folder without permission."""
