"""The way of ``kernel=host_transfer`` from host memory to the device and back, with three kinds of staging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer, Stream
from runner.workload.base import Context
from runner.workload.pieces import BLOCK, grid, pieces
from runner.workload.timing import median_us

PIPELINE = "pinned_overlap_pipeline"
PAGEABLE = "pageable_roundtrip"
SCALE, OFFSET = np.float32(-1.0), np.float32(0.5)
"""What the kernel computes with: no result is ever rounded."""
STAGES = ("h2d", "compute", "d2h")
POISON = 0xFF

Floats = npt.NDArray[np.float32]


class HostTransfer:
    """One step copies ``elements`` floats in, computes on them and copies the result out, and waits for it.

    The pipeline does so in chunks, each on the next of several streams. In a checked step the floats that the
    host received go back to the buffer ``received``, which the checks read: the way out is verified too.
    """

    host_timed = True
    units_per_step = 1

    def __init__(self, context: Context) -> None:
        self._buffers = context.buffers
        self._device = context.devices[0]
        symbols = context.plan.symbols
        self._elements = int(symbols["elements"])
        self._chunks = int(symbols["chunks"])
        self._compute = np.int64(symbols["compute"])
        self._kernel = context.function("transfer_compute_kernel")
        others = [self._device.stream() for _ in range(int(symbols["streams"]) - 1)]
        self._streams: list[Stream] = [context.streams[0], *others]
        self._fork = self._device.event()
        self._joins = [self._device.event() for _ in others]
        self._memory: dict[bool, tuple[Floats, Floats]] = {}
        """Page-locked or not → what is sent and what is received, shape (elements,) each."""
        self._checked = False

    def prepare(self) -> None:
        """Nothing: host memory is made for the variants that are run."""

    def reset(self, variant: str) -> None:
        """Fetches what the host will send, once for each kind of memory; nothing evolves from step to step."""
        pageable = variant == PAGEABLE
        if pageable in self._memory:
            return
        make: Callable[[], npt.NDArray[Any]] = (
            (lambda: np.empty(self._elements, np.float32))
            if pageable
            else (lambda: self._device.page_locked((self._elements,), np.float32))
        )
        self._memory[pageable] = (make(), make())
        self._streams[0].read(self._memory[pageable][0], self._buffers["source"])
        self._streams[0].synchronize()

    def step(self, variant: str) -> None:
        """A whole roundtrip; returns when the host has the result."""
        self._enqueue(variant, STAGES)
        self._streams[0].synchronize()
        if self._checked:
            self._checked = False
            self._streams[0].write(self._buffers["received"], self._memory[variant == PAGEABLE][1])
            self._streams[0].synchronize()

    def _enqueue(self, variant: str, stages: tuple[str, ...]) -> None:
        """The stages of a roundtrip, all of it or in chunks. Streams beside the first start and end with it."""
        first_stream, *others = self._streams
        split = variant == PIPELINE
        if split:
            first_stream.record(self._fork)
            for stream in others:
                stream.wait(self._fork)
        for index, (first, count) in enumerate(pieces(self._elements, self._chunks if split else 1)):
            self._piece(self._streams[index % len(self._streams)], variant, first, count, stages)
        if split:
            for stream, event in zip(others, self._joins, strict=True):
                stream.record(event)
                first_stream.wait(event)

    def _piece(self, stream: Stream, variant: str, first: int, count: int, stages: tuple[str, ...]) -> None:
        sent, received = self._memory[variant == PAGEABLE]
        staged, result = self._buffers["staged"], self._buffers["result"]
        offset = first * sent.itemsize
        if "h2d" in stages:
            stream.write(staged, sent[first : first + count], offset)
        if "compute" in stages:
            arguments = (staged, result, np.int64(first), np.int64(count), self._compute, SCALE, OFFSET)
            stream.launch(self._kernel, grid(count), (BLOCK, 1, 1), 0, arguments)
        if "d2h" in stages:
            stream.read(received[first : first + count], result, offset)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        """Asked for before a checked step: nothing of an earlier step is left for it to find."""
        self._checked = True
        for name in ("staged", "result"):
            self._streams[0].fill(self._buffers[name], POISON)
        self._streams[0].synchronize()
        self._memory[variant == PAGEABLE][1].view(np.uint8).fill(POISON)
        return {"received": self._buffers["received"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Rates of each way alone, the kernel's time alone, and for the pipeline ``overlap``.

        ``overlap``: of the time that could be hidden behind the longest stage, the part (0 to 1) that is. With one
        copy engine the two ways share it and count as one stage. Absent where there is nothing to hide, and for
        the other variants, whose single stream runs one stage after another.
        """
        alone = {stage: self._time_us(variant, (stage,)) for stage in STAGES}
        nbytes = self._elements * 4
        engines = self._device.info.copy_engines
        found = {"copy_engines": float(engines), "compute_us": alone["compute"]}
        found |= {f"{way}_gbps": nbytes / alone[way] * 1e-3 for way in ("h2d", "d2h") if alone[way] > 0}
        if variant != PIPELINE:
            return found
        achieved = overlap(alone, self._time_us(variant, STAGES), engines)
        return found if achieved is None else {**found, "overlap": achieved}

    def _time_us(self, variant: str, stages: tuple[str, ...]) -> float:
        return median_us(self._streams[0], lambda: self._enqueue(variant, stages), hold=variant != PAGEABLE)

    def close(self) -> None:
        """Ends the streams beside the measured one and lets the host memory go."""
        for stream in self._streams[1:]:
            stream.close()
        self._memory.clear()


def overlap(alone_us: Mapping[str, float], whole_us: float, copy_engines: int) -> float | None:
    """The part (0 to 1) of the hideable time that a roundtrip of ``whole_us`` hides; None where there is none.

    ``alone_us``: time of each of ``STAGES`` with nothing beside it.
    """
    copies = (alone_us["h2d"], alone_us["d2h"])
    longest = max(*copies, alone_us["compute"]) if copy_engines > 1 else max(sum(copies), alone_us["compute"])
    total = sum(alone_us.values())
    if total <= longest:
        return None
    return min(1.0, max(0.0, (total - whole_us) / (total - longest)))
