"""What every profiler offers, so that another tool is one more file and nothing else changes.

A profiler that needs a process of its own gives a ``Launch``: the command line put before the worker's and
the variables set in it. The driver starts the worker under it, asks it for the hot region of every variant,
waits, and hands what happened to ``collect``, which returns one ``Profile`` per variant and never raises for
a report that is missing or wrong: a failed profile keeps the timings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from runner.plan.model import BackendName
from runner.result.model import Profile

Holds = Literal["ranges", "work", "kernels"]
"""What a report must hold: the variant's range; also device work of any kind (copies); also a kernel."""


@dataclass(frozen=True)
class ProfileSettings:
    """The ``profiler`` group as a plain value."""

    tool: str = "none"
    trace: tuple[str, ...] = ("cuda", "nvtx", "osrt")
    steps: int = 10
    """Steps inside the captured range."""
    timeout_s: float = 300.0
    """Limit for the whole profiled process, and again for reading each report."""


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
class Launch:
    """How to start the worker under a tool. Used for one process, then given to ``collect``."""

    command: tuple[str, ...]
    """Put before the interpreter."""
    environment: dict[str, str]
    """Set in the tool's process, and so in the worker's."""
    backend: BackendName
    scratch: Path
    """Private folder for raw reports and the tool's temporary files; ``collect`` removes it."""


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


class Profiler(Protocol):
    name: str
    own_process: bool
    """Whether the hot region runs in a process of its own, under ``launch``."""

    def unavailable(self) -> str:
        """Why this tool cannot be used here and how to get it; empty when it can."""
        ...

    def launch(self, variants: int, backend: BackendName) -> Launch:
        """For one process that serves ``variants`` captures; ``collect`` must follow, whatever happens."""
        ...

    def collect(self, launch: Launch | None, captures: Sequence[Capture], ended: Ended) -> list[Profile]:
        """One profile per capture, in order."""
        ...
