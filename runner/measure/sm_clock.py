"""The clock that a device's multiprocessors really ran at while a sample was taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runner.backend.base import Buffer, Device, Function, Stream

FUNCTION = "stamp_kernel"
"""In ``cuda_src/common/flush.cu``: writes time and cycles of one multiprocessor."""

UNKNOWN = 0.0
"""A clock that could not be read."""

_STAMPS = 2
_BYTES = _STAMPS * 2 * 8
"""Two stamps of two 64-bit words, nanoseconds and cycles."""
_SHORTEST_NS = 10_000
"""The device's timer moves in steps of up to a microsecond: over less than this the clock would be off by a tenth."""


class SmClock:
    """Mean clock of one device between two stamps on its stream: cycles over nanoseconds.

    The first stamp is queued before a sample's flush and the second one behind its stop event, so that neither is
    within what is timed. Free it with ``close``. Raises ``OutOfMemory``.
    """

    def __init__(self, device: Device, function: Function, stream: Stream) -> None:
        """``function`` is ``FUNCTION``, loaded on ``device``; ``stream`` zeroes the stamps."""
        self._function = function
        # A block for each multiprocessor: with a single one it would be up to the device which of them writes.
        self._grid = (max(1, device.info.sms), 1, 1)
        self._stamps: Buffer = device.allocate(_BYTES)
        self._arguments = tuple((self._stamps, np.int64(place)) for place in range(_STAMPS))
        self._seen = device.page_locked((_STAMPS, 2), np.uint64)
        self._seen[:] = 0
        self._last = self._seen.copy()
        stream.fill(self._stamps, 0)

    def begin(self, stream: Stream) -> None:
        """Queues the first stamp."""
        self._stamp(stream, 0)

    def end(self, stream: Stream) -> None:
        """Queues the second one, and the copying of both to the host."""
        self._stamp(stream, 1)
        stream.read(self._seen, self._stamps)

    def _stamp(self, stream: Stream, place: int) -> None:
        stream.launch(self._function, self._grid, (1, 1, 1), 0, self._arguments[place])

    def mhz(self) -> float:
        """Between the last two stamps, once the stream has been waited for; ``UNKNOWN`` where one of them was not
        written (no block came to that multiprocessor) or both are too close."""
        seen, before = self._seen.copy(), self._last
        self._last = seen
        if (seen[:, 0] == before[:, 0]).any():
            return UNKNOWN
        (begin_ns, begin_cycles), (end_ns, end_cycles) = (map(int, stamp) for stamp in seen)
        if end_ns - begin_ns < _SHORTEST_NS or end_cycles <= begin_cycles:
            return UNKNOWN
        return (end_cycles - begin_cycles) / (end_ns - begin_ns) * 1e3

    def close(self) -> None:
        """Frees the stamps."""
        self._stamps.free()


def slowest(clocks: Sequence[SmClock]) -> float:
    """Of several devices the lowest clock that is known: a sample is as long as the slowest device takes."""
    known = [mhz for mhz in (clock.mhz() for clock in clocks) if mhz != UNKNOWN]
    return min(known, default=UNKNOWN)
