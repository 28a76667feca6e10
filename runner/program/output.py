"""What a program writes, kept within limits: the beginning and the end, and what lies between is counted."""

from __future__ import annotations

import os
import re
import threading
from typing import IO

KEPT = 1 << 20
"""Bytes kept of the beginning, and again of the end."""
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 16


class Captured:
    """Reads a pipe to its end in a thread of its own, however much comes: a program never waits for its reader."""

    def __init__(self, pipe: IO[bytes], watch: str = "") -> None:
        """``watch``: regular expression; ``seen`` is set once a line matches."""
        self.seen = threading.Event()
        self._pipe = pipe
        self._watch = re.compile(watch) if watch else None
        self._line = b""
        self._head = bytearray()
        self._tail = bytearray()
        self._count = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the pipe's end was reached; a process that was left behind may hold it open."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def text(self) -> str:
        """All that was kept; what is not UTF-8 is replaced."""
        with self._lock:
            head, tail, count = bytes(self._head), bytes(self._tail[-KEPT:]), self._count
        left_out = count - len(head) - len(tail)
        if left_out:
            return f"{_decoded(head)}\n[{left_out} bytes left out]\n{_decoded(tail)}"
        return _decoded(head + tail)

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                with self._lock:
                    self._take(chunk)
                if self._watch is not None and not self.seen.is_set():
                    self._search(chunk)

    def _take(self, chunk: bytes) -> None:
        self._count += len(chunk)
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * KEPT:
            del self._tail[:-KEPT]

    def _search(self, chunk: bytes) -> None:
        assert self._watch is not None
        *lines, self._line = (self._line + chunk).split(b"\n")
        if any(self._watch.search(_decoded(line)) for line in [*lines, self._line]):
            self.seen.set()
        self._line = self._line[-_LONGEST_LINE:]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
