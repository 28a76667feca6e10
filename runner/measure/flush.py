"""Emptying the caches between samples."""

from __future__ import annotations

from runner.backend.base import Buffer, Device, Stream

UNKNOWN_L2_BYTES = 128 << 20
"""Assumed where the cache's size is not known: as large as any GPU's."""

HOST_CAP_BYTES = 64 << 20
"""Most that is flushed on host: one core writes some 10 GB/s, and a larger cache is shared by a server."""


class Flusher:
    """Owns a buffer of twice the last-level cache and overwrites it; ``nbytes`` says how large it is.

    Make it after the inputs were written, and free it with ``close``. Raises ``OutOfMemory``.
    """

    def __init__(self, device: Device, l2_bytes: int = 0) -> None:
        """``l2_bytes`` 0 means what the device says about itself."""
        nbytes = 2 * (l2_bytes or device.info.l2_bytes or UNKNOWN_L2_BYTES)
        if device.info.backend == "host":
            nbytes = min(nbytes, HOST_CAP_BYTES)
        self.nbytes = nbytes
        self._buffer: Buffer | None = device.allocate(nbytes)

    def flush(self, stream: Stream) -> None:
        """Enqueues the overwriting; nothing waits for it."""
        if self._buffer is None:
            raise RuntimeError("the flush buffer is closed")
        stream.fill(self._buffer, 0)

    def close(self) -> None:
        """Frees the buffer; a second call does nothing."""
        if self._buffer is not None:
            self._buffer.free()
            self._buffer = None
