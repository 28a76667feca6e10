"""One GPU: its primary context, memory, streams and programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from runner.backend.base import BackendError, Device, OutOfMemory
from runner.backend.cuda import programmatic
from runner.backend.cuda.current import Current
from runner.backend.cuda.errors import Errors
from runner.backend.cuda.holding import Holds, Word
from runner.backend.cuda.info import device_info
from runner.backend.cuda.libraries import Libraries
from runner.backend.cuda.marks import CudaEvent
from runner.backend.cuda.memory import CudaBuffer, Deferred
from runner.backend.cuda.module import CudaModule
from runner.backend.cuda.pool import Pool
from runner.backend.cuda.stream import CudaStream


class CudaDevice:
    """Use it in the thread that opened it, and nowhere else."""

    def __init__(self, libraries: Libraries, errors: Errors, current: Current, ordinal: int) -> None:
        self.libraries = libraries
        self.errors = errors
        self.holds = Holds()
        self.frees = 0
        """How many buffers were freed so far; packed arguments are good as long as it stands still."""
        self._current = current
        self._deferred = Deferred()
        self._buffers: dict[CudaBuffer, Any] = {}
        self._streams: set[CudaStream] = set()
        self._peers: set[int] = set()
        self._pool: Pool | None = None
        with errors.at(f"open device {ordinal}"):
            self.native = libraries.pycuda.Device(ordinal)
            self.info = device_info(libraries, errors, self.native, ordinal)
            self.programmatic = programmatic.possible(self.info)
            self._context = self.native.retain_primary_context()
            current.use(self._context)
        self.context_handle = int(self._context.handle)
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    def activate(self) -> None:
        """Makes this context current. Raises ``BackendError`` in a foreign thread or after ``close``."""
        if not self._open:
            raise BackendError(f"device {self.info.ordinal} was used after it was closed")
        self._current.use(self._context)

    def _blocking(self, doing: str) -> None:
        """Before a call that may wait for the device."""
        self.activate()
        self.holds.refuse(doing)
        self._deferred.sweep()

    def allocate(self, nbytes: int) -> CudaBuffer:
        self._blocking("allocate memory")
        native = self._roomy(lambda: self.libraries.pycuda.mem_alloc(max(nbytes, 1)), nbytes)
        buffer = CudaBuffer(self, int(native), nbytes, self._release)
        self._buffers[buffer] = native
        return buffer

    def _release(self, buffer: CudaBuffer) -> None:
        self._blocking("free memory")
        native = self._buffers.pop(buffer)
        self.frees += 1
        buffer.forget()
        with self.errors.at("free memory"):
            native.free()

    def _roomy(self, allocate: Callable[[], Any], nbytes: int) -> Any:
        """An allocation; when it does not fit, once more after the pool gave back what it keeps unused."""
        try:
            return self._allocated(allocate, nbytes)
        except OutOfMemory:
            if self._pool is None:
                raise
            self.synchronize()
            self._pool.trim()
        return self._allocated(allocate, nbytes)

    def _allocated(self, allocate: Callable[[], Any], nbytes: int) -> Any:
        try:
            with self.errors.at(f"allocate {nbytes} bytes"):
                return allocate()
        except OutOfMemory as error:
            raise OutOfMemory(
                f"device {self.info.ordinal} ({self.info.name}) has no room for {nbytes} bytes "
                f"({nbytes / 2**30:.2f} GiB): {self.free_bytes()} bytes are free of {self.info.memory_bytes}"
            ) from error

    def free_bytes(self) -> int:
        self.activate()
        with self.errors.at("read the free memory"):
            free, _ = self.libraries.pycuda.mem_get_info()
        return int(free)

    def pool_allocate(self, stream: CudaStream, nbytes: int) -> CudaBuffer:
        """Stream-ordered allocation. Raises ``OutOfMemory``, ``Unsupported``."""
        if self._pool is None:
            self._pool = Pool(self.libraries, self.errors, self.info.ordinal)
        pool = self._pool
        address = self._allocated(lambda: pool.allocate(max(nbytes, 1), stream.handle), nbytes)
        buffer = CudaBuffer(self, address, nbytes, lambda one: self.pool_free(stream, one))
        self._buffers[buffer] = None
        return buffer

    def pool_free(self, stream: CudaStream, buffer: CudaBuffer) -> None:
        """Stream-ordered release. Raises ``BackendError`` for a buffer that is not from the pool."""
        self.activate()
        address = buffer.address
        if self._pool is None or self._buffers.get(buffer, buffer) is not None:
            raise BackendError("only a buffer from Stream.allocate of the same device can be freed in a stream")
        del self._buffers[buffer]
        self.frees += 1
        buffer.forget()
        self._pool.free(address, stream.handle)

    def stream(self, priority: int = 0) -> CudaStream:
        stream = CudaStream(self, priority)
        self._streams.add(stream)
        return stream

    def dropped(self, stream: CudaStream) -> None:
        """Called by a stream that was closed."""
        self._streams.discard(stream)

    def event(self) -> CudaEvent:
        return CudaEvent(self)

    def load(self, program: Path) -> CudaModule:
        self._blocking("load a program")
        with self.errors.at(f"load {program}"):
            native = self.libraries.pycuda.module_from_file(str(program))
        module = CudaModule(self, program, native)
        self._deferred.keep(module, native)
        return module

    def page_locked(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Zeroed, and released once no array refers to it."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        block = self._host_block(max(count * kind.itemsize, 1))
        return cast("npt.NDArray[Any]", block[: count * kind.itemsize].view(kind).reshape(shape))

    def _host_block(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Page-locked bytes that every device can address."""
        self._blocking("allocate page-locked memory")
        flags = self.libraries.pycuda.host_alloc_flags
        with self.errors.at(f"allocate {nbytes} bytes of page-locked host memory"):
            block = self.libraries.pycuda.pagelocked_empty(
                (nbytes,), np.uint8, mem_flags=flags.PORTABLE | flags.DEVICEMAP
            )
        block[:] = 0
        self._deferred.keep(block, block.base)
        return cast("npt.NDArray[np.uint8]", block)

    def host_word(self) -> Word:
        """A word in host memory that a stream of this device can wait for."""
        block = self._host_block(4)
        with self.errors.at("map host memory"):
            address = int(cast(Any, block.base).get_device_pointer())
        return Word(block.view(np.uint32), address)

    def can_access_peer(self, peer: Device) -> bool:
        other = cast(CudaDevice, peer)
        if other is self:
            return True
        with self.errors.at("ask for peer access"):
            return bool(self.native.can_access_peer(other.native))

    def enable_peer_access(self, peer: Device) -> None:
        other = cast(CudaDevice, peer)
        if other is self or other.info.ordinal in self._peers:
            return
        self._blocking("enable peer access")
        bindings = self.libraries.bindings
        doing = f"let device {self.info.ordinal} address the memory of device {other.info.ordinal}"
        result = bindings.cuCtxEnablePeerAccess(other.context_handle, 0)
        if int(result[0]) != int(bindings.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED):
            self.errors.check(result, doing)
        self._peers.add(other.info.ordinal)

    def synchronize(self) -> None:
        self._blocking("wait for the device")
        with self.errors.at("wait for the device"):
            self.libraries.pycuda.Context.synchronize()

    def close(self) -> None:
        """Frees everything that is left and gives the context back. A second call does nothing.

        After a device fault nothing can be freed one by one: the context goes as a whole.
        """
        if not self._open:
            return
        self.holds.close()
        if self.errors.fault is None:
            for stream in list(self._streams):
                stream.close()
            for buffer in list(self._buffers):
                buffer.free()
            self.synchronize()
            if self._pool is not None:
                self._pool.trim()
            self._deferred.clear()
        self._current.release(self._context)
        self._deferred.clear()  # after a fault: PyCUDA frees nothing in a context that is gone
        self._open = False
