"""Single cold steps under a recorder: a second opinion on what events measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.backend.marks import held
from runner.measure.flush import Flusher
from runner.result.model import TraceEvent
from runner.worker.recording import Recorder

RANGE = "step"


def flushed_steps(
    streams: Sequence[Stream],
    flush: Sequence[Flusher],
    step: Callable[[], None],
    recorder: Recorder,
    count: int,
) -> list[list[TraceEvent]]:
    """What happened in each of ``count`` steps, calls of the host left out. As in a cold sample the caches are flushed
    before, and the step is queued behind a held stream; nothing of the flush is among the events.

    ``flush``: one for each stream, of its device.
    """
    found: list[list[TraceEvent]] = []
    for _ in range(count):
        for stream, flusher in zip(streams, flush, strict=True):
            flusher.flush(stream)
        _wait(streams)
        with recorder.range(RANGE) as events:
            with held(streams):
                step()
            _wait(streams)
        found.append([event for event in events if event.kind != "api"])
    return found


def _wait(streams: Sequence[Stream]) -> None:
    for stream in streams:
        stream.synchronize()
