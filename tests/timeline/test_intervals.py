"""Arithmetic of intervals against counting the moments in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runner.timeline.intervals import covered, length, merge, union, within

INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 15)).map(lambda pair: (pair[0], sum(pair))), max_size=8
)


def moments(intervals: list[tuple[float, float]]) -> set[float]:
    return {m + 0.5 for start, end in intervals for m in range(int(start), int(end))}


@given(INTERVALS, INTERVALS)
def test_unions_and_what_they_cover(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    spans = merge(second)
    assert length(spans) == len(moments(second))
    ordered = sorted(first)
    opens, closes = union(np.array([a for a, _ in ordered], float), np.array([b for _, b in ordered], float))
    assert float(np.sum(closes - opens)) == len(moments(first))
    assert covered(opens, closes, spans) == len(moments(first) & moments(second))
    if spans:
        halves = np.arange(0.5, 80.5, dtype=np.float64)
        assert set(halves[within(halves, spans)].tolist()) == moments(second)
