"""How an experiment is measured: the ``measure`` group as a plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["cold", "hot", "host"]
"""``cold``: caches flushed before every sample. ``hot``: a batch back to back. ``host``: the host's clock
round a step that waits for the device itself."""


@dataclass(frozen=True)
class MeasureSettings:
    """Limits and modes; the defaults are NVBench's (cold, 0.5 % spread, 0.5 s, 15 s)."""

    name: str = "standard"
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

    def __post_init__(self) -> None:
        """Raises ``ValueError`` naming the key, its value and what is allowed."""
        unknown = [mode for mode in self.modes if mode not in get_args(Mode)]
        if unknown or not self.modes or len(set(self.modes)) < len(self.modes):
            allowed = ", ".join(get_args(Mode))
            raise ValueError(f"measure.modes={list(self.modes)}: must be one or more of {allowed}, each once")
        for key, floor in (
            ("warmup", 0),
            ("min_samples", 1),
            ("fixed", 0),
            ("min_time_s", 0),
            ("max_rsd", 0),
        ):
            self._require(key, getattr(self, key) >= floor, f"must be at least {floor}")
        self._require("settled", self.settled >= 0, "must be at least 0")
        self._require("max_time_s", self.max_time_s > 0, "must be above 0")
        self._require("hot_batch_time_s", self.hot_batch_time_s > 0, "must be above 0")
        least = f"must be at least measure.min_samples={self.min_samples}"
        self._require("max_samples", self.max_samples >= self.min_samples, least)

    def _require(self, key: str, holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(f"measure.{key}={getattr(self, key)}: {rule}")
