"""How far two runs of the same differ: what their samples show, and what a single process cannot see of itself.

Where memory lies, how full the GPU is, its temperature and clocks are drawn anew by each process, and stay for all its
samples: the interval of a median knows nothing of them. Trials in processes of their own show this spread; without
them one is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runner.verdict.model import Measured, Pair

Z95 = 1.959963984540054
"""Half the width of a 95 % interval, in standard errors of a normal distribution."""

MEDIAN_OF_NORMAL = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, for many normal values; of two values they are the same."""

CHANGED_CLOCK = 0.005
"""Clocks whose ratio is within this of 1 are one clock: a GPU at full load moves by one step of 15 MHz in 1,980."""


@dataclass(frozen=True)
class Floor:
    """Differences between two runs of the same, at 95 %."""

    assumed: float
    """Without trials, relative to the time."""
    assumed_us: float
    """Without trials, what a time of any length differs by, in microseconds; the two add up as variances do."""
    least: float
    """With trials, relative: those of one command share what changes from one command to the next, hour and
    temperature."""

    def between(self, time_us: float) -> float:
        """``assumed`` and ``assumed_us`` of a time, relative to it."""
        return math.hypot(self.assumed, self.assumed_us / time_us)


GPU = Floor(assumed=0.003, assumed_us=0.3, least=0.002)
"""A GPU's own clock. Over ten processes on an H200 the medians of a cold kernel, ours and NVBench's alike, lay within
0.2 us where it takes 5 to 40 us, and within 0.1 % where it takes 240 to 500 us (benchmarks/nvbench_h200), so that two
of them differ by up to 0.2 us; half as much again is for other days."""
HOST_CLOCK = Floor(assumed=0.05, assumed_us=0.0, least=0.02)
"""What the host does beside a GPU, and whole programs."""
CPU = Floor(assumed=0.5, assumed_us=0.0, least=0.3)
"""Kernels on a CPU, which others may use too. Of seven commands one after another on two cores of a shared machine the
times lay up to 55 % apart, in phases that a process lies within, and at times all trials of a command: the five of one
took 8.8 to 10.1 ms, the five of another 6.9 to 7.2 ms."""


@dataclass(frozen=True)
class Noise:
    """Of pairs, an entry for each; relative to the time."""

    error: npt.NDArray[np.float64]
    """Standard error of the difference; NaN where nothing gives one."""
    freedom: npt.NDArray[np.float64]
    """Its degrees of freedom; infinite where it is not estimated from trials."""
    between: npt.NDArray[np.float64]
    """Part of the error that is not in the samples' own intervals."""


def noise(pairs: list[Pair]) -> Noise:
    """Of pairs that have times on both sides, on one backend each."""
    rows = [_row(pair) for pair in pairs]
    error, freedom, between = np.array(rows, dtype=np.float64).reshape(len(rows), 3).T
    return Noise(error, freedom, between)


def floor_of(one: Measured) -> Floor:
    if one.backend == "host":
        return CPU
    return GPU if one.method.startswith("cuda_events") else HOST_CLOCK


def relative_error(one: Measured) -> float:
    """Standard error of the logarithm of ``time_us``, from its interval; NaN without one."""
    if not one.low or not one.high or one.low <= 0:
        return math.nan
    return math.log(one.high / one.low) / (2 * Z95)


@dataclass(frozen=True)
class _Side:
    between: float
    error: float
    """With what the samples show."""
    of_trials: float = 0.0
    """The part that is estimated, from so few values that it is itself uncertain."""
    trials: int = 1


def _row(pair: Pair) -> tuple[float, float, float]:
    floor = floor_of(pair.candidate)
    both = (pair.baseline, pair.candidate)
    sides = [_side(one, other, floor) for one, other in zip(both, reversed(both), strict=True)]
    error = math.hypot(*(side.error for side in sides))
    # Welch and Satterthwaite; what is assumed, or comes from many samples, has no end of freedom.
    estimated = [side for side in sides if side.of_trials]
    parts = sum(side.of_trials**4 / (side.trials - 1) for side in estimated)
    if estimated and any(one.trials < 3 or _of_trials(one) is None for one in both):
        # One estimate for both sides, or one of two values, to which that approximation gives too much freedom.
        fewest = min(side.trials for side in estimated)
        parts = math.hypot(*(side.of_trials for side in estimated)) ** 4 / (fewest - 1)
    return error, error**4 / parts if parts else math.inf, math.hypot(*(side.between for side in sides))


def _of_trials(one: Measured) -> float | None:
    """How far the medians of its trials lie apart, relative; None of a single process."""
    return one.trials_rsd if one.trials >= 2 else None


def _side(one: Measured, other: Measured, floor: Floor) -> _Side:
    """A floor is of a difference: each side has half of its variance. A side of one process differs by what is assumed,
    or by more where the ``other`` one's trials show more."""
    own, seen = _of_trials(one), _of_trials(other)
    if own is None:
        assumed = floor.between(one.time_us or math.inf) / Z95 / math.sqrt(2)
        if seen is not None and seen > assumed:
            return _Side(seen, math.hypot(relative_error(one), seen), seen, other.trials)
        return _Side(assumed, math.hypot(relative_error(one), assumed))
    # The spread of trials holds what their samples show, too.
    spread = (MEDIAN_OF_NORMAL if one.trials > 2 else 1.0) * own / math.sqrt(one.trials)
    # Two trials that agree by chance are no better than the mean of two of which nothing is known.
    alone = floor.between(one.time_us or math.inf) / math.sqrt(2) if one.trials == 2 else 0.0
    between = math.hypot(spread, max(floor.least, alone) / Z95 / math.sqrt(2))
    return _Side(between, between, spread, one.trials)
