"""The ``measure`` group as the worker takes it."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from runner.config.schema import Measure
from runner.measure.settings import MeasureSettings
from runner.plan.model import BackendName

_REPLACED = ("cold", "hot")
"""Modes in place of which the host backend has its own: those of the options of ``measure``. Others were asked for."""


def measure_settings(measure: Measure, backend: BackendName, samples: int = 0) -> MeasureSettings:
    """Settings in force: on the host backend the ``host`` limits replace the general ones and its modes ``cold`` and
    ``hot``, and so many ``samples`` without a warm-up, where a family says that they are enough, every limit but an
    exact number."""
    values: dict[str, Any] = {field.name: getattr(measure, field.name) for field in fields(MeasureSettings)}
    if backend == "host":
        values.update(asdict(measure.host))
        asked_for = [mode for mode in measure.modes if mode not in _REPLACED]
        values["modes"] = list(dict.fromkeys([*measure.host.modes, *asked_for]))
    if samples and not measure.fixed:
        values.update(fixed=samples, warmup=0)
    values["modes"] = tuple(values["modes"])
    return MeasureSettings(**values)
