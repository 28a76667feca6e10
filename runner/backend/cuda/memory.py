"""Device memory, and memory of the libraries that must not be released at a bad moment."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from runner.backend.base import BackendError, Device


class CudaBuffer:
    """An allocation on one device. ``release`` gives it back, once."""

    def __init__(self, device: Device, address: int, nbytes: int, release: Callable[[CudaBuffer], None]) -> None:
        self.device = device
        self.nbytes = nbytes
        self._address = address
        self._release = release

    @property
    def address(self) -> int:
        """Device pointer. Raises ``BackendError`` after ``free``."""
        if self._address == 0:
            raise BackendError(f"a buffer of {self.nbytes} bytes was used after it was freed")
        return self._address

    def free(self) -> None:
        """Gives the memory back. A second call does nothing."""
        if self._address:
            self._release(self)

    def forget(self) -> int:
        """Marks the buffer freed and returns the address it had."""
        address, self._address = self.address, 0
        return address

    def span(self, offset: int, nbytes: int) -> int:
        """Address of byte ``offset``. Raises ``BackendError`` when ``nbytes`` from there do not fit."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise BackendError(f"{nbytes} bytes at offset {offset} do not fit a buffer of {self.nbytes} bytes")
        return self.address + offset


class Deferred:
    """Keeps natives (page-locked memory, loaded modules) alive past their Python owner, until ``sweep``.

    The garbage collector may drop an owner at any time, also while a stream is held; releasing the native
    then would wait for the device for ever.
    """

    def __init__(self) -> None:
        self._alive: dict[int, Any] = {}
        self._dead: list[int] = []
        self._next = 0

    def keep(self, owner: Any, native: Any) -> None:
        """``native`` lives until a ``sweep`` after ``owner`` is gone."""
        self._next += 1
        self._alive[self._next] = native
        weakref.finalize(owner, self._dead.append, self._next).atexit = False

    def sweep(self) -> None:
        """Releases what has no owner any more."""
        while self._dead:
            self._alive.pop(self._dead.pop(), None)

    def clear(self) -> None:
        self._alive.clear()
        self._dead.clear()
