"""The time of a step on several devices is that of the one that takes longest."""

from __future__ import annotations

import time

from runner.backend.host import HostBackend
from runner.backend.host.stream import HostStream
from runner.backend.marks import Marks, release_all


class _Sleep:
    always = False
    work = True

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, stream: HostStream) -> None:
        time.sleep(self._seconds)


def test_the_slowest_device_counts() -> None:
    backend = HostBackend(devices=3)
    streams = [backend.open(ordinal).stream() for ordinal in range(3)]
    marks = Marks(streams)
    marks.begin()
    for stream, seconds in zip(streams, (0.0, 0.08, 0.02), strict=True):
        assert isinstance(stream, HostStream)
        stream.enqueue(_Sleep(seconds))
    marks.end()
    elapsed = marks.elapsed_us()
    assert elapsed >= 80_000
    singly = Marks(streams[:1])
    singly.begin()
    singly.end()
    assert singly.elapsed_us() < elapsed
    assert marks.method == "host_events"
    for ordinal in range(3):
        backend.open(ordinal).close()


def test_held_streams_are_all_let_go_before_one_is_released() -> None:
    backend = HostBackend(devices=2)
    streams = [backend.open(ordinal).stream() for ordinal in range(2)]
    ends = [stream.device.event() for stream in streams]
    for stream, end in zip(streams, ends, strict=True):
        stream.hold()
        stream.record(end)
    assert not any(end.done() for end in ends)
    for stream in streams:
        stream.let_go()
    for end in ends:
        end.synchronize()
    release_all(streams)
    for ordinal in range(2):
        backend.open(ordinal).close()
