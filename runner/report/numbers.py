"""Figures as text: units that fit, as many digits as the figure deserves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from runner.result.model import Result
from runner.result.statistics import INTERVAL_SAMPLES

NONE = "–"
"""Shown where there is no figure."""
BEYOND_RIDGES = 2000.0
"""FLOP per byte: no device's roofs meet above it (B200: 9 PFLOP/s of float4 over 8 TB/s are 1125)."""


def digits(value: float, count: int = 3) -> str:
    """``value`` with ``count`` significant digits; no exponent between 0.001 and a million.

    >>> digits(1234.5), digits(0.12345), digits(1.5e-9), digits(9.996)
    ('1234', '0.123', '1.50e-09', '10.0')
    """
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-3 <= size < 1e6:
        return f"{value:.{count - 1}e}"
    rounded = float(f"{size:.{count - 1}e}")  # 9.996 becomes 10.0: it has a place more before the point
    return f"{value:.{max(0, count - 1 - math.floor(math.log10(rounded)))}f}"


def error(value: float | None) -> str:
    """An error figure: ``1.2e-07``, ``0`` or nothing.

    >>> error(1.234e-7), error(0.0), error(None)
    ('1.2e-07', '0', '–')
    """
    if value is None:
        return NONE
    return "0" if value == 0 else f"{value:.1e}"


def time(microseconds: float) -> str:
    """A time in the unit that fits.

    >>> time(0.5), time(12.345), time(12345.0), time(2.5e6)
    ('0.500 µs', '12.3 µs', '12.3 ms', '2.50 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{digits(microseconds / size)} {unit}"
    return f"{digits(microseconds)} µs"


def size(count: float) -> str:
    """Bytes in decimal units, as bandwidths are.

    >>> size(268435456), size(131072.0), size(0)
    ('268.4 MB', '131.1 kB', '0 B')
    """
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} TB"


def spread(result: Result) -> str:
    """``12.3 µs ±0.4%``: the median and the relative spread of its samples, or of its trials where that is larger. Of
    too few samples for an interval their number, ``16.0 ms (n=2)``: how far these lie apart says little."""
    value = result.metrics.get("time_us")
    if value is None:
        return NONE
    samples = result.metrics.get("samples", math.inf)
    if samples < INTERVAL_SAMPLES and "trials" not in result.metrics:
        return f"{time(value)} (n={samples:.0f})"
    spreads = [result.metrics[name] for name in ("time_us_rsd", "time_us_trials_rsd") if name in result.metrics]
    return f"{time(value)} ±{100 * max(spreads):.1f}%" if spreads else time(value)


def bound(result: Result) -> str:
    """What the diagnosis says it is bound by, or else the roof that is nearer; empty where neither is known."""
    return result.diagnosis.bound.replace("_", " ") or _roof(result)


def _roof(result: Result) -> str:
    """``memory`` or ``compute``: the roof that is nearer; empty where one of them is unknown."""
    bandwidth = result.metrics.get("pct_peak_bandwidth")
    flops = result.metrics.get("pct_peak_flops")
    if bandwidth is None or flops is None:
        return ""
    return "compute" if flops > bandwidth else "memory"


def rate(result: Result) -> str:
    """The rate that matters for the nearer roof, also where no peak says how near: ``1890 GB/s``, ``312 TFLOP/s``."""
    gbps, tflops = result.metrics.get("gbps"), result.metrics.get("tflops")
    roof = _roof(result) or ("compute" if result.metrics.get("intensity", 0.0) > BEYOND_RIDGES else "memory")
    if gbps is not None and (roof != "compute" or tflops is None):
        return f"{digits(gbps)} GB/s"
    return f"{digits(tflops)} TFLOP/s" if tflops is not None else NONE


def peak(result: Result) -> str:
    """Percent of the datasheet's peak: of the roof that is nearer."""
    return _of_nearer(result, "pct_peak")


def full_rate(found: Mapping[str, float], rate: str, percent: str) -> float:
    """The rate that the percentage is of, without the noise of the division; 0 when unknown."""
    achieved, share = found.get(rate), found.get(percent)
    return float(f"{100 * achieved / share:.9g}") if achieved and share else 0.0


def ceiling(result: Result) -> str:
    """Percent of what was measured on this device: of the roof that is nearer."""
    return _of_nearer(result, "pct_ceiling")


def _of_nearer(result: Result, prefix: str) -> str:
    known = [result.metrics[f"{prefix}_{of}"] for of in ("flops", "bandwidth") if f"{prefix}_{of}" in result.metrics]
    return f"{max(known):.1f}%" if known else NONE
