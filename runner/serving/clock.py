"""What time it is for a server: the machine's, or one that only what is simulated moves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds from some moment; never goes back."""
        ...

    def wait_until(self, moment_s: float) -> None:
        """Returns when ``now()`` has come to that moment, or nearly."""
        ...


class RealClock:
    def now(self) -> float:
        return time.perf_counter()

    def wait_until(self, moment_s: float) -> None:
        time.sleep(max(0.0, moment_s - time.perf_counter()))


class VirtualClock:
    """Stands still but for what it is told."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def wait_until(self, moment_s: float) -> None:
        self._now_s = max(self._now_s, moment_s)

    def advance(self, seconds: float) -> None:
        """So long something has taken, 0 or more."""
        self._now_s += seconds
