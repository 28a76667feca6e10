"""A step's time by its own kernels."""

from __future__ import annotations

from runner.result.model import TraceEvent
from runner.timeline.spans import span_us


def work(start: float, end: float, device: int = 0, kind: str = "launch") -> TraceEvent:
    return TraceEvent(kind, "k", device, 7, start, end)


def test_from_the_first_start_to_the_last_end_on_any_stream() -> None:
    events = [work(30, 50), work(10, 20), work(12, 15, kind="copy"), work(0, 90, kind="range"), work(0, 95, kind="api")]
    assert span_us(events) == 40


def test_a_long_first_kernel_may_end_last() -> None:
    assert span_us([work(10, 60), work(20, 30)]) == 50


def test_the_device_that_takes_longest_counts() -> None:
    assert span_us([work(0, 10), work(500, 530, device=1)]) == 30


def test_nothing_was_done() -> None:
    assert span_us([work(0, 10, kind="range")]) is None
