"""Memory of virtual devices: exact-size buffers within one budget, a pool, and page-locked arrays."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.backend.base import BackendError, Device, OutOfMemory

if TYPE_CHECKING:
    from runner.backend.host.device import HostDevice

ALIGNMENT = 256
"""Bytes; that of ``cudaMalloc``."""
HUGE = 4 * 2**20
"""Buffers from here on ask for huge pages: a scan misses the TLB otherwise."""
_MADV_HUGEPAGE = 14

_libc = ctypes.CDLL(None)
_libc.posix_memalign.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_libc.free.restype = None
_madvise = getattr(_libc, "madvise", None)
if _madvise is not None:
    _madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def sanitized() -> bool:
    """True when this process runs under the address sanitizer."""
    return hasattr(_libc, "__asan_init")


class Budget:
    """Bytes all virtual devices share, for they are one machine."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def free(self) -> int:
        return max(0, self.limit - self.used)

    def take(self, nbytes: int) -> bool:
        with self._lock:
            if nbytes > self.limit - self.used:
                return False
            self.used += nbytes
            return True

    def give(self, nbytes: int) -> None:
        with self._lock:
            self.used -= nbytes


class HostBuffer:
    """Device memory: ``nbytes`` at ``address``, aligned to 256 bytes, not initialised."""

    def __init__(self, device: HostDevice, address: int, nbytes: int, pooled: bool) -> None:
        self.device: Device = device
        self._owner = device
        self.nbytes = nbytes
        self.pooled = pooled
        self.live = True
        self._address = address

    @property
    def address(self) -> int:
        """Raises ``BackendError`` when the buffer was freed."""
        if not self.live:
            raise BackendError(f"a buffer of {self.nbytes} bytes was used after it was freed")
        return self._address

    def span(self, offset: int, nbytes: int) -> int:
        """The address of ``nbytes`` from ``offset`` on. Raises ``BackendError`` when they do not lie inside."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise BackendError(f"{nbytes} bytes at offset {offset} do not lie within a buffer of {self.nbytes} bytes")
        return self.address + offset

    def free(self) -> None:
        """Waits for the device's queued work first, as ``cudaFree`` does."""
        self._owner.release_buffer(self)


class Heap:
    """One device's memory: live buffers, and the pool's blocks that wait for reuse."""

    def __init__(self, device: HostDevice, budget: Budget) -> None:
        self._device = device
        self._budget = budget
        self._live: dict[int, HostBuffer] = {}
        self._cached: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self._reuse = not sanitized()  # a block used after it was freed must stay unmapped to be found

    def allocate(self, nbytes: int, pooled: bool = False) -> HostBuffer:
        """Raises ``OutOfMemory`` with the bytes asked for and free."""
        if nbytes < 0:
            raise BackendError(f"cannot allocate {nbytes} bytes")
        with self._lock:
            waiting = self._cached.get(nbytes) if pooled else None
            address = waiting.pop() if waiting else self._fresh(nbytes)
            buffer = HostBuffer(self._device, address, nbytes, pooled)
            self._live[address] = buffer
        return buffer

    def _fresh(self, nbytes: int) -> int:
        if not self._budget.take(nbytes):
            self._trim()
            if not self._budget.take(nbytes):
                raise self._out_of_memory(nbytes)
        address = ctypes.c_void_p()
        if _libc.posix_memalign(ctypes.byref(address), ALIGNMENT, max(nbytes, 1)) != 0 or not address.value:
            self._budget.give(nbytes)
            raise self._out_of_memory(nbytes)
        if nbytes >= HUGE and _madvise is not None and not sanitized():
            start = -(-address.value // 4096) * 4096
            _madvise(start, (address.value + nbytes - start) // 4096 * 4096, _MADV_HUGEPAGE)  # advice may be refused
        return address.value

    def _out_of_memory(self, nbytes: int) -> OutOfMemory:
        return OutOfMemory(
            f"host device {self._device.info.ordinal}: {nbytes} bytes asked for, {self._budget.free()} bytes free "
            "(all virtual devices share the machine's memory)"
        )

    def forget(self, buffer: HostBuffer) -> None:
        """Marks the buffer as freed; its memory stays until ``give_back``."""
        if buffer.device is not self._device:
            raise BackendError(f"the buffer belongs to host device {buffer.device.info.ordinal}")
        with self._lock:
            del self._live[buffer.address]
            buffer.live = False

    def give_back(self, address: int, nbytes: int, pooled: bool) -> None:
        """Returns the memory of a forgotten buffer to the pool or the system."""
        with self._lock:
            if pooled and self._reuse:
                self._cached.setdefault(nbytes, []).append(address)
            else:
                _libc.free(address)
                self._budget.give(nbytes)

    def trim(self) -> None:
        """Returns the pool's waiting blocks to the system: what CUDA's pool does by default at a synchronisation."""
        if self._cached:
            with self._lock:
                self._trim()

    def _trim(self) -> None:
        for nbytes, addresses in self._cached.items():
            for address in addresses:
                _libc.free(address)
                self._budget.give(nbytes)
        self._cached.clear()

    def close(self) -> None:
        """Frees everything that is left."""
        for buffer in list(self._live.values()):
            address = buffer.address
            self.forget(buffer)
            self.give_back(address, buffer.nbytes, pooled=False)
        self.trim()


class PageLocked:
    """Which arrays count as page-locked: plain NumPy memory here, remembered by address."""

    def __init__(self) -> None:
        self._ranges: dict[int, int] = {}

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        made: npt.NDArray[Any] = np.empty(shape, dtype)
        start = made.ctypes.data
        self._ranges[start] = start + made.nbytes
        weakref.finalize(made, self._ranges.pop, start, None)
        return made

    def contains(self, array: npt.NDArray[Any]) -> bool:
        start = array.ctypes.data
        return any(low <= start and start + array.nbytes <= high for low, high in tuple(self._ranges.items()))
