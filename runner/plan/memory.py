"""Device memory an experiment needs, and refusing what does not fit."""

from __future__ import annotations

from runner.plan import dtypes
from runner.plan.errors import TooLarge
from runner.plan.model import BackendName, Buffer, Plan

UNKNOWN_L2_BYTES = 128 << 20
"""Assumed where the cache's size is not known: as large as any GPU's."""
HOST_FLUSH_BYTES = 64 << 20
"""Most that is flushed on host: one core reads some 10 GB/s, and a larger cache is shared by a server."""
RESERVE = 0.05
"""Share of the device's memory left to the driver, the context and fragmentation."""


def nbytes(buffer: Buffer) -> int:
    """Size of an array in bytes."""
    return buffer.elements * dtypes.itemsize(buffer.dtype)


def flush_bytes(l2_bytes: int, backend: BackendName) -> int:
    """Size of the buffer whose reading empties the caches: twice the last-level cache (0 = its size is unknown)."""
    size = 2 * (l2_bytes or UNKNOWN_L2_BYTES)
    return min(size, HOST_FLUSH_BYTES) if backend == "host" else size


def memory_bytes(plan: Plan, device: int = 0) -> int:
    """What the experiment allocates on one of its devices: its buffers, and the flush buffer."""
    arrays = sum(nbytes(buffer) for buffer in _buffers(plan) if buffer.device == device)
    return arrays + flush_bytes(plan.target.l2_bytes, plan.target.backend)


def _buffers(plan: Plan) -> tuple[Buffer, ...]:
    """With those of what stands beside it."""
    return (*plan.buffers, *(plan.companion.buffers if plan.companion else ()))


def check_memory(plan: Plan) -> None:
    """Raises ``TooLarge`` when a device's memory, as far as known, is too small; names the largest buffer."""
    if not plan.target.memory_bytes:
        return
    available = int(plan.target.memory_bytes * (1 - RESERVE))
    for index in range(len(plan.devices)):
        needed = memory_bytes(plan, index)
        if needed > available:
            largest = max((buffer for buffer in _buffers(plan) if buffer.device == index), key=nbytes, default=None)
            what = f"; the largest buffer is {largest.name} {list(largest.dims)} {largest.dtype}" if largest else ""
            name = plan.target.title or plan.target.name
            raise TooLarge(
                "memory",
                f"{needed / 2**30:.1f} GiB",
                f"{name} has {available / 2**30:.1f} GiB usable{what}. "
                "Reduce batch or context, or choose fewer variants",
            )
