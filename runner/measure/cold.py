"""Cold samples: caches flushed before each, launch latency kept outside the events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.backend.marks import Marks, held
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.measure.sm_clock import SmClock, slowest
from runner.measure.stopping import Stopper
from runner.measure.throttle import Throttle
from runner.result.model import Series

WITH_LAUNCH = "_with_launch"
"""Ends the method of a series whose samples hold the latency of their launches: it compares with no other one."""


def measure_cold(
    streams: Sequence[Stream],
    step: Callable[[], None],
    settings: MeasureSettings,
    flush: Sequence[Flusher],
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
    clocks: Sequence[SmClock] = (),
    pause: Callable[[float], None] = time.sleep,
) -> Series:
    """Samples until ``stopper`` has a reason: each is flush, hold, event, step, event, release, wait; with several
    streams all flushes end before any is held.

    ``flush``: one for each stream, of its device, and so ``clocks``, where the devices have one: the stamps lie before
    the flush and behind the last event. A sample whose clock was held down is dropped after a ``pause``, within the
    limits of ``Throttle`` and of the series' time; there is always at least one sample.
    """
    marks = Marks(streams)
    throttle = Throttle(settings.throttle_share, settings.lock_clocks)
    samples: list[float] = []
    clock_mhz: list[float] = []
    reason: str | None = None
    while reason is None:
        for stream, clock in zip(streams, clocks, strict=False):  # none of them, or all
            clock.begin(stream)
        for stream, flusher in zip(streams, flush, strict=True):
            flusher.flush(stream)
        if len(streams) > 1:  # or each device would begin when its own flush ends
            for stream in streams:
                stream.synchronize()
        _queue(streams, step, marks, settings.hide_latency)
        for stream, clock in zip(streams, clocks, strict=False):
            clock.end(stream)
        sample_us, mhz = marks.elapsed_us(), slowest(clocks)
        unwanted = throttle.slow(mhz) and throttle.may_drop
        late = unwanted and stopper.out_of_time  # asked once: where it ends the series there must be a sample
        if unwanted and (samples or not late):
            throttle.drop()
            if late:
                reason = stopper.TIME
            else:
                pause(settings.throttle_pause_s)
            continue
        throttle.keep(mhz)
        samples.append(sample_us)
        if clocks:
            clock_mhz.append(mhz)
        on_sample("cold", sample_us)
        reason = stopper.stop(sample_us)
    return Series(
        mode="cold",
        method=marks.method if settings.hide_latency else f"{marks.method}{WITH_LAUNCH}",
        samples_us=samples,
        stop_reason=reason,
        flush_bytes=flush[0].nbytes,
        wall_s=stopper.wall_s,
        clock_mhz=clock_mhz,
        dropped=throttle.dropped,
        throttled=throttle.kept_slow,
    )


def _queue(streams: Sequence[Stream], step: Callable[[], None], marks: Marks, hold: bool) -> None:
    """Queues one timed step, behind the flush that is still running on a single stream: nothing may wait for the
    device here."""
    with held(streams if hold else ()):
        marks.begin()
        step()
        marks.end()
