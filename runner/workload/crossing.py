"""Streams of one or several devices that wait for each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from runner.backend.base import Event, Stream


class Crossing:
    """Events by which streams wait for each other, made once and recorded anew each time."""

    def __init__(self) -> None:
        self._events: dict[tuple[int, str], Event] = {}

    def recorded(self, stream: Stream, use: str) -> Event:
        """A mark where ``stream`` is now; ``use`` names it."""
        key = (id(stream), use)
        if key not in self._events:
            self._events[key] = stream.device.event()
        stream.record(self._events[key])
        return self._events[key]

    def after(self, stream: Stream, other: Stream) -> None:
        """``stream`` goes on when ``other`` has come to where it is now."""
        stream.wait(self.recorded(other, "after"))

    def begin(self, stream: Stream, others: Sequence[Stream]) -> None:
        """What follows on ``others`` starts no earlier than ``stream`` is here."""
        if others:
            begun = self.recorded(stream, "begin")
            for other in others:
                other.wait(begun)

    def end(self, stream: Stream, others: Sequence[Stream]) -> None:
        """``stream`` goes on when the others have come here too."""
        for other in others:
            stream.wait(self.recorded(other, "end"))

    @contextlib.contextmanager
    def fork(self, stream: Stream, others: Sequence[Stream]) -> Iterator[None]:
        """What is put on the streams inside starts and ends together, as ``stream`` sees it."""
        self.begin(stream, others)
        yield
        self.end(stream, others)

    def everybody(self, streams: Sequence[Stream], use: str) -> None:
        """Each of the streams goes on when all of them have come here."""
        marks = [self.recorded(stream, use) for stream in streams]
        for stream in streams:
            for other, mark in zip(streams, marks, strict=True):
                if other is not stream:
                    stream.wait(mark)
