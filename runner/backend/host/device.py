"""A virtual device: the whole machine, with memory, streams and threads of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from runner.backend.base import Buffer, Device, DeviceInfo, Event, Module, Stream, Unsupported
from runner.backend.host.event import HostEvent
from runner.backend.host.library import HostModule, Threads
from runner.backend.host.memory import Heap, HostBuffer, PageLocked
from runner.backend.host.stream import HostStream
from runner.backend.host.tracing import Call

if TYPE_CHECKING:
    from runner.backend.host.backend import HostBackend


class HostDevice:
    """One virtual device of a ``HostBackend``."""

    def __init__(self, backend: HostBackend, info: DeviceInfo) -> None:
        self.backend = backend
        self.info = info
        self.heap = Heap(self, backend.budget)
        self.locked: PageLocked = backend.locked
        self.threads = Threads(info.sms)
        self._streams: list[HostStream] = []
        self._numbers = 0
        self._peers: set[int] = {info.ordinal}

    def allocate(self, nbytes: int) -> Buffer:
        """Raises ``OutOfMemory``."""
        with Call(self.backend, "hostMemAlloc"):
            return self.heap.allocate(nbytes)

    def free_bytes(self) -> int:
        return self.backend.budget.free()

    def release_buffer(self, buffer: HostBuffer) -> None:
        """``HostBuffer.free``: waits for queued work, then frees."""
        address = buffer.address
        with Call(self.backend, "hostMemFree"):
            for stream in self._streams:
                if stream.capture is None:
                    stream.drain()
            self.heap.forget(buffer)
            self.heap.give_back(address, buffer.nbytes, pooled=False)

    def stream(self, priority: int = 0) -> Stream:
        made = HostStream(self, self._numbers, priority)
        self._numbers += 1
        self._streams.append(made)
        return made

    def forget_stream(self, stream: HostStream) -> None:
        self._streams.remove(stream)

    def event(self) -> Event:
        return HostEvent(self)

    def load(self, program: Path) -> Module:
        """Raises ``BackendError`` when ``program`` is not a host program."""
        return HostModule(self, program)

    def page_locked(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return self.locked.array(shape, np.dtype(dtype))

    def can_access_peer(self, peer: Device) -> bool:
        """Every virtual device of the same backend."""
        return isinstance(peer, HostDevice) and peer.backend is self.backend

    def enable_peer_access(self, peer: Device) -> None:
        if not self.can_access_peer(peer):
            raise Unsupported(f"host device {self.info.ordinal} has no peer access to device {peer.info.ordinal}")
        self._peers.add(peer.info.ordinal)

    def may_address(self, owner: Device) -> bool:
        """Whether a kernel here may touch ``owner``'s memory."""
        return owner is self or (cast(HostDevice, owner).backend is self.backend and owner.info.ordinal in self._peers)

    def synchronize(self) -> None:
        """Waits for all its streams; raises the first failure."""
        for stream in self._streams:
            stream.synchronize()

    def close(self) -> None:
        """Opens all gates, waits for the streams, ends the threads and frees everything that is left. Idempotent."""
        for stream in list(self._streams):
            stream.release()
        for stream in list(self._streams):
            stream.close()
        self.threads.close()
        self.heap.close()
        self.backend.forget_device(self)
