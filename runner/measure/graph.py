"""Graph samples: many steps captured as one graph, each on inputs of its own, and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runner.backend.base import Graph, Stream
from runner.backend.marks import Marks
from runner.measure.batch import calibrated
from runner.measure.settings import MeasureSettings
from runner.measure.stopping import Stopper
from runner.result.model import Series

MAX_NODES = 4096
"""Most launches in one graph: instantiating it takes microseconds for each."""
_STRETCH = 8
"""A replay may take so many times what it aims for, if that many more copies of the inputs can be walked through."""


class Steps(Protocol):
    """Steps of one variant that a graph can hold. Step *n* works on copy *n* of the inputs; after the last copy comes
    the first again."""

    launches: int
    """Of one step."""
    wanted: int
    """Copies of the inputs that outgrow the caches."""

    def copy(self, copies: int) -> int:
        """Makes so many, as far as there is memory; gives how many there are, at least 1 (the inputs themselves)."""
        ...

    @property
    def warm(self) -> bool:
        """Whether a step may find what it reads still in the caches."""
        ...

    def graph(self, steps: int) -> Graph:
        """So many of them, captured; the caller frees it."""
        ...


def measure_graph(
    stream: Stream,
    source: Steps,
    settings: MeasureSettings,
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
) -> Series:
    """Replays until ``stopper`` has a reason; a sample is a replay's time divided by its steps.

    Nothing is held meanwhile: a long graph fills the queue of a held stream, and launching it would wait forever. The
    latency of one launch is within the sample, shared by all steps.
    """
    marks = Marks([stream])

    def replay(graph: Graph) -> float:
        marks.begin()
        graph.launch(stream)
        marks.end()
        return marks.elapsed_us()

    def trial(steps: int) -> float:
        graph = _ready(stream, source, steps)
        elapsed_us = replay(graph)
        graph.free()
        return elapsed_us

    most = max(1, MAX_NODES // max(1, source.launches))
    fill = calibrated(trial, settings.graph_batch_time_s * 1e6, most, settings.max_time_s, stopper)
    copies = source.copy(min(source.wanted, most, _STRETCH * fill))
    steps = copies * max(1, min(round(fill / copies), most // copies))  # every copy as often as any other
    graph = _ready(stream, source, steps)
    samples: list[float] = []
    reason: str | None = None
    while reason is None:
        samples.append(replay(graph) / steps)
        on_sample("graph", samples[-1])
        reason = stopper.stop(samples[-1], steps)
    graph.free()
    return Series(
        mode="graph",
        method=marks.method,
        samples_us=samples,
        batch=steps,
        stop_reason=reason,
        wall_s=stopper.wall_s,
        rotated=copies,
        warm=source.warm,
    )


def _ready(stream: Stream, source: Steps, steps: int) -> Graph:
    """A graph that has run once: the first launch brings it to the device."""
    graph = source.graph(steps)
    graph.launch(stream)
    stream.synchronize()
    return graph
