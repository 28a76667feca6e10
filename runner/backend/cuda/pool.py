"""The device's memory pool: allocation in the order of a stream."""

from __future__ import annotations

from runner.backend.cuda.errors import Errors
from runner.backend.cuda.libraries import Libraries

KEEP_ALL = 2**64 - 1
"""Release threshold: memory freed to the pool stays there for the next allocation until ``trim``."""


class Pool:
    """The device's default pool, which PyCUDA does not know. Raises ``Unsupported`` where there is none."""

    def __init__(self, libraries: Libraries, errors: Errors, ordinal: int) -> None:
        self._bindings = libraries.bindings
        self._errors = errors
        self._pool = errors.check(self._bindings.cuDeviceGetDefaultMemPool(ordinal), "find the memory pool")
        attribute = self._bindings.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        value = self._bindings.cuuint64_t(KEEP_ALL)
        errors.check(self._bindings.cuMemPoolSetAttribute(self._pool, attribute, value), "set up the memory pool")

    def allocate(self, nbytes: int, stream: int) -> int:
        """Address of ``nbytes``, usable by what is queued on ``stream`` afterwards."""
        doing = f"allocate {nbytes} bytes from the memory pool"
        return int(self._errors.check(self._bindings.cuMemAllocAsync(nbytes, stream), doing))

    def free(self, address: int, stream: int) -> None:
        self._errors.check(self._bindings.cuMemFreeAsync(address, stream), "free memory to the pool")

    def trim(self) -> None:
        """Gives unused memory back to the device."""
        self._errors.check(self._bindings.cuMemPoolTrimTo(self._pool, 0), "trim the memory pool")
