"""Decode steps of independent sequences on one stream, on one each, and with priorities: ``kernel=streams``."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from runner.backend.base import Buffer, Event, Stream
from runner.workload.base import Context
from runner.workload.pieces import BLOCK, grid
from runner.workload.timing import REPEATS, device_us, median_us

VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
DEFAULT_CONNECTIONS, MAX_CONNECTIONS = 8, 32
"""Hardware queues that streams share where ``VARIABLE`` is not set, and the most there can be."""
HIGH = 1 << 10
"""A priority no device has: it takes its highest."""


class Sequences:
    """One step runs ``steps`` decode steps of each of ``S`` sequences, enqueued in turns.

    ``serial`` puts all on the measured stream, ``one_stream_each`` every sequence on a stream of its own, and
    ``priorities`` as well, the latter half of them (the larger, when ``S`` is odd) with the highest priority.
    """

    host_timed = False

    def __init__(self, context: Context) -> None:
        self._buffers = context.buffers
        self._device = context.devices[0]
        self._stream = context.streams[0]
        symbols = context.plan.symbols
        self._sequences = int(symbols["S"])
        self._elements = int(symbols["N"])
        self.units_per_step = int(symbols["steps"])
        """Tokens of one sequence."""
        self._compute = np.int64(symbols["compute"])
        self._kernel = context.function("decode_step_kernel")
        self._made: dict[str, list[Stream]] = {"serial": []}
        """Variant → the streams beside the measured one."""
        self._fork = self._device.event()
        self._ends = [self._device.event() for _ in range(self._sequences)]

    @property
    def low(self) -> int:
        """Sequences of low priority in ``priorities``: the first ones."""
        return self._sequences // 2

    def prepare(self) -> None:
        """Nothing: the buffers are filled and the kernel is loaded."""

    def reset(self, variant: str) -> None:
        """Makes the variant's streams once; the first decode step of a sequence reads its initial state."""
        if variant not in self._made:
            high = HIGH if variant == "priorities" else 0
            self._made[variant] = [self._device.stream(0 if s < self.low else high) for s in range(self._sequences)]

    def step(self, variant: str) -> None:
        self._enqueue(variant)

    def _enqueue(self, variant: str, ends: Sequence[Event] = ()) -> None:
        """All decode steps. The other streams start with the measured one and it ends with them.

        ``ends``: events recorded after each sequence's last decode step, given where they are to be read.
        """
        streams = self._made[variant] or [self._stream] * self._sequences
        if self._made[variant]:
            self._stream.record(self._fork)
            for stream in streams:
                stream.wait(self._fork)
        for step in range(self.units_per_step):
            for sequence, stream in enumerate(streams):
                self._decode(stream, sequence, step)
                if ends and step == self.units_per_step - 1:
                    stream.record(ends[sequence])
        if self._made[variant]:
            for stream, event in zip(streams, self._ends, strict=True):
                stream.record(event)
                self._stream.wait(event)

    def _decode(self, stream: Stream, sequence: int, step: int) -> None:
        arguments = (
            self._buffers["initial"] if step == 0 else self._buffers["state"],
            self._buffers["state"],
            np.int64(sequence * self._elements),
            np.int64(self._elements),
            np.int64(step),
            self._compute,
        )
        stream.launch(self._kernel, grid(self._elements), (BLOCK, 1, 1), 0, arguments)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {"state": self._buffers["state"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """What the streams gain, and when sequences end.

        ``concurrency``: device time of the serial schedule over the variant's own, the number of sequences that
        in effect ran at once. ``max_connections`` is the driver's ``CUDA_DEVICE_MAX_CONNECTIONS``. For
        ``priorities``, ``high_done_us`` and ``low_done_us`` are median times from the start to the end of a
        sequence, and ``priority`` is what the device made of the high one (0: it knows only one).
        """
        serial = median_us(self._stream, lambda: self._enqueue("serial"))
        own = serial if variant == "serial" else median_us(self._stream, lambda: self._enqueue(variant))
        found = {"serial_us": serial}
        if own > 0:
            found["concurrency"] = serial / own
        connections = max_connections(os.environ.get(VARIABLE, ""))
        if self._device.info.backend == "cuda" and connections is not None:
            found["max_connections"] = float(connections)
        return {**found, **self._done(variant)} if variant == "priorities" else found

    def _done(self, variant: str) -> dict[str, float]:
        begin = self._device.event()
        ends = [self._device.event() for _ in range(self._sequences)]
        done: list[list[float]] = []
        for _ in range(REPEATS):
            device_us(self._stream, lambda: self._marked(variant, begin, ends))
            done.append([end.elapsed_us(begin) for end in ends])
        found = {"priority": float(self._made[variant][-1].priority)}
        found["high_done_us"] = statistics.median(time for run in done for time in run[self.low :])
        if self.low:
            found["low_done_us"] = statistics.median(time for run in done for time in run[: self.low])
        return found

    def _marked(self, variant: str, begin: Event, ends: Sequence[Event]) -> None:
        self._stream.record(begin)
        self._enqueue(variant, ends)

    def close(self) -> None:
        for streams in self._made.values():
            for stream in streams:
                stream.close()
        self._made.clear()


def max_connections(text: str) -> int | None:
    """Hardware queues for ``VARIABLE`` = ``text``; the default where it is not set, None where it is not valid."""
    if not text:
        return DEFAULT_CONNECTIONS
    if not text.isdigit() or not 1 <= int(text) <= MAX_CONNECTIONS:
        return None
    return int(text)
