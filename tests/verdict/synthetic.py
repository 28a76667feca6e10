"""Measurements of known truth: series drawn with a seed, summarised as a result's are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.result.model import Quality, Status
from runner.result.statistics import summarise
from runner.verdict.model import Measured

Array = npt.NDArray[np.float64]


def measured(samples: Sequence[float] | Array, context: int = 4096, **changes: Any) -> Measured:
    """A run on a GPU whose main series this is."""
    summary = summarise(list(samples))
    values: dict[str, Any] = {
        "configuration": (("T", str(context)), ("kernel", "kv_quant"), ("variant", "q8")),
        "kernel": "kv_quant",
        "variant": "q8",
        "backend": "cuda",
        "status": Status.PASSED,
        "device": "NVIDIA H200",
        "method": "cuda_events",
        "mode": "cold",
        "quality": Quality.OK,
        "flags": summary.flags,
        "time_us": summary.median,
        "low": summary.median_low,
        "high": summary.median_high,
        "q1": summary.q1,
        "q3": summary.q3,
        "samples": summary.count,
    }
    return Measured(**(values | changes))


def series(random: np.random.Generator, kind: str, noise: float, count: int = 40, level: float = 100.0) -> Array:
    """Samples round ``level`` whose relative spread is about ``noise``."""
    drawn = {
        "normal": lambda: random.normal(0, 1, count),
        "lognormal": lambda: (random.lognormal(0, 0.5, count) - 1) / 0.6,
        "heavy": lambda: random.standard_t(2, count),
    }[kind]()
    return np.asarray(level * (1 + noise * drawn), dtype=np.float64)
