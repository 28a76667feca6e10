"""The decode loop of ``kernel=sync``: the same kernels, with three ways for the host to follow along."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer
from runner.workload.base import Context

BLOCK = 256
PER_THREAD = 4
"""State elements a thread of ``decode_step_kernel`` updates."""
REPEATS = 5
"""Loops timed for the idle share, which compares two medians."""


class DecodeLoop:
    """One step of the experiment is a whole loop of ``steps`` decode steps, timed by the host's clock.

    The first decode step reads the initial state and writes the evolving one, so every loop starts afresh.
    """

    host_timed = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream = context.streams[0]
        self._device = context.devices[0]
        symbols = context.plan.symbols
        self._elements = int(symbols["N"])
        self.units_per_step = int(symbols["steps"])
        """Tokens a loop decodes."""
        self._kernel = context.function("decode_step_kernel")
        self._one: npt.NDArray[Any] = np.zeros(1, np.int32)
        self._all: npt.NDArray[Any] = self._device.page_locked((self.units_per_step,), np.int32)

    @property
    def received(self) -> npt.NDArray[Any]:
        """Tokens the host holds after ``blocking_readback`` and ``batched_async``, int32, shape (steps,)."""
        return self._all

    def prepare(self) -> None:
        """Nothing: the buffers are filled and the kernel is loaded."""

    def reset(self, variant: str) -> None:
        """Nothing: a loop never reads what the one before it left."""

    def step(self, variant: str) -> None:
        """Decodes all tokens; returns when the host has what the variant gives it."""
        stream, tokens = self._stream, self._context.buffers["tokens"]
        for step in range(self.units_per_step):
            self._enqueue(step)
            if variant == "sync_each_step":
                stream.synchronize()
            elif variant == "blocking_readback":
                stream.read(self._one, tokens, step * self._one.itemsize)
                stream.synchronize()
                self._all[step] = self._one[0]
        if variant == "batched_async":
            stream.read(self._all, tokens)
            stream.synchronize()

    def _enqueue(self, step: int) -> None:
        """One decode step, not waited for."""
        buffers = self._context.buffers
        source = buffers["initial"] if step == 0 else buffers["state"]
        blocks = -(-self._elements // (BLOCK * PER_THREAD))
        arguments = (source, buffers["state"], buffers["tokens"], np.int64(self._elements), np.int64(step))
        self._stream.launch(self._kernel, (blocks, 1, 1), (BLOCK, 1, 1), 0, arguments)

    def outputs(self, variant: str) -> Mapping[str, Buffer]:
        return {name: self._context.buffers[name] for name in ("state", "tokens")}

    def metrics(self, variant: str) -> Mapping[str, float]:
        """``gpu_idle_share``: part of a loop (0 to 1) in which the device waits for the host.

        The device's own time is that of a loop enqueued behind a held stream, so that no launch is late.
        """
        busy = statistics.median(self._busy_us() for _ in range(REPEATS))
        loop = statistics.median(self._loop_us(variant) for _ in range(REPEATS))
        return {"gpu_idle_share": max(0.0, 1.0 - busy / loop), "device_us_per_token": busy / self.units_per_step}

    def _busy_us(self) -> float:
        begin, end = self._device.event(), self._device.event()
        self._stream.hold()
        try:
            self._stream.record(begin)
            for step in range(self.units_per_step):
                self._enqueue(step)
            self._stream.record(end)
        finally:
            self._stream.release()
        end.synchronize()
        return end.elapsed_us(begin)

    def _loop_us(self, variant: str) -> float:
        self._stream.synchronize()
        begin = time.perf_counter()
        self.step(variant)
        return (time.perf_counter() - begin) * 1e6

    def close(self) -> None:
        """Page-locked memory and buffers belong to the device and the worker."""
