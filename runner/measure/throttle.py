"""Which samples were taken while the clock was held down, and what becomes of them."""

from __future__ import annotations

from bisect import insort

from runner.measure.sm_clock import UNKNOWN

ENOUGH = 5
"""Clocks that must be known before their median says what is normal."""
ALWAYS = 10
"""So many may be dropped however few samples there are."""
SHARE = 0.5
"""And as many as this share of all that were taken."""


class Throttle:
    """Judges one series, sample by sample, by the clock of each.

    Normal is the clock that was locked, else the median over the samples that were kept and not slow. A slow sample is
    dropped until too many are; from then on it is kept and counted, so that a device which stays slow is measured as it
    is, and said to be.
    """

    def __init__(self, share: float, locked_mhz: float = 0.0) -> None:
        """``share``: below this part of the normal clock a sample is slow, 0 = none ever is. ``locked_mhz``: 0 = not
        locked."""
        self._share = share
        self._locked_mhz = locked_mhz
        self._normal: list[float] = []
        """Sorted: its middle is asked for at every sample."""
        self._taken = 0
        self.dropped = 0
        self.kept_slow = 0
        """Slow ones that were kept because too many had been dropped."""

    @property
    def normal_mhz(self) -> float:
        """``UNKNOWN`` while there are too few clocks to tell."""
        if self._locked_mhz:
            return self._locked_mhz
        return self._normal[len(self._normal) // 2] if len(self._normal) >= ENOUGH else UNKNOWN

    def slow(self, mhz: float) -> bool:
        """Whether the clock was held down; never for an unknown one."""
        return mhz != UNKNOWN and mhz < self._share * self.normal_mhz

    @property
    def may_drop(self) -> bool:
        """Whether another one may be dropped."""
        return self.dropped < max(ALWAYS, SHARE * self._taken)

    def drop(self) -> None:
        """A slow sample is left out."""
        self._taken += 1
        self.dropped += 1

    def keep(self, mhz: float) -> None:
        """A sample is kept, slow or not."""
        self._taken += 1
        if self.slow(mhz):
            self.kept_slow += 1
        elif mhz != UNKNOWN:
            insort(self._normal, mhz)
