"""Several trials of one measurement, each from a process of its own: what they say together.

A process places its code and memory once, and all its samples share that: their spread does not show it. The trials'
medians do, so the interval of ``time_us`` comes from those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from runner.result.model import Series

CONFIDENCE = 0.95
_SUMMED = ("samples", "samples_dropped")
"""Counts over all trials; every other figure is the median of the trials'."""


def of_mode(series: Sequence[Series], mode: str) -> list[Series]:
    """The series of one mode that have samples: one for each trial, in order."""
    return [item for item in series if item.mode == mode and item.samples_us]


def over_trials(trials: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures of a measurement from those of each of its trials, ``time_us`` among them; one trial's are its own.

    A figure that a trial lacks (a percentile, of too few samples) is absent. The interval of the median is that of the
    trials' medians, and never narrower than the trials' own ones.
    """
    if len(trials) == 1:
        return dict(trials[0])
    names = [name for name in trials[0] if all(name in trial for trial in trials)]
    found = {name: (sum if name in _SUMMED else median)([trial[name] for trial in trials]) for name in names}
    medians = [trial["time_us"] for trial in trials]
    low, high = interval(medians)
    found["time_us_low"] = min(low, found.get("time_us_low", found["time_us"]))
    found["time_us_high"] = max(high, found.get("time_us_high", found["time_us"]))
    found["trials"] = float(len(trials))
    mean = fmean(medians)
    found["time_us_trials_rsd"] = stdev(medians) / mean if mean else 0.0
    return found


def interval(medians: Sequence[float]) -> tuple[float, float]:
    """95 % confidence interval of the typical time from two or more trials' medians: Student's t over their logarithms,
    since what differs between processes scales a time. A bootstrap of five values could only repeat those five, and
    is too narrow by far. Where a median is not above 0 it is the range.

    Student (W. S. Gosset), "The probable error of a mean", Biometrika 6 (1908).
    """
    if min(medians) <= 0:
        return min(medians), max(medians)
    import scipy.stats  # takes a second, and most measurements have one trial

    logs = [math.log(value) for value in medians]
    reach = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs) - reach), math.exp(fmean(logs) + reach)
