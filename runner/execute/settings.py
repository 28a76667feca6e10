"""The ``measure`` group as the worker takes it."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from runner.config.schema import Measure
from runner.measure.settings import MeasureSettings
from runner.plan.errors import PlanError
from runner.plan.model import BackendName


def measure_settings(measure: Measure, backend: BackendName) -> MeasureSettings:
    """Settings in force: on the host backend the ``host`` limits replace the general ones.

    Raises ``PlanError`` for a value that is not allowed.
    """
    names = [field.name for field in fields(MeasureSettings) if hasattr(measure, field.name)]
    values: dict[str, Any] = {name: getattr(measure, name) for name in names}
    if backend == "host":
        values.update(asdict(measure.host))
    values["modes"] = tuple(values["modes"])
    try:
        return MeasureSettings(**values)
    except ValueError as error:
        key, _, rest = str(error).partition("=")
        value, _, allowed = rest.partition(": ")
        raise PlanError(key, value, allowed) from None
