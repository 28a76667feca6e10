"""Rules on the section ``estimate``: what its keys may hold, and what goes together with ``kernel=estimate``."""

from __future__ import annotations

import math

from runner.config.errors import ConfigError
from runner.config.schema import Config, Estimate

MEASURED = "measured"
"""``estimate.efficiency`` by measured kernels."""
_LONGEST = 2**31 - 1
"""Tokens and sequences: beyond it no engine counts."""
_RANGES: dict[str, tuple[float, float]] = {
    "tensor": (1, 4096),
    "pipeline": (1, 4096),
    "expert": (1, 4096),
    "prefix_share": (0, 1),
    "speculative": (0, 1024),
    "acceptance": (0, 1),
    "chunk": (0, _LONGEST),
    "expert_skew": (0, 1),
    "layer_us": (0, 1e6),
    "all_reduce_us": (0, 1e6),
    "sequence_us": (0, 1e6),
    "reserve_gb": (0, 1e6),
    "ttft_ms": (0, 1e12),
    "tpot_ms": (0, 1e12),
}
"""Key → least and largest value."""
_ALONE = {"tensor": 1, "pipeline": 1, "expert": 1, "prefix_share": 0, "speculative": 0, "chunk": 0}
"""Key → the only value with ``efficiency=measured``."""
_SHARES = ("bandwidth", "compute", "memory_share")


def check_estimate(config: Config) -> None:
    """Raises ``ConfigError`` naming the key, the value and what is allowed."""
    for key in _RANGES:
        _check_range(config.estimate, key)
    for key in _SHARES:
        share = getattr(config.estimate, key)
        if not 0 < share <= 1:
            raise ConfigError(f"estimate.{key}={share}: a share must be above 0 and at most 1")
    _check_kernels(config.estimate)
    if config.estimate.engine and not config.estimate.measured:
        raise ConfigError(
            f"estimate.engine={config.estimate.engine}: chooses rows of estimate.measured=<csv>, which is not given"
        )
    for key, low in (("batch", 1), ("prompt", 1), ("output", 1)):
        number = getattr(config.shape, key)
        if not low <= number <= _LONGEST:
            raise ConfigError(f"shape.{key}={number}: kernel=estimate takes {low} to {_LONGEST}")
    if config.variants is not None:
        raise ConfigError(
            f"variants={config.variants}: kernel=estimate has no variants; sweep a key of estimate instead"
        )
    if config.profiler.tools:
        raise ConfigError(
            f"profiler={config.profiler.name}: kernel=estimate runs nothing that could be profiled; use profiler=none"
        )
    if config.sanitize:
        raise ConfigError("sanitize=true: kernel=estimate compiles and runs nothing")
    if list(config.devices) != [0]:
        raise ConfigError(
            f"devices={config.devices}: kernel=estimate opens no device; "
            "spread the model with estimate.tensor= and estimate.pipeline="
        )
    if not config.gpu.price_per_hour >= 0 or math.isinf(config.gpu.price_per_hour):
        raise ConfigError(f"gpu.price_per_hour={config.gpu.price_per_hour}: must be at least 0; 0 = unknown")


def _check_kernels(estimate: Estimate) -> None:
    """What goes together with ``efficiency=measured``: one GPU, the whole prompt in one pass, no drafting."""
    if estimate.efficiency != MEASURED:
        if estimate.kernels:
            raise ConfigError(
                f"estimate.kernels={estimate.kernels}: counts with estimate.efficiency=measured only, and that is "
                f"{estimate.efficiency}"
            )
        return
    for key, only in _ALONE.items():
        value = getattr(estimate, key)
        if value != only:
            raise ConfigError(
                f"estimate.{key}={value}: must be {only} with estimate.efficiency=measured, whose kernels are those of "
                "one GPU and a whole prompt"
            )


def _check_range(estimate: Estimate, key: str) -> None:
    value = getattr(estimate, key)
    low, high = _RANGES[key]
    if not low <= value <= high:
        raise ConfigError(f"estimate.{key}={value}: must be at least {low:.10g} and at most {high:.10g}")
