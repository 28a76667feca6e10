"""Samples by the host's clock: what a caller sees who waits for every step."""

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
    enqueues: bool = False,
) -> Series:
    """Samples until ``stopper`` has a reason: clock, step, wait for the streams, clock.

    ``enqueues``: a step only queues its work, so that the time until it returns is what launching it costs the host.
    """
    samples: list[float] = []
    launches: list[float] = []
    reason: str | None = None
    while reason is None:
        begin = timer_ns()
        step()
        launched = timer_ns()
        for stream in streams:
            stream.synchronize()
        samples.append((timer_ns() - begin) * 1e-3)
        if enqueues:
            launches.append((launched - begin) * 1e-3)
        on_sample("host", samples[-1])
        reason = stopper.stop(samples[-1])
    return Series(
        mode="host",
        method="host_clock",
        samples_us=samples,
        stop_reason=reason,
        wall_s=stopper.wall_s,
        launch_us=launches,
    )
