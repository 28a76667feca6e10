"""A served trace over time: how many requests had a slot or waited for one, and how long tokens were held up."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from runner.serving.served import Served


class Point(NamedTuple):
    """From ``at_s`` on, until the next point."""

    at_s: float
    active: int
    waiting: int


def over_time(served: Served) -> list[Point]:
    """A point where either changes, in order; the last one is at the end, with nothing active.

    ``waiting`` is what the scheduler saw: an arrival within a pass counts from the next one.
    """
    points: list[Point] = []
    following_s = [*(step.start_s for step in served.steps), math.inf][1:]
    for step, next_s in zip(served.steps, following_s, strict=True):
        _add(points, Point(step.start_s, step.active, step.waiting))
        if not step.left and next_s > step.end_s:
            _add(points, Point(step.end_s, 0, 0))
    return points


def longest_gaps(served: Served) -> list[tuple[float, float]]:
    """(end of a pass, the longest of the gaps between two tokens that it ended), both in seconds, in order of time."""
    longest: dict[float, float] = {}
    for one in served.requests:
        for at_s, gap_s in zip(one.token_s[1:].tolist(), np.diff(one.token_s).tolist(), strict=True):
            longest[at_s] = max(longest.get(at_s, 0.0), gap_s)
    return sorted(longest.items())


def _add(points: list[Point], point: Point) -> None:
    if not points or points[-1][1:] != point[1:]:
        points.append(point)
