"""Device time of something a workload enqueues, for figures that only the workload knows.

Not a measurement of a variant: that is ``runner.measure``'s. These are the parts a variant's time is made of.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.backend.marks import Marks, release_all

REPEATS = 5
"""Runs whose median is taken."""


def device_us(stream: Stream, enqueue: Callable[[], None], hold: bool = True) -> float:
    """Microseconds from the first to the last thing ``enqueue`` puts on ``stream``; see ``devices_us``."""
    return devices_us([stream], enqueue, hold)


def devices_us(streams: Sequence[Stream], enqueue: Callable[[], None], hold: bool = True) -> float:
    """Microseconds that the device takes which takes longest, each from the first to the last thing on its stream.

    Held, everything is enqueued before the first of it starts, so that no launch is late. ``hold`` must be False
    where ``enqueue`` waits for the device (a copy from memory that is not page-locked).
    """
    marks = Marks(streams)
    try:
        for stream in streams if hold else ():
            stream.hold()
        marks.begin()
        enqueue()
        marks.end()
    finally:
        if hold:
            release_all(streams)
    return marks.elapsed_us()


def median_us(stream: Stream, enqueue: Callable[[], None], hold: bool = True) -> float:
    """The median of ``REPEATS`` times ``device_us``."""
    return median_devices_us([stream], enqueue, hold)


def median_devices_us(streams: Sequence[Stream], enqueue: Callable[[], None], hold: bool = True) -> float:
    """The median of ``REPEATS`` times ``devices_us``."""
    return statistics.median(devices_us(streams, enqueue, hold) for _ in range(REPEATS))
