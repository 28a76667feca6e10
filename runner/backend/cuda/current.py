"""Which device's context is current. Contexts belong to the thread that opened the device."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from runner.backend.base import BackendError
from runner.backend.cuda.libraries import Libraries


@cache
def current_of(libraries: Libraries) -> Current:
    """The one record of what is current, shared by every backend of the process."""
    return Current(libraries)


class Current:
    """PyCUDA refuses a context outside its own thread, so all work stays in one thread."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._thread = threading.get_ident()
        self._context: Any = None

    def use(self, context: Any) -> None:
        """Makes ``context`` current; costs nothing when it already is."""
        if threading.get_ident() != self._thread:
            raise BackendError("a CUDA device was used outside the thread that opened it")
        if context is self._context:
            return
        if self._context is not None:
            self._libraries.pycuda.Context.pop()
            self._context = None
        context.push()
        self._context = context

    def release(self, context: Any) -> None:
        """Gives a retained primary context back; its memory goes with the last holder."""
        self.use(context)
        context.detach()
        # Detaching releases the context but leaves it on the driver's stack of this thread.
        self._libraries.bindings.cuCtxPopCurrent()
        self._context = None
