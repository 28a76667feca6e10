"""Emptying the caches between samples."""

from __future__ import annotations

import numpy as np

from runner.backend.base import Buffer, Device, Function, Stream
from runner.plan.memory import flush_bytes

FUNCTION = "flush_kernel"
"""In ``cuda_src/common/flush.cu``: reads a buffer and keeps nothing."""

BLOCK = 256
BLOCKS_PER_SM = 8
"""With ``BLOCK`` the 2048 threads that an SM holds."""
_LOAD_BYTES = 16
"""What a thread of ``flush_kernel`` reads at a time; also the size of its sink."""


class Flusher:
    """Owns a buffer of twice the last-level cache and reads it; ``nbytes`` says how large it is.

    Reading leaves clean lines behind. Overwriting would leave dirty ones, whose way to memory is then charged to
    the kernel that is measured. Make it after the inputs were written, and free it with ``close``. Raises
    ``OutOfMemory``.
    """

    def __init__(self, device: Device, function: Function, stream: Stream) -> None:
        """``function`` is ``FUNCTION``, loaded on ``device``; ``stream`` zeroes the buffer."""
        info = device.info
        self.nbytes = flush_bytes(info.l2_bytes, info.backend)
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
