"""Recording what a workload enqueues as a graph, and what that costs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
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
    return captured_each([stream], enqueue)[0]


def captured_each(streams: Sequence[Stream], enqueue: Callable[[], None]) -> list[Captured]:
    """For each stream the graph of what ``enqueue`` puts on it, all captured at the same time. Streams of several
    devices are launched together later, each graph on its own: the devices then wait for each other by what the graphs
    contain. Both times are those of all of them.

    Raises as ``captured``.
    """
    graphs: dict[int, Graph] = {}

    def end(place: int) -> None:
        graphs[place] = streams[place].end_capture()

    begin = time.perf_counter()
    try:
        with contextlib.ExitStack() as ends:  # all of them end, whatever one of them raises
            for place, stream in enumerate(streams):
                stream.begin_capture()
                ends.callback(end, place)
            enqueue()
            recorded = time.perf_counter()
    except BaseException:
        for graph in graphs.values():
            graph.free()
        raise
    instantiated_us = (time.perf_counter() - recorded) * 1e6
    return [Captured(graph, (recorded - begin) * 1e6, instantiated_us) for _, graph in sorted(graphs.items())]


class DeviceGraphs:
    """Steps on several devices by name, one graph for each device."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._made: dict[str, list[Captured]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def capture(self, name: str, enqueue: Callable[[], None]) -> None:
        """Runs it once before: a first launch may load code, and a library connects then."""
        enqueue()
        for stream in self._streams:
            stream.synchronize()
        self._made[name] = captured_each(self._streams, enqueue)

    def launch(self, name: str) -> None:
        for made, stream in zip(self._made[name], self._streams, strict=True):
            made.graph.launch(stream)

    def times(self, name: str) -> dict[str, float]:
        """What capturing it took, as metrics; nothing where it was not."""
        return self._made[name][0].times if name in self._made else {}

    def close(self) -> None:
        for made in self._made.values():
            for one in made:
                one.graph.free()
        self._made.clear()
