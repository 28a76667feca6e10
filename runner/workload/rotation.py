"""Steps of a declared variant for a graph, on inputs that change from step to step so that no cache holds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runner.backend.base import Buffer, Graph, OutOfMemory, Unsupported
from runner.plan.memory import flush_bytes
from runner.plan.model import Variant
from runner.workload.base import Context, Workload
from runner.workload.capture import captured
from runner.workload.declared import BoundLaunch, DeclaredWorkload, bind

FLUSHES = 2
"""Between two uses of a copy the steps move so many times what a flush reads: four times the L2 cache of a GPU. A cache
that does not drop its oldest lines first keeps some of the last twice its size."""
MAX_COPIES = 512
"""Of a small kernel's inputs: each is an allocation for every buffer."""
MEMORY_SHARE = 0.5
"""Of the free memory, for all copies."""


class Rotation:
    """Copies of every buffer that a variant's launches name, outputs and scratch memory too, so that each step is
    complete in itself. Copy 0 is the buffers themselves. ``close`` frees the others."""

    def __init__(self, context: Context, variant: Variant) -> None:
        self._context = context
        self._variant = variant
        self._stream = context.streams[0]
        named = dict.fromkeys(a.buffer for launch in variant.launches for a in launch.arguments if a.kind == "buffer")
        self._own = {name: context.buffers[name] for name in named}
        self._copies: list[dict[str, Buffer]] = []
        self._bound: list[tuple[BoundLaunch, ...]] = [bind(context, variant.launches)]
        self.launches = len(self._bound[0])
        self._bytes = sum(buffer.nbytes for buffer in self._own.values())
        info = context.devices[0].info
        self._needed = FLUSHES * flush_bytes(info.l2_bytes, info.backend)
        self.wanted = self._wanted()

    @property
    def _moved(self) -> int:
        """Bytes that a step moves: as declared, for a kernel need not touch all of its buffers."""
        return min(self._bytes, self._variant.bytes_moved or self._bytes)

    def _wanted(self) -> int:
        if not self._moved:
            return 1
        room = int(MEMORY_SHARE * self._context.devices[0].free_bytes())
        return max(1, min(-(-self._needed // self._moved), 1 + room // self._bytes, MAX_COPIES))

    def copy(self, copies: int) -> int:
        """See ``runner.measure.graph.Steps``."""
        while len(self._bound) < copies:
            made: dict[str, Buffer] = {}
            try:
                for name, buffer in self._own.items():
                    made[name] = buffer.device.allocate(buffer.nbytes)
                    self._stream.copy(made[name], buffer, buffer.nbytes)
            except OutOfMemory:  # the free memory is in pieces
                _free(made.values())
                break
            self._copies.append(made)
            context = replace(self._context, buffers={**self._context.buffers, **made})
            self._bound.append(bind(context, self._variant.launches))
        self._stream.synchronize()
        return len(self._bound)

    @property
    def warm(self) -> bool:
        """Whether what all copies' steps move is less than what the caches are emptied by."""
        return len(self._bound) * self._moved < self._needed

    def graph(self, steps: int) -> Graph:
        """Raises ``BackendError`` for what cannot be captured."""

        def enqueue() -> None:
            for step in range(steps):
                for launch in self._bound[step % len(self._bound)]:
                    launch.enqueue()

        return captured(self._stream, enqueue).graph

    def close(self) -> None:
        for made in self._copies:
            _free(made.values())
        self._copies.clear()
        del self._bound[1:]


def rotation(workload: Workload, context: Context, variant: str) -> Rotation:
    """Raises ``Unsupported`` with the reason why a step cannot be captured."""
    if workload.host_timed:
        raise Unsupported("a step waits for the device itself")
    if not isinstance(workload, DeclaredWorkload):
        raise Unsupported(f"{type(workload).__name__} enqueues its steps in its own way")
    planned = context.plan.variant(variant)
    if any(launch.device for launch in planned.launches):
        raise Unsupported("a step runs on several devices")
    return Rotation(context, planned)


def _free(buffers: Iterable[Buffer]) -> None:
    for buffer in buffers:
        buffer.free()
