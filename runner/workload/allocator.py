"""The decode loop of ``kernel=allocator``: each step needs a temporary array, got in three ways."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

import numpy as np

from runner.backend.base import Buffer
from runner.workload.base import Context

BLOCK = 256
BLOCK_ELEMENTS = 4 * BLOCK
"""Workspace elements a block of ``workspace_kernel`` handles."""
KEPT = 100_000
"""Latencies remembered, the latest ones."""


class AllocatorLoop:
    """One step of the experiment is a loop of ``iters`` decode steps, timed by the host's clock.

    ``malloc_free`` allocates and frees around every kernel, ``prealloc_pool`` takes the next slot of a ring that
    was allocated once, ``malloc_async`` allocates and frees in stream order from the device's memory pool and
    raises ``Unsupported`` where there is none.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._device = context.devices[0]
        self._stream = context.streams[0]
        self._buffers = context.buffers
        symbols = context.plan.symbols
        self.units_per_step = int(symbols["iters"])
        """Decode steps in a loop."""
        self._slots = int(symbols["slots"])
        self._blocks = int(symbols["blocks"])
        self._elements = np.int64(symbols["elements"])
        self._nbytes = self._blocks * BLOCK_ELEMENTS * 4
        self._kernel = context.function("workspace_kernel")
        self._first_us: dict[str, float] = {}
        self._later_us: dict[str, deque[float]] = {}
        self._free_before = 0

    def prepare(self) -> None:
        """Remembers how much memory is free before the first workspace is asked for."""
        self._free_before = self._device.free_bytes()

    def reset(self, variant: str) -> None:
        """Nothing: every loop writes all of the output anew."""

    def step(self, variant: str) -> None:
        """All decode steps; returns when the device has done them."""
        for step in range(self.units_per_step):
            if variant == "malloc_free":
                latency_ns = self._malloc_free(step)
            elif variant == "malloc_async":
                latency_ns = self._malloc_async(step)
            else:
                latency_ns = self._prealloc_pool(step)
            self._note(variant, latency_ns * 1e-3)
        self._stream.synchronize()

    def _malloc_free(self, step: int) -> int:
        begin = time.perf_counter_ns()
        workspace = self._device.allocate(self._nbytes)
        allocated = time.perf_counter_ns()
        self._launch(workspace, 0, step)
        launched = time.perf_counter_ns()
        workspace.free()
        return allocated - begin + time.perf_counter_ns() - launched

    def _malloc_async(self, step: int) -> int:
        begin = time.perf_counter_ns()
        workspace = self._stream.allocate(self._nbytes)
        allocated = time.perf_counter_ns()
        self._launch(workspace, 0, step)
        launched = time.perf_counter_ns()
        self._stream.free(workspace)
        return allocated - begin + time.perf_counter_ns() - launched

    def _prealloc_pool(self, step: int) -> int:
        begin = time.perf_counter_ns()
        offset = step % self._slots * self._blocks * BLOCK_ELEMENTS
        taken = time.perf_counter_ns()
        self._launch(self._buffers["pool"], offset, step)
        return taken - begin

    def _launch(self, workspace: Buffer, offset: int, step: int) -> None:
        arguments = (
            self._buffers["activations"],
            workspace,
            np.int64(offset),
            self._buffers["out"],
            self._elements,
            np.int64(step),
        )
        self._stream.launch(self._kernel, (self._blocks, 1, 1), (BLOCK, 1, 1), 0, arguments)

    def _note(self, variant: str, latency_us: float) -> None:
        """The first latency apart from all later ones."""
        if variant not in self._first_us:
            self._first_us[variant] = latency_us
            self._later_us[variant] = deque(maxlen=KEPT)
        else:
            self._later_us[variant].append(latency_us)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {"out": self._buffers["out"]}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """Host time a decode step spends on getting and returning its workspace, and the bytes it takes.

        ``alloc_first_us`` is the experiment's first decode step of the variant; ``alloc_us`` (median) and
        ``alloc_us_p99`` are over all later ones. ``malloc_free`` includes the wait for the kernel that freeing
        implies. ``reserved_bytes`` is held between loops; ``used_bytes`` is what one decode step works in.
        """
        later = list(self._later_us[variant])
        found = {"alloc_first_us": self._first_us[variant], "used_bytes": float(self._nbytes)}
        if later:
            found |= {"alloc_us": float(np.median(later)), "alloc_us_p99": float(np.percentile(later, 99))}
        reserved = self._reserved(variant)
        return found if reserved is None else {**found, "reserved_bytes": float(reserved)}

    def _reserved(self, variant: str) -> int | None:
        """Bytes held while no decode step runs; None where the device does not tell.

        What a memory pool keeps shows in the device's free memory. A pool that an earlier experiment filled was
        full before: then less is missing than a single workspace takes, and nothing can be said.
        """
        if variant == "prealloc_pool":
            return self._slots * self._nbytes
        if variant == "malloc_free":
            return 0
        self._stream.synchronize()
        kept = self._free_before - self._device.free_bytes()
        if self._device.info.backend == "cuda" and kept < self._nbytes:
            return None
        return kept

    def close(self) -> None:
        """Every workspace was given back in its own step; the ring belongs to the worker."""
