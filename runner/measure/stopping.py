"""When a series has enough samples: one class per criterion, and ``Stopper``, which asks them all."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from runner.measure.settings import MeasureSettings


@dataclass
class Progress:
    """A series so far; mean and spread are kept up to date sample by sample (Welford)."""

    count: int = 0
    device_s: float = 0.0
    """Time under measurement: every step of every sample."""
    wall_s: float = 0.0
    """Time since the series began, flushes and waiting included."""
    mean_us: float = 0.0
    _squares: float = 0.0

    def add(self, sample_us: float, steps: int, wall_s: float) -> None:
        self.count += 1
        self.device_s += sample_us * steps * 1e-6
        self.wall_s = wall_s
        change = sample_us - self.mean_us
        self.mean_us += change / self.count
        self._squares += change * (sample_us - self.mean_us)

    @property
    def rsd(self) -> float:
        """Relative standard deviation, Bessel-corrected; infinite below two samples, 0 when all are zero."""
        if self.count < 2:
            return math.inf
        if self.mean_us == 0:
            return 0.0 if self._squares == 0 else math.inf
        return math.sqrt(max(0.0, self._squares) / (self.count - 1)) / abs(self.mean_us)


class Criterion(Protocol):
    """One reason to stop. ``met`` is asked exactly once after every sample."""

    reason: str

    def met(self, progress: Progress) -> bool: ...


@dataclass
class FixedCount:
    """Exactly so many samples."""

    count: int
    reason: str = "fixed"

    def met(self, progress: Progress) -> bool:
        return progress.count >= self.count


@dataclass
class MaxSamples:
    """No more than so many samples."""

    count: int
    reason: str = "max_samples"

    def met(self, progress: Progress) -> bool:
        return progress.count >= self.count


@dataclass
class WallClock:
    """The hard limit."""

    limit_s: float
    reason: str = "max_time"

    def met(self, progress: Progress) -> bool:
        return progress.wall_s >= self.limit_s


@dataclass
class RelativeDeviation:
    """The spread is small enough, over enough samples and enough measured time."""

    max_rsd: float
    min_samples: int
    min_time_s: float
    reason: str = "rsd"

    def met(self, progress: Progress) -> bool:
        if progress.count < self.min_samples or progress.device_s < self.min_time_s:
            return False
        return progress.rsd <= self.max_rsd


class SettledNoise:
    """The spread stays above the limit, but no longer changes: more samples would not tell more.

    The spread after each sample goes into a window; the series has settled when the window's own relative
    deviation is below ``tolerance``. The minimum time is wall-clock time here: a kernel of a few microseconds
    would otherwise need minutes of flushing to add up to it.
    """

    WINDOW = 512
    """Spreads looked at."""
    MIN_SPREADS = 64
    """More than this many must be there."""
    EVERY = 16
    """Samples between two looks."""

    def __init__(self, tolerance: float, min_samples: int, min_time_s: float) -> None:
        self.reason = "settled"
        self._tolerance = tolerance
        self._min_samples = min_samples
        self._min_time_s = min_time_s
        self._spreads: deque[float] = deque(maxlen=self.WINDOW)

    def met(self, progress: Progress) -> bool:
        spread = progress.rsd
        if not math.isfinite(spread):
            return False
        self._spreads.append(spread)
        if progress.count < self._min_samples or progress.wall_s < self._min_time_s:
            return False
        if len(self._spreads) <= self.MIN_SPREADS or progress.count % self.EVERY:
            return False
        window = np.fromiter(self._spreads, np.float64)
        return bool(window.std(ddof=1) <= self._tolerance * window.mean())


class Stopper:
    """The criteria of one series. Time starts when it is made."""

    TIME = "max_time"
    """The reason when ``out_of_time`` ends a series."""

    def __init__(self, settings: MeasureSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limit_s = settings.max_time_s
        self._begin = clock()
        self._progress = Progress()
        self._criteria = criteria(settings)

    @property
    def wall_s(self) -> float:
        """Seconds since the series began."""
        return self._clock() - self._begin

    @property
    def out_of_time(self) -> bool:
        """Whether the hard limit has come; for what takes time and is no sample."""
        return self.wall_s >= self._limit_s

    def stop(self, sample_us: float, steps: int = 1) -> str | None:
        """Takes a sample (time of one step, the mean of ``steps``) and gives the reason to stop, or None."""
        self._progress.add(sample_us, steps, self.wall_s)
        met = [criterion.reason for criterion in self._criteria if criterion.met(self._progress)]
        return met[0] if met else None


def criteria(settings: MeasureSettings) -> list[Criterion]:
    """What ends a series under ``settings``, the reason to report first."""
    limit = WallClock(settings.max_time_s)
    if settings.fixed:
        return [FixedCount(settings.fixed), limit]
    return [
        RelativeDeviation(settings.max_rsd, settings.min_samples, settings.min_time_s),
        SettledNoise(settings.settled, settings.min_samples, settings.min_time_s),
        MaxSamples(settings.max_samples),
        limit,
    ]
