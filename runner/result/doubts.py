"""What a reader of the times should know, in words: one sentence for each thing that a series shows, with its figures.

Which flags there are, and from where on they are raised, is ``runner.result.statistics``'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from runner.result.model import Series
from runner.result.statistics import Summary, modes, summarise, thirds

CLOCK_MOVED = 0.02
"""Least distance of the 5th and the 95th percentile of the clock as a share of its median: beyond it the clock, not the
kernel, may be what a difference of times shows."""
_EXACT = "fixed"
"""Stop reason of a series for which no spread was asked."""


def series_doubts(series: Series, max_rsd: float) -> list[str]:
    """Of one series with samples; ``max_rsd`` is the relative spread that was asked for (0.005 = 0.5 %)."""
    summary = summarise(series.samples_us)
    found = [_WORDS[flag](series.samples_us, summary) for flag in summary.flags]
    found += _wide(series, summary, max_rsd)
    found += _clock(series.clock_mhz)
    return found


def _first_outlier(samples: Sequence[float], summary: Summary) -> str:
    return (
        f"the first sample took {us(samples[0])}, the median is {us(summary.median)}: a longer warm-up is needed "
        f"(measure.warmup=)"
    )


def _drift(samples: Sequence[float], summary: Summary) -> str:
    first, last = thirds(samples)
    moved = f"{'rose' if last > first else 'fell'} by {percent(abs(last / first - 1) if first else math.inf)}"
    return (
        f"the times {moved} within the series, from {us(first)} to {us(last)} (medians of its first and last third): "
        "clock or temperature moved meanwhile"
    )


def _bimodal(samples: Sequence[float], summary: Summary) -> str:
    found = modes(samples)
    return (
        f"the times lie round two values, {us(found.lower)} ({100 * found.lower_share:.0f} % of the samples) and "
        f"{us(found.upper)}: the median says nothing about the other one"
    )


_WORDS = {"first_outlier": _first_outlier, "drift": _drift, "bimodal": _bimodal}
"""A sentence for every flag."""


def _wide(series: Series, summary: Summary, max_rsd: float) -> list[str]:
    """The interval of the median is wider than the spread that was asked for."""
    low, high = summary.median_low, summary.median_high
    if low is None or high is None or series.stop_reason == _EXACT or not summary.median:
        return []
    half = (high - low) / 2 / summary.median
    if half <= max_rsd:
        return []
    return [
        f"the median is known to ±{percent(half)} only (95 % interval {us(low)} to {us(high)}), and "
        f"{percent(max_rsd)} was asked for: allow more samples (measure.max_time_s=, measure.min_samples=)"
    ]


def _clock(mhz: Sequence[float]) -> list[str]:
    if not mhz:
        return []
    low, median, high = (float(value) for value in np.percentile(mhz, (5, 50, 95)))
    if high - low <= CLOCK_MOVED * median:
        return []
    return [
        f"the SM clock moved between {low:.0f} and {high:.0f} MHz within the series: lock it for comparisons "
        "(nvidia-smi -lgc)"
    ]


def us(value: float) -> str:
    """Microseconds with four significant digits.

    >>> us(12.3456), us(1234567.0)
    ('12.35 µs', '1234567 µs')
    """
    return f"{value:.4g} µs" if abs(value) < 1e4 else f"{value:.0f} µs"


def percent(share: float) -> str:
    """A share as percent, two significant digits.

    >>> percent(0.005), percent(0.1234), percent(3.0)
    ('0.5 %', '12 %', '300 %')
    """
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
