"""Recording what a workload enqueues as a graph, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runner.backend.base import Graph, Stream


@dataclass(frozen=True)
class Captured:
    """A graph that is ready to replay; its owner frees it."""

    graph: Graph
    capture_us: float
    """Recording the launches, by the host's clock."""
    instantiate_us: float
    """Ending the capture, which makes the graph executable."""

    @property
    def times(self) -> dict[str, float]:
        """Both, as metrics."""
        return {"capture_us": self.capture_us, "instantiate_us": self.instantiate_us}


def captured(stream: Stream, enqueue: Callable[[], None]) -> Captured:
    """The graph of what ``enqueue`` puts on ``stream``. Whatever happens, the stream does not stay in capture.

    Raises ``BackendError`` where the device cannot capture.
    """
    complete = False
    begin = time.perf_counter()
    stream.begin_capture()
    try:
        enqueue()
        complete = True
    finally:
        recorded = time.perf_counter()
        graph = stream.end_capture()
        if not complete:
            graph.free()
    return Captured(graph, (recorded - begin) * 1e6, (time.perf_counter() - recorded) * 1e6)
