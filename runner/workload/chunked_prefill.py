"""A long prefill and the decode steps of other requests, scheduled in the three ways of ``kernel=chunked_prefill``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.backend.base import Buffer, Event, Stream
from runner.workload.base import Context
from runner.workload.pieces import BLOCK, grid, pieces
from runner.workload.timing import REPEATS, device_us

SCALE, OFFSET = np.float32(-1.0), np.float32(0.5)
"""What the prefill computes with: no result is ever rounded."""
HIGH = 1 << 10
"""A priority no device has: it takes its highest."""


@dataclass(frozen=True)
class Marks:
    """Events of one step: after every decode step, and after the last of the prefill."""

    begin: Event
    decoded: Sequence[Event]
    prefilled: Event


class ChunkedPrefill:
    """One step is a whole prefill and ``decode_steps`` decode steps that could all start at once.

    ``monolithic`` runs the prefill as one kernel, then the decode steps. ``chunked`` runs a share of the decode
    steps after every chunk, on the same stream. ``priority`` enqueues the same in the same order, but the decode
    steps on a stream of high priority that does not wait for the chunks.
    """

    host_timed = False
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._buffers = context.buffers
        self._device = context.devices[0]
        self._stream = context.streams[0]
        self._priority_stream = self._device.stream(HIGH)
        symbols = context.plan.symbols
        self._elements = int(symbols["elements"])
        self._chunks = int(symbols["chunks"])
        self._state_elements = int(symbols["decodeN"])
        self._decode_steps = int(symbols["decode_steps"])
        self._prefill_compute = np.int64(symbols["prefill_compute"])
        self._decode_compute = np.int64(symbols["decode_compute"])
        self._prefill_kernel = context.function("prefill_work_kernel")
        self._decode_kernel = context.function("decode_step_kernel")
        self._fork, self._join = self._device.event(), self._device.event()

    def prepare(self) -> None:
        """Nothing: the buffers are filled and the kernels are loaded."""

    def reset(self, variant: str) -> None:
        """Nothing: the first decode step reads the initial state, not what an earlier step left."""

    def step(self, variant: str) -> None:
        self._enqueue(variant)

    def _enqueue(self, variant: str, marks: Marks | None = None) -> None:
        """The whole schedule; with ``marks`` their events are recorded in it."""
        decoding = self._priority_stream if variant == "priority" else self._stream
        if marks is not None:
            self._stream.record(marks.begin)
        if decoding is not self._stream:
            self._stream.record(self._fork)
            decoding.wait(self._fork)
        parts = pieces(self._elements, 1 if variant == "monolithic" else self._chunks)
        done = 0
        for index, (first, count) in enumerate(parts):
            self._prefill(first, count)
            if marks is not None and index == len(parts) - 1:
                self._stream.record(marks.prefilled)
            due = (index + 1) * self._decode_steps // len(parts)
            for step in range(done, due):
                self._decode(decoding, step)
                if marks is not None:
                    decoding.record(marks.decoded[step])
            done = due
        if decoding is not self._stream:
            decoding.record(self._join)
            self._stream.wait(self._join)

    def _prefill(self, first: int, count: int) -> None:
        arguments = (
            self._buffers["prompt"],
            self._buffers["prefilled"],
            np.int64(first),
            np.int64(count),
            self._prefill_compute,
            SCALE,
            OFFSET,
        )
        self._stream.launch(self._prefill_kernel, grid(count), (BLOCK, 1, 1), 0, arguments)

    def _decode(self, stream: Stream, step: int) -> None:
        source = self._buffers["initial"] if step == 0 else self._buffers["state"]
        elements = self._state_elements
        arguments = (source, self._buffers["state"], np.int64(elements), np.int64(step), self._decode_compute)
        stream.launch(self._decode_kernel, grid(elements), (BLOCK, 1, 1), 0, arguments)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {name: self._buffers[name] for name in ("prefilled", "state")}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """What waits for what, from ``REPEATS`` schedules with events between their parts.

        A decode step's latency runs from the one before it, the first one's from the schedule's start:
        ``first_decode_us`` (a stand-in for the time to first token), ``decode_us_p50``, ``_p95``, ``_p99``.
        ``prefill_us`` ends with the last chunk. ``priority`` is what the device made of the high priority (0: it
        knows only one).
        """
        event = self._device.event
        marks = Marks(event(), [event() for _ in range(self._decode_steps)], event())
        latencies: list[list[float]] = []
        prefills: list[float] = []
        for _ in range(REPEATS):
            device_us(self._stream, lambda: self._enqueue(variant, marks))
            ends = [mark.elapsed_us(marks.begin) for mark in marks.decoded]
            latencies.append(np.diff(ends, prepend=0.0).tolist())
            prefills.append(marks.prefilled.elapsed_us(marks.begin))
        every = np.array(latencies)
        prefill_us = float(np.median(prefills))
        found = {"first_decode_us": float(np.median(every[:, 0])), "prefill_us": prefill_us}
        found |= {f"decode_us_p{share}": float(np.percentile(every, share)) for share in (50, 95, 99)}
        if prefill_us > 0:
            found["prefill_gbps"] = 8 * self._elements / prefill_us * 1e-3
        if variant == "priority":
            found["priority"] = float(self._priority_stream.priority)
        return found

    def close(self) -> None:
        self._priority_stream.close()
