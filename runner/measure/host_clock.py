"""Samples by the host's clock, for a step that waits for the device itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.measure.stopping import Stopper
from runner.result.model import Series


def measure_host(
    streams: Sequence[Stream],
    step: Callable[[], None],
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
    timer_ns: Callable[[], int] = time.perf_counter_ns,
) -> Series:
    """Samples until ``stopper`` has a reason: clock, step, wait for the streams, clock."""
    samples: list[float] = []
    reason: str | None = None
    while reason is None:
        begin = timer_ns()
        step()
        for stream in streams:
            stream.synchronize()
        samples.append((timer_ns() - begin) * 1e-3)
        on_sample("host", samples[-1])
        reason = stopper.stop(samples[-1])
    return Series(mode="host", method="host_clock", samples_us=samples, stop_reason=reason, wall_s=stopper.wall_s)
