"""Traces whose gaps are known by construction, and the real reports of tests/data/timeline."""

from __future__ import annotations

from pathlib import Path

from runner.result.model import TraceEvent
from runner.timeline.sqlite import read
from runner.timeline.trace import Trace

DATA = Path(__file__).resolve().parents[1] / "data" / "timeline"
REPORTS = sorted(path.stem for path in DATA.glob("*.sqlite"))


def report(name: str) -> Trace:
    return read(DATA / f"{name}.sqlite")


def call(name: str, start: float, end: float, correlation: int = 0, thread: int = 1, kind: str = "api") -> TraceEvent:
    return TraceEvent(kind, name, 0, 0, start, end, thread, correlation)


def kernel(
    start: float, end: float, correlation: int = 0, stream: int = 7, device: int = 0, name: str = "k"
) -> TraceEvent:
    return TraceEvent("launch", name, device, stream, start, end, 0, correlation)


def copy(start: float, end: float, correlation: int = 0, stream: int = 7, memory: str = "pinned") -> TraceEvent:
    return TraceEvent("copy", "DtoH", 0, stream, start, end, 0, correlation, 4096, memory=memory)


def span(start: float, end: float, name: str = "step") -> TraceEvent:
    return TraceEvent("range", name, 0, 0, start, end, 1)
