"""How an experiment is measured: the ``measure`` group as a plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["cold", "hot", "graph", "host"]
"""``cold``: caches flushed before every sample. ``hot``: a batch back to back. ``graph``: a graph of many steps,
replayed, each step on other inputs. ``host``: the host's clock round a step and the wait for it."""


@dataclass(frozen=True)
class MeasureSettings:
    """Limits and modes of one experiment; ``runner.config.check`` has refused what cannot work.

    The defaults are those of the ``measure`` group, after NVBench's (0.5 % spread, 0.5 s, 15 s).
    """

    modes: tuple[Mode, ...] = ("cold", "hot")
    """Modes taken; a workload that waits for the device itself is always taken in ``host`` mode instead."""
    warmup: int = 1
    """Untimed steps first."""
    min_samples: int = 10
    max_samples: int = 100_000
    min_time_s: float = 0.5
    """Accumulated device time before the spread may stop the series."""
    max_time_s: float = 15.0
    """Hard limit in wall-clock seconds per variant and mode; always in force."""
    max_rsd: float = 0.005
    """Stop when the relative standard deviation falls below this (0.005 = 0.5 %)."""
    settled: float = 0.05
    """Or when the spread itself has settled: relative deviation of the last spreads below this."""
    fixed: int = 0
    """Exactly this many samples and no stopping rule; 0 = use the rules."""
    hide_latency: bool = True
    """Hold the stream while a cold sample is queued, so that launch latency stays outside the events."""
    hot_batch_time_s: float = 0.1
    """Device time one hot batch aims for."""
    graph_batch_time_s: float = 0.01
    """Device time one replay of a graph aims for."""
    throttle_share: float = 0.9
    """A cold sample is dropped where the SM clock was below this share of the median so far (of the locked clock, where
    it is locked), within limits; 0 = all are kept."""
    throttle_pause_s: float = 0.05
    """Rest of the GPU after a dropped sample."""
    lock_clocks: int = 0
    """MHz that the SM clock is locked to while the experiment runs; 0 = left as it is."""
