"""What driver and worker say to each other: one JSON object a line, each with the protocol's version.

Driver to worker: ``hello`` (open the devices and describe them), ``run`` (measure the named variants of a plan, whose
workloads may leave documents in ``<folder>/<variant>``; ``held``: the driver has the devices' locks already),
``profile`` (only the hot region of each variant, for a profiler round the process), ``exit``.

Worker to driver: ``ready``, ``devices``, ``waiting`` (for a device lock), ``locked``, ``started`` (a variant),
``outcome`` (a variant's), ``profiled`` (a variant's hot region, with its checks), ``failed`` (the whole experiment),
``done``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from runner.result.model import CheckResult, Series, Status, TraceEvent

VERSION = 1
FAULT_EXIT = 3
"""Exit code of a worker that has reported a fault and can no longer be trusted."""

STEPS_SUFFIX = ".steps.json"
"""Of the file that holds the events of each step."""


class ProtocolError(RuntimeError):
    """A message of another version, or none at all."""


@dataclass
class Outcome:
    """What the worker learned about one variant; the driver makes a ``Result`` of it."""

    variant: str
    status: Status
    message: str = ""
    checks: list[CheckResult] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    """Figures only the worker can have: drift, energy, the workload's own."""
    state: dict[str, Any] = field(default_factory=dict)
    """Clocks, power, temperature and throttle reasons right after the measurement; empty on host."""
    units_per_step: int = 1
    """What a step is worth in the family's unit: ``Workload.units_per_step``."""
    events: list[TraceEvent] = field(default_factory=list)
    """Of the first checked step."""
    warnings: list[str] = field(default_factory=list)
    """What a reader of the figures should know."""
    started: str = ""
    """ISO 8601, UTC."""
    duration_s: float = 0.0


@dataclass(frozen=True)
class ProfileRequest:
    """How the hot region of each variant is run; see ``runner.profile.base.Launch``."""

    steps: int = 1
    min_time_s: float = 0.0
    record: str = ""
    """Folder for ``<variant>.events.json``; empty = nothing is recorded."""
    flushed: bool = False
    """Single steps with flushed caches, recorded as ``<variant>`` with ``STEPS_SUFFIX``."""
    checked: bool = False


def encode(kind: str, **fields: Any) -> bytes:
    """One line."""
    return json.dumps({"v": VERSION, "kind": kind, **fields}, default=_plain).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """A message, or None for a line that is none of ours (a profiler's chatter on the same pipe)."""
    if not line.startswith(b'{"v":'):
        return None
    message: dict[str, Any] = json.loads(line)
    if message.get("v") != VERSION:
        raise ProtocolError(f"worker speaks protocol {message.get('v')}, this is {VERSION}; is an old process left?")
    return message


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome)


def outcome_from_dict(data: dict[str, Any]) -> Outcome:
    return Outcome(
        **{
            **data,
            "status": Status(data["status"]),
            "checks": [CheckResult(**item) for item in data["checks"]],
            "series": [Series(**item) for item in data["series"]],
            "events": [TraceEvent(**item) for item in data["events"]],
        }
    )


def checks_from_list(data: list[dict[str, Any]]) -> list[CheckResult]:
    """The checks of a ``profiled`` message."""
    return [CheckResult(**item) for item in data]


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} cannot be sent")
