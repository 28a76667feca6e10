"""Streams: everything asynchronous on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from runner.backend.base import (
    Argument,
    BackendError,
    Buffer,
    Device,
    Dim3,
    Event,
    Function,
)
from runner.backend.cuda.holding import PEER_COPY, Word
from runner.backend.cuda.marks import CudaEvent, CudaGraph
from runner.backend.cuda.memory import CudaBuffer
from runner.backend.cuda.module import CudaFunction
from runner.backend.cuda.programmatic import overlap_next

if TYPE_CHECKING:
    from runner.backend.cuda.device import CudaDevice

NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: no implicit waiting for the default stream."""


class CudaStream:
    """A PyCUDA stream; what PyCUDA lacks goes to cuda-bindings with the same handle."""

    def __init__(self, device: CudaDevice, priority: int) -> None:
        device.activate()
        self.device: Device = device
        self._device = device
        self._errors = device.errors
        self._holds = device.holds
        self._bindings = device.libraries.bindings
        self._pycuda = device.libraries.pycuda
        with self._errors.at("create a stream"):
            self._native = self._pycuda.Stream(NON_BLOCKING)
        self.handle = int(self._native.handle)
        self.priority = self._set_priority(priority) if priority else 0
        self._word: Word | None = None
        self._capturing = False

    def _set_priority(self, priority: int) -> int:
        """Raises this stream's priority; returns what the device made of it (0 is the lowest)."""
        bindings = self._bindings
        status, least, greatest = bindings.cuCtxGetStreamPriorityRange()
        self._errors.check((status,), "read the range of stream priorities")
        value = bindings.CUstreamAttrValue()
        value.priority = max(least - max(priority, 0), greatest)
        attribute = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
        self._errors.check(bindings.cuStreamSetAttribute(self.handle, attribute, value), "set the priority of a stream")
        return int(least) - int(self._errors.check(bindings.cuStreamGetPriority(self.handle), "read a priority"))

    def ready(self, commands: int = 1) -> None:
        """Before each command: the context is current, and the queue does not fill up behind a hold."""
        self._device.activate()
        if self._holds.active:
            self._holds.command(commands)

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
        self.ready()
        if programmatic and self._capturing and self._device.programmatic:
            overlap_next(self._bindings, self._errors, self.handle)
        cast(CudaFunction, function).enqueue(self._native, grid, block, shared_bytes, arguments)

    def write(self, target: Buffer, source: npt.NDArray[Any], offset: int = 0) -> None:
        self.ready()
        content = _bytes(source)
        address = cast(CudaBuffer, target).span(offset, content.nbytes)
        if content.nbytes:
            with self._errors.at(f"copy {content.nbytes} bytes to the device"):
                self._pycuda.memcpy_htod_async(address, content, self._native)

    def read(self, target: npt.NDArray[Any], source: Buffer, offset: int = 0) -> None:
        self.ready()
        content = _bytes(target)
        address = cast(CudaBuffer, source).span(offset, content.nbytes)
        if content.nbytes:
            with self._errors.at(f"copy {content.nbytes} bytes from the device"):
                self._pycuda.memcpy_dtoh_async(content, address, self._native)

    def copy(self, target: Buffer, source: Buffer, nbytes: int, target_offset: int = 0, source_offset: int = 0) -> None:
        to, origin = cast(CudaBuffer, target), cast(CudaBuffer, source)
        self.ready(1 if to.device is origin.device else PEER_COPY)
        into, out_of = to.span(target_offset, nbytes), origin.span(source_offset, nbytes)
        if not nbytes:
            return
        if to.device is origin.device:
            with self._errors.at(f"copy {nbytes} bytes on the device"):
                self._pycuda.memcpy_dtod_async(into, out_of, nbytes, self._native)
            return
        # PyCUDA's memcpy_peer_async ignores the contexts it is given.
        there, here = cast("CudaDevice", to.device), cast("CudaDevice", origin.device)
        self._errors.check(
            self._bindings.cuMemcpyPeerAsync(
                into, there.context_handle, out_of, here.context_handle, nbytes, self.handle
            ),
            f"copy {nbytes} bytes between devices",
        )

    def fill(self, target: Buffer, byte: int) -> None:
        self.ready()
        buffer = cast(CudaBuffer, target)
        if buffer.nbytes:
            with self._errors.at(f"fill {buffer.nbytes} bytes"):
                self._pycuda.memset_d8_async(buffer.address, byte, buffer.nbytes, self._native)

    def record(self, event: Event) -> None:
        self.ready()
        own = cast(CudaEvent, event)
        try:
            own.native.record(self._native)
        except self._pycuda.Error as error:
            raise self._errors.translate(error, "record an event") from error
        own.recorded = True

    def wait(self, event: Event) -> None:
        self.ready()
        with self._errors.at("make a stream wait for an event"):
            self._native.wait_for_event(cast(CudaEvent, event).native)

    def hold(self) -> None:
        """See ``Stream.hold``. Released early after 512 commands, and by a watchdog after 30 s."""
        self._device.activate()
        if self._capturing:
            raise BackendError("cannot hold a stream while it is captured")
        if self._word is None:
            self._word = self._device.host_word()
        elif self._word.since is not None:
            raise BackendError("the stream is already held")
        value = self._holds.begin(self._word)
        flags = int(self._bindings.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)
        result = self._bindings.cuStreamWaitValue32(self.handle, self._word.address, value, flags)
        if int(result[0]) != 0:
            self._holds.drop(self._word)
        self._errors.check(result, "hold a stream")

    def let_go(self) -> None:
        """See ``Stream.let_go``."""
        if self._word is not None:
            self._word.let_go()

    def release(self) -> None:
        """Lets the work run; does nothing when the stream is not held."""
        if self._word is not None:
            self._holds.end(self._word)

    def allocate(self, nbytes: int) -> Buffer:
        self.ready()
        return self._device.pool_allocate(self, nbytes)

    def free(self, buffer: Buffer) -> None:
        self.ready()
        self._device.pool_free(self, cast(CudaBuffer, buffer))

    def begin_capture(self) -> None:
        self._device.activate()
        self._holds.refuse("begin a capture")
        # Several devices are captured at once: making one's graph, which allocates, must not break another's capture.
        mode = self._bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._errors.check(self._bindings.cuStreamBeginCapture(self.handle, mode), "begin a capture")
        self._capturing = True

    def end_capture(self) -> CudaGraph:
        self._device.activate()
        bindings = self._bindings
        self._capturing = False
        graph = self._errors.check(bindings.cuStreamEndCapture(self.handle), "end a capture")
        try:
            counted = bindings.cuGraphGetNodes(graph)
            self._errors.check(counted, "count the nodes of a graph")
            executable = self._errors.check(bindings.cuGraphInstantiate(graph, 0), "instantiate a graph")
        finally:
            bindings.cuGraphDestroy(graph)
        return CudaGraph(self._device, executable, int(counted[-1]))

    def synchronize(self) -> None:
        self._device.activate()
        if self._word is not None and self._word.since is not None:
            self._holds.refuse("wait for a stream")
        with self._errors.at("wait for a stream"):
            self._native.synchronize()

    def close(self) -> None:
        """Waits for the stream and drops it."""
        if self._word is not None:
            self._holds.drop(self._word)
        self.synchronize()
        self._device.dropped(self)


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The array's own memory as bytes: NumPy cannot export types such as bfloat16 to PyCUDA."""
    if not array.flags.c_contiguous:
        raise BackendError(f"only a C-contiguous array can be copied, not one with strides {array.strides}")
    return array.reshape(-1).view(np.uint8)
