"""How long a step took by its own kernels' records."""

from __future__ import annotations

from collections.abc import Iterable

from runner.result.model import TraceEvent
from runner.timeline.trace import DEVICE_KINDS


def span_us(events: Iterable[TraceEvent]) -> float | None:
    """From the start of the first work to the end of the last, microseconds, of the device that takes longest; None
    where no device did anything. Gaps between kernels are in it."""
    opens: dict[int, float] = {}
    closes: dict[int, float] = {}
    for event in events:
        if event.kind in DEVICE_KINDS:
            opens[event.device] = min(opens.get(event.device, event.start_us), event.start_us)
            closes[event.device] = max(closes.get(event.device, event.end_us), event.end_us)
    return max((closes[device] - opens[device] for device in opens), default=None)
