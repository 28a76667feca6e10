"""Rules on ``study.gate``, and what its percentage means."""

from __future__ import annotations

import math
from typing import Any

from runner.config.errors import ConfigError
from runner.config.schema import Config

_WITHOUT = "without the gate: study.gate.max_slowdown=null"
MOST_SLOWDOWN = 10.0
"""Elevenfold: nobody means more, and ``300`` is a forgotten %."""


def check_gate(config: Config) -> None:
    """Raises ``ConfigError`` naming the key, the value and what is allowed."""
    gate = config.study.gate
    if gate.min_experiments < 1:
        raise ConfigError(f"study.gate.min_experiments={gate.min_experiments}: must be at least 1")
    if gate.max_slowdown is None:
        return
    share(gate.max_slowdown)
    if not config.tracking.enabled:
        raise ConfigError(f"tracking={config.tracking.name}: study.gate needs the store, for its standards; {_WITHOUT}")
    if config.kernel.kind == "estimate":
        raise ConfigError(f"study.gate: kernel=estimate measures nothing that could be too slow; {_WITHOUT}")


def share(slowdown: Any) -> float:
    """``3%`` and 0.03 as 0.03. Raises ``ConfigError``."""
    value = fraction(str(slowdown).strip())
    if isinstance(slowdown, bool) or not 0 <= value <= MOST_SLOWDOWN:
        raise ConfigError(
            f"study.gate.max_slowdown={slowdown}: must be a percentage or a share from 0 to {MOST_SLOWDOWN:g}, "
            "e.g. 3% or 0.03"
        )
    return value


def fraction(text: str) -> float:
    """A share or a percentage as a share; NaN for what is neither.

    >>> fraction("3%"), fraction("0.03"), fraction("fast")
    (0.03, 0.03, nan)
    """
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan
