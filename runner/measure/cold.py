"""Cold samples: caches flushed before each, launch latency kept outside the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.backend.marks import Marks, release_all
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.measure.stopping import Stopper
from runner.result.model import Series


def measure_cold(
    streams: Sequence[Stream],
    step: Callable[[], None],
    settings: MeasureSettings,
    flush: Sequence[Flusher],
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
) -> Series:
    """Samples until ``stopper`` has a reason: each is flush, hold, event, step, event, release, wait; with several
    streams all flushes end before any is held.

    ``flush``: one for each stream, of its device.
    """
    marks = Marks(streams)
    samples: list[float] = []
    reason: str | None = None
    while reason is None:
        for stream, flusher in zip(streams, flush, strict=True):
            flusher.flush(stream)
        if len(streams) > 1:  # or each device would begin when its own flush ends
            for stream in streams:
                stream.synchronize()
        _queue(streams, step, marks, settings.hide_latency)
        samples.append(marks.elapsed_us())
        on_sample("cold", samples[-1])
        reason = stopper.stop(samples[-1])
    return Series(
        mode="cold",
        method=marks.method,
        samples_us=samples,
        stop_reason=reason,
        flush_bytes=flush[0].nbytes,
        wall_s=stopper.wall_s,
    )


def _queue(streams: Sequence[Stream], step: Callable[[], None], marks: Marks, hold: bool) -> None:
    """Queues one timed step, behind the flush that is still running on a single stream: nothing may wait for the
    device here."""
    try:
        for stream in streams if hold else ():
            stream.hold()
        marks.begin()
        step()
        marks.end()
    finally:
        if hold:  # also when the step was refused: a held stream would never end
            release_all(streams)
