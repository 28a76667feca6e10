"""Arithmetic of intervals in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from runner.result.model import TraceEvent

Floats = NDArray[np.float64]
Spans = list[tuple[float, float]]
"""Intervals in order, none touching another."""


def times(events: Sequence[TraceEvent]) -> tuple[Floats, Floats]:
    """Starts and ends."""
    return np.array([event.start_us for event in events]), np.array([event.end_us for event in events])


def merge(intervals: Iterable[tuple[float, float]]) -> Spans:
    """Their union."""
    merged: Spans = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def union(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Starts and ends of the union of intervals that are in order of their start."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    return start[opens], np.concatenate((reach[opens[1:] - 1], reach[-1:]))


def length(spans: Spans) -> float:
    return sum(end - start for start, end in spans)


def covered(opens: Floats, closes: Floats, spans: Spans) -> float:
    """Length of disjoint ordered intervals within ``spans``."""
    if not len(opens) or not spans:
        return 0.0
    before = np.concatenate(([0.0], np.cumsum(closes - opens)))

    def until(moments: Floats) -> Floats:
        index = np.searchsorted(opens, moments, side="right")
        over = np.maximum(closes[np.maximum(index - 1, 0)] - moments, 0.0)
        return before[index] - np.where(index > 0, over, 0.0)

    edges = np.array(spans)
    return float(np.sum(until(edges[:, 1]) - until(edges[:, 0])))


def within(moments: Floats, spans: Spans) -> NDArray[np.bool_]:
    """Which of the moments lie in one of the spans, their edges included."""
    index = np.searchsorted([start for start, _ in spans], moments, side="right") - 1
    ends = np.array([end for _, end in spans])
    return np.asarray((index >= 0) & (moments <= ends[index]))
