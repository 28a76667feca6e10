"""What a reader of the times should know, in words: one sentence for each thing that a series shows, with its figures.

Which flags there are, and from where on they are raised, is ``runner.result.statistics``'s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runner.result.model import Series
from runner.result.statistics import Summary, modes, summarise, thirds
from runner.result.trials import interval

CLOCK_MOVED = 0.02
"""Least distance of the 5th and the 95th percentile of the clock as a share of its median: beyond it the clock, not the
kernel, may be what a difference of times shows."""
APART, APART_US = 0.03, 3.0
"""A second opinion may be off by this share of the time and so many microseconds: events also take the way between
themselves and the kernel, 2.3 to 2.6 us on an H200."""
_EXACT = "fixed"
"""Stop reason of a series for which no spread was asked."""


def series_doubts(trials: Sequence[Series], figures: Mapping[str, float], max_rsd: float) -> list[str]:
    """Of the series behind ``time_us``, one for each trial; ``figures`` are the metrics that follow from them, and
    ``max_rsd`` is the relative spread that was asked for (0.005 = 0.5 %)."""
    found: dict[str, list[tuple[int, str]]] = {}
    for item in trials:
        for kind, text in _shown(item).items():
            found.setdefault(kind, []).append((item.trial, text))
    said = [_of_trials(where, len(trials)) for where in found.values()]
    return said + (_wide(trials, figures, max_rsd) if trials else [])


def _shown(series: Series) -> dict[str, str]:
    """By what one series shows, a sentence."""
    summary = summarise(series.samples_us)
    said = {flag: _WORDS[flag](series.samples_us, summary) for flag in summary.flags}
    clock = _clock(series.clock_mhz)
    return {**said, "clock": clock} if clock else said


def _of_trials(where: Sequence[tuple[int, str]], count: int) -> str:
    """The first one's sentence, with the number of the trials that show the same."""
    trial, text = where[0]
    if count == 1:
        return text
    return f"in {len(where)} of {count} trials, trial {trial} the first: {text}"


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


def _wide(trials: Sequence[Series], figures: Mapping[str, float], max_rsd: float) -> list[str]:
    """The interval of the median is wider than the spread that was asked for."""
    time, low, high = (figures.get(name) for name in ("time_us", "time_us_low", "time_us_high"))
    if not time or low is None or high is None or all(item.stop_reason == _EXACT for item in trials):
        return []
    half = (high - low) / 2 / time
    if half <= max_rsd:
        return []
    more = "allow more samples (measure.max_time_s=, measure.min_samples=)"
    if len(trials) > 1:
        apart = f"the medians of {len(trials)} trials spread by {percent(figures.get('time_us_trials_rsd', 0.0))}"
        lower, upper = interval([float(np.median(item.samples_us)) for item in trials])
        if upper - lower < half * time:  # less than half of the whole: most of it is within each trial
            more = f"{apart}, each of them is less sure: {more}"
        else:
            more = f"{apart}; take more of them (measure.trials=)"
    return [
        f"the median is known to ±{percent(half)} only (95 % interval {us(low)} to {us(high)}), and "
        f"{percent(max_rsd)} was asked for: {more}"
    ]


def _clock(mhz: Sequence[float]) -> str:
    known = [value for value in mhz if value > 0]
    if not known:
        return ""
    low, median, high = (float(value) for value in np.percentile(known, (5, 50, 95)))
    if high - low <= CLOCK_MOVED * median:
        return ""
    return (
        f"the SM clock moved between {low:.0f} and {high:.0f} MHz within the series: lock it for comparisons "
        "(measure.lock_clocks=)"
    )


def crosscheck_doubt(time_us: float, seen_us: float, source: str) -> str:
    """Where the kernels' own records, which ``source`` has, tell another time than was measured; empty where both
    agree."""
    if abs(seen_us - time_us) <= APART * time_us + APART_US:
        return ""
    word = "more" if seen_us > time_us else "less"
    return (
        f"{source} {us(seen_us)} from the start of a step's first kernel to the end of its last, "
        f"{percent(abs(seen_us / time_us - 1))} {word} than the {us(time_us)} of time_us: one of them is wrong, the "
        "two processes differ, or a step is more than its kernels"
    )


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
