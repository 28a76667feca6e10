"""Cold samples: caches flushed before each, launch latency kept outside the events."""

from __future__ import annotations

from collections.abc import Callable

from runner.backend.base import Event, Stream
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.measure.stopping import Stopper
from runner.result.model import Series


def measure_cold(
    stream: Stream,
    step: Callable[[], None],
    settings: MeasureSettings,
    flush: Flusher,
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
) -> Series:
    """Samples until ``stopper`` has a reason: each is flush, hold, event, step, event, release, wait."""
    start, stop = stream.device.event(), stream.device.event()
    samples: list[float] = []
    reason: str | None = None
    while reason is None:
        flush.flush(stream)
        _queue(stream, step, start, stop, settings.hide_latency)
        stream.synchronize()
        samples.append(stop.elapsed_us(start))
        on_sample("cold", samples[-1])
        reason = stopper.stop(samples[-1])
    return Series(
        mode="cold",
        method=f"{stream.device.info.backend}_events",
        samples_us=samples,
        stop_reason=reason,
        flush_bytes=flush.nbytes,
        wall_s=stopper.wall_s,
    )


def _queue(stream: Stream, step: Callable[[], None], start: Event, stop: Event, hold: bool) -> None:
    """Queues one timed step behind the flush that is still running: nothing may wait for the device here."""
    if hold:
        stream.hold()
    try:
        stream.record(start)
        step()
        stream.record(stop)
    finally:
        if hold:  # also when the step was refused: a held stream would never end
            stream.release()
