"""Device time of something a workload enqueues, for figures that only the workload knows.

Not a measurement of a variant: that is ``runner.measure``'s. These are the parts a variant's time is made of.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from runner.backend.base import Stream

REPEATS = 5
"""Runs whose median is taken."""


def device_us(stream: Stream, enqueue: Callable[[], None], hold: bool = True) -> float:
    """Microseconds from the first to the last thing ``enqueue`` puts on ``stream``.

    Held, everything is enqueued before the first of it starts, so that no launch is late. ``hold`` must be False
    where ``enqueue`` waits for the device (a copy from memory that is not page-locked).
    """
    begin, end = stream.device.event(), stream.device.event()
    if hold:
        stream.hold()
    try:
        stream.record(begin)
        enqueue()
        stream.record(end)
    finally:
        if hold:
            stream.release()
    end.synchronize()
    return end.elapsed_us(begin)


def median_us(stream: Stream, enqueue: Callable[[], None], hold: bool = True) -> float:
    """The median of ``REPEATS`` times ``device_us``."""
    return statistics.median(device_us(stream, enqueue, hold) for _ in range(REPEATS))
