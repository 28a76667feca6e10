"""Streams of one or several devices that start together and end together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from runner.backend.base import Event, Stream


class Crossing:
    """Events, made once, by which streams wait for each other."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._events: dict[tuple[int, str], Event] = {}
        for stream in streams:
            self._event(stream, "fork")

    def _event(self, stream: Stream, use: str) -> Event:
        key = (id(stream), use)
        if key not in self._events:
            self._events[key] = stream.device.event()
        return self._events[key]

    @contextlib.contextmanager
    def fork(self, stream: Stream, others: Sequence[Stream]) -> Iterator[None]:
        """What is put on ``others`` inside starts no earlier than ``stream`` is there, which goes on when they have
        ended."""
        fork = self._event(stream, "fork")
        if others:
            stream.record(fork)
        for other in others:
            other.wait(fork)
        yield
        for other in others:
            join = self._event(other, "join")
            other.record(join)
            stream.wait(join)

    def everybody(self, streams: Sequence[Stream], use: str) -> None:
        """Each of the streams goes on when all of them have come here. ``use`` names the events, recorded anew each
        time."""
        for stream in streams:
            stream.record(self._event(stream, use))
        for stream in streams:
            for other in streams:
                if other is not stream:
                    stream.wait(self._event(other, use))
