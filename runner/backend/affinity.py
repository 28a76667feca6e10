"""The CPU cores next to a GPU, and keeping the thread that feeds it on them.

A launch, and the word that lets a held stream go, cross the link between two sockets where the thread runs on the other
one.
"""

from __future__ import annotations

import os

from runner.backend import topology


def near(ordinal: int) -> frozenset[int]:
    """Cores of the GPU's own memory node that this process may use; empty where that is not known, or none of them."""
    place = next((place for place in topology.places() if place.index == ordinal), None)
    return frozenset(numbers(place.cpus)) & allowed() if place else frozenset()


def allowed() -> frozenset[int]:
    """Cores this thread may run on; empty where the system does not tell."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def numbers(ranges: str) -> list[int]:
    """``0-2,8`` as 0, 1, 2, 8."""
    found: list[int] = []
    for part in filter(None, ranges.split(",")):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


class Bound:
    """This thread, on the cores near a GPU until ``close``; where they are not known it stays where it is."""

    def __init__(self, ordinal: int, on_gpu: bool) -> None:
        self.cores = near(ordinal) if on_gpu else frozenset()
        self._before = allowed()
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    def close(self) -> None:
        """Back to the cores of before. A second call does nothing."""
        if self.cores:
            os.sched_setaffinity(0, self._before)
        self.cores = frozenset()
