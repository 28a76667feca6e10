"""What a series of samples says: location, spread, tails, and what looks wrong with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

INTERVAL_SAMPLES = 6
"""Below it no pair of order statistics holds the median with 95 %: 2 x 0.5^5 is above 5 %."""
P95_SAMPLES = 20
"""Fewest samples for a 95th percentile: below, it would be the largest value by another name."""
P99_SAMPLES = 100

OUTLIER = 10.0
"""Robust z-score (distance from the median over 1.4826 MAD) above which a sample is an outlier."""

SCORE_FLOOR = 1e-3
"""Smallest spread assumed, as a share of the median: identical samples have a MAD of zero."""

FLAG_SAMPLES = 24
"""Fewest samples for the flags ``drift`` and ``bimodal``."""

BIMODAL_EXPLAINED = 0.85
"""Share of the variance that a split in two explains; normal 0.64, uniform 0.75, two clear modes near 1."""
BIMODAL_SHARE = 0.1
"""Least share of the samples in the smaller mode; fewer are outliers."""
BIMODAL_GAP = 0.02
"""Least distance of the modes as a share of the median: two ticks of the timer are no modes."""

DRIFT = 0.005
"""Least change between the first and the last third, as a share of the median."""
DRIFT_CORRELATION = 0.6
"""Least rank correlation of the samples with their order, and ..."""
DRIFT_SIGMAS = 3.5
"""... how many times its own standard deviation (1 / sqrt(n - 1) for noise) it must be."""


@dataclass(frozen=True)
class Summary:
    """Statistics of one series, in the unit of its samples."""

    count: int
    median: float
    mean: float
    min: float
    max: float
    q1: float
    q3: float
    rsd: float | None
    """Relative standard deviation, Bessel-corrected; None below two samples."""
    p95: float | None
    """None below ``P95_SAMPLES`` samples."""
    p99: float | None
    """None below ``P99_SAMPLES`` samples."""
    median_low: float | None
    """95 % confidence interval of the median from order statistics, whatever the distribution. None below
    six samples, which cannot give one."""
    median_high: float | None
    outliers: int
    flags: tuple[str, ...]
    """``first_outlier`` (more warm-up is needed), ``drift`` (clocks or temperature moved), ``bimodal``."""


def summarise(samples: Sequence[float]) -> Summary:
    """Summary of ``samples`` in the order they were taken. Raises ``ValueError`` without finite samples."""
    values = np.asarray(samples, np.float64)
    if values.size == 0:
        raise ValueError("no samples to summarise")
    if not np.isfinite(values).all():
        raise ValueError("samples to summarise must be finite")
    count, ordered = values.size, np.sort(values)
    low, q1, median, q3, p95, p99, high = (float(v) for v in np.percentile(ordered, (0, 25, 50, 75, 95, 99, 100)))
    scores = _scores(values, median)
    interval = _median_interval(ordered)
    return Summary(
        count=count,
        median=median,
        mean=float(values.mean()),
        min=low,
        max=high,
        q1=q1,
        q3=q3,
        rsd=_rsd(values),
        p95=p95 if count >= P95_SAMPLES else None,
        p99=p99 if count >= P99_SAMPLES else None,
        median_low=interval[0] if interval else None,
        median_high=interval[1] if interval else None,
        outliers=int(np.count_nonzero(scores > OUTLIER)),
        flags=_flags(values, ordered, median, scores),
    )


def _rsd(values: npt.NDArray[np.float64]) -> float | None:
    if values.size < 2:
        return None
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    return deviation / abs(mean) if mean else 0.0


def _scores(values: npt.NDArray[np.float64], median: float) -> npt.NDArray[np.float64]:
    """Robust z-scores, never negative."""
    distance = np.abs(values - median)
    spread = max(1.4826 * float(np.median(distance)), SCORE_FLOOR * abs(median), np.finfo(np.float64).tiny)
    return np.asarray(distance / spread, dtype=np.float64)


def _median_interval(ordered: npt.NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float] | None:
    """The innermost pair of order statistics, symmetric in rank, that holds the median with ``confidence``.

    The number of samples below the median is binomial with p = 1/2, whatever the distribution.
    """
    n = ordered.size
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    log_mass = log_factorial[n] - log_factorial - log_factorial[::-1] - n * math.log(2)
    below = np.cumsum(np.exp(log_mass))
    rank = int(np.searchsorted(below, (1 - confidence) / 2, side="right"))
    if rank == 0:
        return None
    return float(ordered[rank - 1]), float(ordered[n - rank])


def _flags(
    values: npt.NDArray[np.float64],
    ordered: npt.NDArray[np.float64],
    median: float,
    scores: npt.NDArray[np.float64],
) -> tuple[str, ...]:
    found = []
    lone = np.count_nonzero(scores > OUTLIER) < max(2, BIMODAL_SHARE * values.size)
    if values.size >= 3 and scores[0] > OUTLIER and values[0] > median and lone:
        found.append("first_outlier")
    if values.size >= FLAG_SAMPLES:
        if _drifts(values, median):
            found.append("drift")
        elif _bimodal(ordered, median):
            found.append("bimodal")
    return tuple(found)


def _drifts(values: npt.NDArray[np.float64], median: float) -> bool:
    """The samples rise or fall with their order, and by an amount that matters."""
    n = values.size
    first, last = thirds(values)
    if abs(last - first) <= DRIFT * abs(median):
        return False
    correlation = abs(float(np.corrcoef(_ranks(values), np.arange(n))[0, 1]))
    return correlation > max(DRIFT_CORRELATION, DRIFT_SIGMAS / math.sqrt(n - 1))


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """From 0; equal values share the mean of their ranks. Short times are a few ticks of the timer, and ranked in the
    order in which they were taken they would rise by themselves."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(count) - (count + 1) / 2)[place]
    return ranks


def thirds(values: npt.ArrayLike) -> tuple[float, float]:
    """Medians of the first and of the last third of a series, in the order in which it was taken."""
    taken = np.asarray(values, np.float64)
    third = max(1, taken.size // 3)
    return float(np.median(taken[:third])), float(np.median(taken[-third:]))


def _bimodal(ordered: npt.NDArray[np.float64], median: float) -> bool:
    """The best split of the samples in two explains nearly all of their variance, and both parts count."""
    if ordered[0] == ordered[-1]:
        return False
    found = modes(ordered)
    smaller = min(found.lower_share, 1 - found.lower_share)
    apart = found.upper - found.lower > BIMODAL_GAP * abs(median)
    return found.explained > BIMODAL_EXPLAINED and smaller >= BIMODAL_SHARE and apart


@dataclass(frozen=True)
class Modes:
    """A series split in two, where the split explains most of its variance."""

    lower: float
    """Mean of the lower part, in the unit of the samples."""
    upper: float
    lower_share: float
    """Share of the samples in the lower part, 0 to 1."""
    explained: float
    """Share of the variance that the split explains, 0 to 1."""


def modes(samples: npt.ArrayLike) -> Modes:
    """The best split of at least two samples that are not all equal."""
    ordered = np.sort(np.asarray(samples, np.float64))
    n = ordered.size
    total = float(((ordered - ordered.mean()) ** 2).sum())
    lower = np.arange(1, n)
    sums = np.cumsum(ordered)
    lower_mean = sums[:-1] / lower
    upper_mean = (sums[-1] - sums[:-1]) / (n - lower)
    between = lower * (n - lower) / n * (upper_mean - lower_mean) ** 2
    split = int(np.argmax(between))
    return Modes(
        lower=float(lower_mean[split]),
        upper=float(upper_mean[split]),
        lower_share=(split + 1) / n,
        explained=float(between[split]) / total,
    )
