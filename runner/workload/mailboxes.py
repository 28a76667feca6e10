"""Launches of kernels in which devices meet: which arguments each device's gets. ``cuda_src/common/peers.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from runner.backend.base import Argument, Buffer, Dim3
from runner.plan.family import on_device
from runner.workload.base import Context
from runner.workload.declared import BoundLaunch

MOST = 8
"""Devices that can meet: ``peers::kMost``."""
THREADS = 256
LIMIT_MS = 10_000
"""A kernel that has waited this long for a peer ends with an error."""


class Mailboxes:
    """The buffers of an experiment by device, and launches with a pointer to those of every peer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.count = len(context.devices)
        self.grid: Dim3 = (int(context.plan.symbols["meeting_blocks"]), 1, 1)
        """The same for all kernels that meet: element and block belong together from one call to the next."""

    def each(self, name: str) -> list[Buffer]:
        """A buffer that every device has, by position."""
        return [self._context.buffers[on_device(name, place)] for place in range(self.count)]

    def table(self, name: str) -> tuple[Buffer, ...]:
        """As many as kernels take; the first stands for those that there are not."""
        own = self.each(name)
        return tuple(own[place] if place < self.count else own[0] for place in range(MOST))

    def meeting(
        self,
        place: int,
        function: str,
        leading: Sequence[Argument],
        sizes: Sequence[int],
        programmatic: bool = False,
    ) -> BoundLaunch:
        """``function(leading…, counts, mailboxes, sizes…, limit)`` on the device at ``place``; ``programmatic`` where
        the kernel waits by itself for the one ahead of it."""
        counts = self._context.buffers[on_device("counts", place)]
        numbers = tuple(np.int64(size) for size in (*sizes, LIMIT_MS))
        arguments = (*leading, counts, *self.table("mailbox"), *numbers)
        made = self.bound(place, function, self.grid, arguments, THREADS)
        return replace(made, programmatic=programmatic)

    def bound(
        self, place: int, function: str, grid: Dim3, arguments: tuple[Argument, ...], threads: int
    ) -> BoundLaunch:
        """A launch on the stream of the device at ``place``."""
        return BoundLaunch(
            stream=self._context.streams[place],
            function=self._context.function(function, device=place),
            grid=grid,
            block=(threads, 1, 1),
            shared_bytes=0,
            arguments=arguments,
        )
