"""The decode loop of ``kernel=cuda_graph_decode``: the declared launches one by one, or captured once and replayed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer
from runner.plan import dtypes
from runner.workload.base import Context
from runner.workload.capture import Captured, captured
from runner.workload.declared import BoundLaunch, bind

EAGER = "eager"
GRAPH = "graph"
REPEATS = 5
"""Loops timed of either kind for the break-even point, which compares two medians."""
HELD_LAUNCHES = 400
"""Launches queued at most behind a held stream, which takes 512 commands."""


class GraphLoop:
    """One step of the experiment is a whole loop of ``steps`` decode steps, timed by the host's clock.

    A loop ends at position 0, where the next one starts from the initial state again.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self.units_per_step = int(context.plan.symbols["steps"])
        """Decode steps in a loop."""
        self._launches: tuple[BoundLaunch, ...] = ()
        self._captured: Captured | None = None

    def prepare(self) -> None:
        """Nothing: the launches are bound, and the graph is captured, when a variant needs them."""

    def reset(self, variant: str) -> None:
        """Position 0; before the first replay a decode step is run (kernels load) and captured.

        Raises ``BackendError`` where the device cannot capture.
        """
        if not self._launches:
            self._launches = bind(self._context, self._context.plan.variant(variant).launches)
        if variant == GRAPH and self._captured is None:
            self._decode_step()
            self._stream.synchronize()
            self._captured = captured(self._stream, self._decode_step)
        self._stream.fill(self._context.buffers["position"], 0)
        self._stream.synchronize()

    def _decode_step(self) -> None:
        for launch in self._launches:
            launch.enqueue()

    def _replay(self) -> None:
        assert self._captured is not None
        self._captured.graph.launch(self._stream)

    def _one(self, variant: str) -> Callable[[], None]:
        return self._replay if variant == GRAPH else self._decode_step

    def step(self, variant: str) -> None:
        """All decode steps; returns when the device has done them."""
        one = self._one(variant)
        for _ in range(self.units_per_step):
            one()
        self._stream.synchronize()

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {name: self._context.buffers[name] for name in ("state", "maximum", "token")}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """``device_us_per_step``: a decode step of the device alone, none of its launches late.

        Of the graph besides: ``capture_us`` (recording the launches), ``instantiate_us`` (ending the capture, which
        makes the graph executable), ``replay_mismatches`` (elements of the outputs in which a replayed loop differs
        from an eager one) and ``break_even_steps`` (decode steps after which replaying has earned both times back;
        absent where a replay is not faster).
        """
        found = {"device_us_per_step": statistics.median(self._device_us(variant) for _ in range(REPEATS))}
        if variant != GRAPH or self._captured is None:
            return found
        eager, eager_left = self._timed(EAGER)
        graph, graph_left = self._timed(GRAPH)
        found |= self._captured.times
        found["replay_mismatches"] = float(
            sum(int(np.count_nonzero(eager_left[name] != graph_left[name])) for name in eager_left)
        )
        saved_us = (eager - graph) / self.units_per_step
        if saved_us > 0:
            found["break_even_steps"] = sum(self._captured.times.values()) / saved_us
        return found

    def _device_us(self, variant: str) -> float:
        """Device time of a decode step in microseconds, from steps that were all queued before the first began."""
        one, device = self._one(variant), self._context.devices[0]
        launches = 1 if variant == GRAPH else len(self._launches)
        steps = max(1, min(self.units_per_step, HELD_LAUNCHES // launches))
        begin, end = device.event(), device.event()
        self._stream.hold()
        try:
            self._stream.record(begin)
            for _ in range(steps):
                one()
            self._stream.record(end)
        finally:
            self._stream.release()
        self._stream.synchronize()
        elapsed_us = end.elapsed_us(begin)
        self.reset(variant)
        return elapsed_us / steps

    def _timed(self, variant: str) -> tuple[float, dict[str, npt.NDArray[Any]]]:
        """Median time of a loop in microseconds, and what it leaves in the outputs."""
        self.reset(variant)
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            self.step(variant)
            times.append((time.perf_counter() - begin) * 1e6)
        return statistics.median(times), {name: self._read(name) for name in self.outputs(variant)}

    def _read(self, name: str) -> npt.NDArray[Any]:
        """A buffer's bits, so that equal means equal for every value."""
        planned = self._context.plan.buffer(name)
        target: npt.NDArray[Any] = np.empty(planned.dims, dtypes.numpy_dtype(planned.dtype))
        self._stream.read(target, self._context.buffers[name])
        self._stream.synchronize()
        return target.view(np.uint32)

    def close(self) -> None:
        if self._captured is not None:
            self._captured.graph.free()
            self._captured = None
