"""Holding a stream: it waits for a word in host memory, which the host writes to let it go.

Three things would make a held stream wait forever, and each is prevented. A call that waits for the device is
refused. A full launch queue blocks the next launch, so the stream is released after ``QUEUE_LIMIT`` commands.
Anything else is ended by a watchdog after ``LIMIT_S``.
"""

from __future__ import annotations

import threading
import time
import weakref

import numpy as np
import numpy.typing as npt

from runner.backend.base import BackendError

LIMIT_S = 30.0
"""A stream is held for microseconds; after this long something is wrong."""

QUEUE_LIMIT = 512
"""Commands queued behind a hold. A channel takes 1024; by then latency has long been hidden."""

PEER_COPY = 8
"""Commands that a copy between two devices counts for: it queues signals of its own, and a few hundred behind a hold
block the next one."""


class Word:
    """The host word one stream waits for. It only grows: hold *n* waits for *n* and sees no old release."""

    def __init__(self, value: npt.NDArray[np.uint32], address: int) -> None:
        self._value = value
        self.address = address
        """As the device sees it."""
        self.target = 0
        self.since: float | None = None
        """When the hold began; None while not held."""
        self.expired = False

    def arm(self) -> int:
        """The value to wait for."""
        self.target = (self.target + 1) & 0x7FFFFFFF
        self.expired = False
        self.since = time.monotonic()
        return self.target

    def let_go(self) -> None:
        """Lets the stream go; it counts as held until ``open``."""
        self._value[0] = self.target

    def open(self) -> None:
        """Lets the stream go; also right when it already is."""
        self._value[0] = self.target
        self.since = None

    def expire(self, now: float, limit_s: float) -> None:
        """Opens a word that has been held for too long; called by the watchdog."""
        since = self.since
        if since is not None and now - since > limit_s:
            self.expired = True
            self._value[0] = self.target


_EVERY: weakref.WeakSet[Holds] = weakref.WeakSet()
"""Of every device of this process."""


class Holds:
    """All held streams of one device."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._held: list[Word] = []
        self._commands = 0
        self._words: weakref.WeakSet[Word] = weakref.WeakSet()
        self._watchdog: threading.Thread | None = None
        self._stop = threading.Event()
        _EVERY.add(self)

    @property
    def active(self) -> bool:
        return bool(self._held)

    def begin(self, word: Word) -> int:
        """Registers a hold and returns the value the stream must wait for."""
        self._words.add(word)
        if self._watchdog is None:
            self._watchdog = threading.Thread(target=self._watch, name="hold-watchdog", daemon=True)
            self._watchdog.start()
        if not self._held:
            self._commands = 0
        self._held.append(word)
        return word.arm()

    def command(self, count: int = 1) -> None:
        """Counts what is queued on the device; the command that would fill the queue releases every hold, those of
        other devices too: what the full queue waits for may be behind one of them."""
        self._commands += count
        if self._commands >= QUEUE_LIMIT:
            for holds in list(_EVERY):
                holds.open()

    def open(self) -> None:
        """Releases every hold of this device."""
        for word in self._held:
            word.open()
        self._held.clear()

    def end(self, word: Word) -> None:
        """Releases one hold. Raises ``BackendError`` when the watchdog had to."""
        self.drop(word)
        if word.expired:
            word.expired = False
            raise BackendError(
                f"a stream was held for more than {self._limit_s:g} s and had to be released: "
                "a step waited for the device while its stream was held"
            )

    def drop(self, word: Word) -> None:
        """Releases one hold, whatever happened meanwhile."""
        word.open()
        if word in self._held:
            self._held.remove(word)

    def refuse(self, doing: str) -> None:
        """Raises ``BackendError`` where ``doing`` would wait for the device while a stream is held."""
        if self._held:
            raise BackendError(f"cannot {doing} while a stream is held: it would wait forever; release it first")

    def close(self) -> None:
        self.open()
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(self._limit_s / 6):
            now = time.monotonic()
            for word in list(self._words):
                word.expire(now, self._limit_s)
