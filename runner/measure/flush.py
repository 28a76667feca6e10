"""Emptying the caches between samples."""

from __future__ import annotations

import numpy as np

from runner.backend.base import Buffer, Device, Function, Stream

UNKNOWN_L2_BYTES = 128 << 20
"""Assumed where the cache's size is not known: as large as any GPU's."""

HOST_CAP_BYTES = 64 << 20
"""Most that is flushed on host: one core reads some 10 GB/s, and a larger cache is shared by a server."""

FUNCTION = "flush_kernel"
"""In ``cuda_src/common/flush.cu``: reads a buffer and keeps nothing."""

BLOCK = 256
BLOCKS_PER_SM = 8
_LOAD_BYTES = 16


def flush_bytes(l2_bytes: int, on_host: bool) -> int:
    """Size of the flush buffer: twice the last-level cache."""
    nbytes = 2 * (l2_bytes or UNKNOWN_L2_BYTES)
    return min(nbytes, HOST_CAP_BYTES) if on_host else nbytes


class Flusher:
    """Owns a buffer of twice the last-level cache and reads it; ``nbytes`` says how large it is.

    Reading leaves clean lines behind. Overwriting would leave dirty ones, whose way to memory is then charged to
    the kernel that is measured. Make it after the inputs were written, and free it with ``close``. Raises
    ``OutOfMemory``.
    """

    def __init__(self, device: Device, function: Function, stream: Stream, l2_bytes: int = 0) -> None:
        """``function`` is ``FUNCTION``, loaded on ``device``; ``l2_bytes`` 0 means what the device says itself."""
        info = device.info
        self.nbytes = flush_bytes(l2_bytes or info.l2_bytes, info.backend == "host")
        self._function = function
        self._grid = (max(1, BLOCKS_PER_SM * info.sms), 1, 1)
        self._buffer: Buffer | None = device.allocate(self.nbytes)
        self._sink = device.allocate(_LOAD_BYTES)
        stream.fill(self._buffer, 0)

    def flush(self, stream: Stream) -> None:
        """Enqueues the reading; nothing waits for it."""
        if self._buffer is None:
            raise RuntimeError("the flush buffer is closed")
        count = np.int64(self.nbytes // _LOAD_BYTES)
        stream.launch(self._function, self._grid, (BLOCK, 1, 1), 0, (self._buffer, count, self._sink))

    def close(self) -> None:
        """Frees the buffers; a second call does nothing."""
        if self._buffer is not None:
            self._buffer.free()
            self._sink.free()
            self._buffer = None
