"""Streams: a queue and a thread each, so that two devices that wait for each other both go on."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from runner.backend.base import Argument, BackendError, Buffer, Device, Dim3, Event, Function, Graph, LaunchError
from runner.backend.host import limits
from runner.backend.host.event import Gate, HostEvent, Mark
from runner.backend.host.graph import Capture
from runner.backend.host.library import HostFunction
from runner.backend.host.memory import HostBuffer
from runner.backend.host.operations import Await, Copy, Fill, GiveBack, Launch, Operation, Recorded, Set, Words
from runner.backend.host.tracing import Call
from runner.result.model import TraceEvent

if TYPE_CHECKING:
    from runner.backend.host.device import HostDevice

_Words = ctypes.c_uint * 3


class HostStream:
    """An ordered queue of work on one virtual device.

    An operation that fails makes those after it be skipped, until ``synchronize`` has raised the failure.
    """

    def __init__(self, device: HostDevice, number: int, priority: int) -> None:
        self.device: Device = device
        self._device = device
        self.number = number
        self.priority = max(0, min(priority, limits.MAX_PRIORITY))
        self.error: BackendError | None = None
        self.capture: Capture | None = None
        self.replayed_by = 0
        """Number of the call whose graph is being replayed; used by the stream's thread alone."""
        self._queue: SimpleQueue[Operation | None] = SimpleQueue()
        self._gates: deque[Gate] = deque()
        self._submitted = 0
        self._finished = 0
        self._open = True
        name = f"host{device.info.ordinal}-stream{number}"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    # --- the stream's own thread

    def _serve(self) -> None:
        while (operation := self._queue.get()) is not None:
            self.perform(operation)
            self._finished += 1
            del operation  # frees what it held before the next one comes

    def perform(self, operation: Operation) -> None:
        """Runs one operation, unless an earlier one failed."""
        if self.error is not None and not operation.always:
            return
        try:
            operation.run(self)
        except BackendError as error:
            self.error = error
        except Exception as error:  # the thread must live on, or everybody who waits for it hangs
            self.error = BackendError(f"{type(operation).__name__}: {type(error).__name__}: {error}")

    @contextmanager
    def traced(
        self,
        kind: str,
        name: str,
        call: int,
        nbytes: int = 0,
        grid: Words = (),
        block: Words = (),
        memory: str = "",
    ) -> Iterator[None]:
        """Adds what happens inside to the backend's trace, if there is one. ``call``: number of the call that caused
        it."""
        events = self._device.backend.trace
        if events is None:
            yield
            return
        start = time.perf_counter_ns()
        yield
        end = time.perf_counter_ns()
        events.append(
            TraceEvent(
                kind,
                name,
                self.device.info.ordinal,
                self.number,
                start / 1000,
                end / 1000,
                correlation=self.replayed_by or call,
                bytes=nbytes,
                grid="x".join(map(str, grid)),
                block="x".join(map(str, block)),
                memory=memory,
            )
        )

    def called(self, name: str) -> Call:
        """Adds the call inside to the backend's trace, if there is one."""
        return Call(self._device.backend, name)

    # --- enqueueing

    def enqueue(self, operation: Operation) -> None:
        if not self._open:
            raise BackendError("a stream was used after it was closed")
        if self.capture is not None:
            self.capture.operations.append(operation)
        else:
            self._submitted += 1
            self._queue.put(operation)

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        arguments: Sequence[Argument],
        *,
        programmatic: bool = False,
    ) -> None:
        """Enqueues a kernel; a ``programmatic`` one, too, starts when the one ahead has ended.

        Raises ``LaunchError`` when configuration or arguments are impossible.
        """
        own = cast(HostFunction, function)
        if own.device is not self.device:
            raise LaunchError(
                f"kernel {own.name} was loaded on host device {own.device.info.ordinal}, "
                f"the stream is of device {self.device.info.ordinal}"
            )
        limits.check_launch(own.name, grid, block, shared_bytes)
        packed = own.pack(arguments)
        with self.called("hostLaunchKernel") as call:
            self.enqueue(Launch(own, _Words(*grid), _Words(*block), shared_bytes, packed, self.priority, call))

    def write(self, target: Buffer, source: npt.NDArray[Any], offset: int = 0) -> None:
        """Host to device. Memory that is not page-locked is copied aside first, so it may be changed at once."""
        content = _bytes(source)
        address = cast(HostBuffer, target).span(offset, content.nbytes)
        pinned = self._device.locked.contains(content)
        with self.called("hostMemcpyHtoDAsync") as call:
            if not pinned:
                content = content.copy()
            memory = "pinned" if pinned else "pageable"
            self.enqueue(Copy("HtoD", address, content.ctypes.data, content.nbytes, content, memory, call))

    def read(self, target: npt.NDArray[Any], source: Buffer, offset: int = 0) -> None:
        """Device to host. Returns when it is done, unless ``target`` is page-locked."""
        content = _bytes(target)
        if not content.flags.writeable:
            raise BackendError("cannot read into an array that is not writeable")
        address = cast(HostBuffer, source).span(offset, content.nbytes)
        pinned = self._device.locked.contains(content)
        memory = "pinned" if pinned else "pageable"
        with self.called("hostMemcpyDtoHAsync" if pinned else "hostMemcpyDtoH") as call:
            self.enqueue(Copy("DtoH", content.ctypes.data, address, content.nbytes, content, memory, call))
            if self.capture is None and not pinned:
                self._wait()

    def copy(self, target: Buffer, source: Buffer, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> None:
        into, origin = cast(HostBuffer, target), cast(HostBuffer, source)
        direction = "DtoD" if into.device is origin.device else "PtoP"
        with self.called(f"hostMemcpy{direction}Async") as call:
            to, of = into.span(target_offset, nbytes), origin.span(source_offset, nbytes)
            self.enqueue(Copy(direction, to, of, nbytes, call=call))

    def fill(self, target: Buffer, byte: int) -> None:
        if not 0 <= byte <= 255:
            raise BackendError(f"fill: byte={byte}, allowed are 0 to 255")
        buffer = cast(HostBuffer, target)
        with self.called("hostMemsetAsync") as call:
            self.enqueue(Fill(buffer.address, byte, buffer.nbytes, call))

    # --- events and holding

    def record(self, event: Event) -> None:
        own = cast(HostEvent, event)
        if self.capture is not None:
            own.capture = self.capture
            self.enqueue(Recorded(own))
            return
        own.capture = None
        own.mark = Mark(self.closed_gate())
        self.enqueue(Set(own.mark))

    def wait(self, event: Event) -> None:
        """Later work waits for the event's latest recording. Within a capture the stream joins it."""
        own = cast(HostEvent, event)
        other = own.capture
        if other is not None and self in other.streams:
            return  # captured work keeps its order
        if other is not None and other.origin.capture is other:
            if self.capture is not None:
                raise BackendError("a stream cannot join a second capture")
            other.streams.append(self)
            self.capture = other
            return
        if self.capture is not None:
            raise BackendError("a captured stream cannot wait for an event recorded outside the capture")
        if own.mark is not None:
            self.enqueue(Await(own.mark))

    def hold(self) -> None:
        """Later work waits until ``release``."""
        if self.capture is not None:
            raise BackendError("cannot hold a stream while it is captured")
        if self.held:
            raise BackendError("the stream is already held")
        gate = Gate()
        self._gates.append(gate)
        self.enqueue(Await(gate))

    def let_go(self) -> None:
        """See ``Stream.let_go``."""
        for gate in self._gates:
            gate.open()

    def release(self) -> None:
        """Lets the work run; does nothing when the stream is not held."""
        while self._gates:
            self._gates.popleft().open()

    @property
    def held(self) -> bool:
        return bool(self._gates)

    def closed_gate(self) -> Gate | None:
        """The gate that work enqueued now waits behind."""
        return self._gates[-1] if self._gates else None

    # --- memory

    def allocate(self, nbytes: int) -> Buffer:
        """From the device's pool. Within a capture the buffer belongs to the graph and keeps its address."""
        with self.called("hostMemAllocAsync"):
            buffer = self._device.heap.allocate(nbytes, pooled=True)
        if self.capture is not None:
            self.capture.buffers.append(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        own = cast(HostBuffer, buffer)
        if not own.pooled:
            raise BackendError("only a buffer that a stream allocated can be freed in stream order")
        if self.capture is not None and own in self.capture.buffers:
            return  # until the graph is freed
        address = own.address
        with self.called("hostMemFreeAsync"):
            self._device.heap.forget(own)
            self.enqueue(GiveBack(self._device, address, own.nbytes))

    # --- capture

    def begin_capture(self) -> None:
        if self.capture is not None:
            raise BackendError("the stream is being captured already")
        if self.held:
            raise BackendError("cannot capture a stream while it is held")
        self.capture = Capture(self)

    def end_capture(self) -> Graph:
        if self.capture is None or self.capture.origin is not self:
            raise BackendError("end_capture without begin_capture on this stream")
        return self.capture.end()

    # --- waiting

    def synchronize(self) -> None:
        """Waits for everything enqueued; raises the first failure since the last call."""
        with self.called("hostStreamSynchronize"):
            self._wait()
            self._device.heap.trim()

    def _wait(self) -> None:
        self.drain()
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def drain(self) -> None:
        """Waits without raising failures; they stay for ``synchronize``."""
        if self.capture is not None:
            raise BackendError("cannot wait for a stream while it is captured")
        if self._finished == self._submitted:
            return
        mark = Mark(self.closed_gate())
        if self.held:
            mark.wait()  # raises
        self.enqueue(Set(mark))
        mark.wait()

    def close(self) -> None:
        """Opens its gates, waits for the queue and ends the thread. Idempotent."""
        if self._open:
            self.release()
            self.capture = None
            self._open = False
            self._queue.put(None)
            self._thread.join()
            self._device.forget_stream(self)


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The array's own memory as bytes."""
    if not array.flags.c_contiguous:
        raise BackendError(f"only a C-contiguous array can be copied, not one with strides {array.strides}")
    return array.reshape(-1).view(np.uint8)
