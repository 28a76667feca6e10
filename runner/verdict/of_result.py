"""A result as a judgement looks at it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runner.result.clock import millis
from runner.result.metrics import main_series
from runner.result.model import Result
from runner.result.names import plain
from runner.verdict.model import PLACES, Configuration, Measured

_FIGURES = {
    "time_us": "time_us",
    "low": "time_us_low",
    "high": "time_us_high",
    "q1": "time_us_q1",
    "q3": "time_us_q3",
    "samples": "samples",
    "trials": "trials",
    "trials_rsd": "time_us_trials_rsd",
    "sm_clock_mhz": "sm_clock_mhz",
    "bytes_moved": "bytes_moved",
    "flops": "flops",
}
_TIMES = ("time_us", "low", "high", "q1", "q3")
METRICS = tuple(_FIGURES.values())
"""All that a judgement looks at."""


def configuration(params: Mapping[str, Any]) -> Configuration:
    """What was measured, of all parameters of a run: where it ran is left out, and so is what has no value."""
    return tuple(
        sorted((key, plain(value)) for key, value in params.items() if key not in PLACES and value not in (None, ""))
    )


def measured(result: Result) -> Measured:
    """Of any status."""
    found, environment = result.metrics, result.environment
    main = main_series(result.samples)
    device = environment.get("device")
    chosen = {"kernel": result.kernel, "variant": result.variant, "model": result.model, "shape": result.shape}
    return Measured(
        configuration=configuration({**result.params, **chosen}),
        kernel=result.kernel,
        variant=result.variant,
        backend=result.backend,
        status=result.status,
        device=str(device.get("name") or "") if isinstance(device, Mapping) else "",
        method=main.method if main else "",
        mode=main.mode if main else "",
        quality=result.quality,
        flags=tuple(result.flags),
        message=result.message,
        **figures(found),
        fingerprint=str(environment.get("fingerprint") or ""),
        commit=str(environment.get("git_commit") or ""),
        dirty=bool(environment.get("git_dirty")),
        driver=str(environment.get("driver") or ""),
        result_id=result.id,
        sweep_id=result.sweep_id,
        experiment_id=result.experiment_id,
        started=millis(result.started),
        overrides=" ".join(result.overrides),
    )


def figures(metrics: Mapping[str, float]) -> dict[str, Any]:
    """The fields of ``Measured`` that come from metrics, wherever these were kept. What is not finite (a store and a
    table can hold that) is no figure, and neither is a time of 0 or less."""
    found: dict[str, Any] = {field: metrics.get(name) for field, name in _FIGURES.items()}
    for field, value in found.items():
        if value is not None and not (math.isfinite(value) and (value > 0 or field not in _TIMES)):
            found[field] = None
    return found | {"samples": int(found["samples"] or 0), "trials": int(found["trials"] or 1)}
