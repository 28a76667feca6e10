"""Graphs: a captured sequence of operations, replayed as one entry of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from runner.backend.base import BackendError, Stream
from runner.backend.host.event import HostEvent, Mark
from runner.backend.host.operations import Operation, Recorded, Replay, Set

if TYPE_CHECKING:
    from runner.backend.host.memory import HostBuffer
    from runner.backend.host.stream import HostStream


class Capture:
    """A capture in progress. Streams that wait for one of its events join it, as on CUDA.

    Operations are kept in the order in which they were enqueued, whatever their stream: a valid order, in which
    branches do not overlap.
    """

    def __init__(self, origin: HostStream) -> None:
        self.origin = origin
        self.streams = [origin]
        self.operations: list[Operation] = []
        self.buffers: list[HostBuffer] = []
        """Allocated during the capture; they belong to the graph."""

    def end(self) -> HostGraph:
        for stream in self.streams:
            stream.capture = None
        return HostGraph(tuple(self.operations), tuple(self.buffers))


class HostGraph:
    """A captured sequence, ready to replay on any stream."""

    def __init__(self, operations: tuple[Operation, ...], buffers: tuple[HostBuffer, ...]) -> None:
        self.nodes = sum(operation.work for operation in operations)
        """Launches, copies and fills."""
        self._operations = operations
        self._buffers = buffers
        self._live = True

    def launch(self, stream: Stream) -> None:
        """Enqueues the sequence. Within another capture its operations become part of that one."""
        if not self._live:
            raise BackendError("a graph was launched after it was freed")
        own = cast("HostStream", stream)
        if own.capture is not None:
            own.capture.operations.extend(self._operations)
            return
        with own.called("hostGraphLaunch") as call:
            own.enqueue(Replay(tuple(self._marked(operation, own) for operation in self._operations), call))

    @staticmethod
    def _marked(operation: Operation, stream: HostStream) -> Operation:
        if not isinstance(operation, Recorded):
            return operation
        event: HostEvent = operation.event
        event.mark, event.capture = Mark(stream.closed_gate()), None
        return Set(event.mark)

    def free(self) -> None:
        """Frees the buffers allocated while it was captured. It must not be running."""
        self._live = False
        for buffer in self._buffers:
            if buffer.live:
                buffer.free()
