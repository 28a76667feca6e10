"""A beginning and an end on every device, and the time between them.

Events of two devices cannot be compared: each device times itself, and what a step takes is what the device that takes
longest says. Devices that wait for each other within the step begin at slightly different times (the host lets one go
after another); a device that begins early then counts its waiting, at most that difference once for a sample. A step
that is short beside it repeats its work (``calls`` of the families of several devices), and so does a hot batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from runner.backend.base import Stream


def release_all(streams: Sequence[Stream]) -> None:
    """Releases held streams; those of several devices first begin as close to each other as the host can write."""
    if len(streams) > 1:
        for stream in streams:
            stream.let_go()
    for stream in streams:
        stream.release()


@contextmanager
def held(streams: Sequence[Stream]) -> Iterator[None]:
    """What is queued on the streams meanwhile begins at the end, all of it at once. They are let go also when something
    was refused: a held stream would never end."""
    try:
        for stream in streams:
            stream.hold()
        yield
    finally:
        release_all(streams)


class Marks:
    """Two events on each of several streams, one stream of a device."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = tuple(streams)
        self._starts = [stream.device.event() for stream in streams]
        self._stops = [stream.device.event() for stream in streams]

    @property
    def method(self) -> str:
        """What the times are taken with, as a series says it."""
        return f"{self._streams[0].device.info.backend}_events"

    def begin(self) -> None:
        for stream, event in zip(self._streams, self._starts, strict=True):
            stream.record(event)

    def end(self) -> None:
        for stream, event in zip(self._streams, self._stops, strict=True):
            stream.record(event)

    def elapsed_us(self) -> float:
        """Waits for all of them; microseconds of the device that took longest."""
        for stream in self._streams:
            stream.synchronize()
        return max(stop.elapsed_us(start) for start, stop in zip(self._starts, self._stops, strict=True))
