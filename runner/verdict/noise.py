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
    """Relative differences between two runs of the same, at 95 %."""

    assumed: float
    """Without trials."""
    least: float
    """With trials: those of one command share what changes from one command to the next, hour and temperature."""


FLOORS = {"cuda": Floor(assumed=0.005, least=0.002), "host": Floor(assumed=0.05, least=0.02)}
"""``cuda``: NVBench calls two times on one GPU apart from a gap of 0.5 % on, and its counts of false alarms led there
(its issue 316). ``host``: a CPU that others use too, whose clock follows its load; see docs/comparing.md."""


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


def floor_of(backend: str) -> Floor:
    """What runs no kernels of ours, a program of the user, is timed as a host is."""
    return FLOORS.get(backend, FLOORS["host"])


def relative_error(one: Measured) -> float:
    """Standard error of the logarithm of ``time_us``, from its interval; NaN without one."""
    if not one.low or not one.high or one.low <= 0:
        return math.nan
    return math.log(one.high / one.low) / (2 * Z95)


def _row(pair: Pair) -> tuple[float, float, float]:
    sides = (pair.baseline, pair.candidate)
    floor = floor_of(pair.candidate.backend)
    spreads = [_of_trials(one) for one in sides]
    if None not in spreads:
        first, second = (spread for spread in spreads if spread is not None)
        error = math.hypot(first, second, floor.least / Z95)
        parts = sum(
            spread**4 / (one.trials - 1) for spread, one in zip((first, second), sides, strict=True)
        )  # Welch and Satterthwaite; what is assumed has no end of freedom
        return error, error**4 / parts if parts else math.inf, error
    between = floor.assumed / Z95
    error = math.hypot(*(relative_error(one) for one in sides), between)
    return error, math.inf, between


def _of_trials(one: Measured) -> float | None:
    """Standard error of a median of trials; None without trials. It holds what the samples show, too."""
    if one.trials < 2 or one.trials_rsd is None:
        return None
    return (MEDIAN_OF_NORMAL if one.trials > 2 else 1.0) * one.trials_rsd / math.sqrt(one.trials)
