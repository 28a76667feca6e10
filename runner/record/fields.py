"""A result as a tracker wants it: flat parameters, metrics and tags under names it accepts. Pure."""

from __future__ import annotations

import getpass
import math
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runner.result.clock import millis
from runner.result.metrics import main_series
from runner.result.model import INTERRUPTED, Result, Status
from runner.result.names import GROUP_KEYS, plain

PARAM_LENGTH = 6000
TAG_LENGTH = 5000
"""MLflow's own limit is 8000, an older server's 5000."""
NAME_LENGTH = 250
RUN_NAME_LENGTH = 60
_DETAILS = (
    "packages",
    "variables",
    "device",
    "devices",
    "target",
    "kernel",
    "compile_commands",
    "topology",
    "gpu_state_before",
)
"""Parts of the environment that stay in ``result.json``: as tags they would only be many."""

MOST_POINTS = 1000
"""Of one series in a tracker: a longer one is thinned evenly; ``result.json`` has all of it."""

_REFUSED = re.compile(r"[^\w\-. :/]", re.ASCII)
_SPELLED = {"µ": "u", "μ": "u", "%": "pct", "²": "2", "³": "3", "×": "x"}
_CUT = "… (cut)"


class Point(NamedTuple):
    """One value of a metric's history."""

    name: str
    value: float
    millis: int
    """Since 1970."""
    step: int


def name(text: str) -> str:
    """``text`` as a metric or parameter name: one that is refused would drop the whole batch.

    >>> name("time_µs[q8]"), name("/a//b")
    ('time_us_q8_', 'a/b')
    """
    for sign, spelling in _SPELLED.items():
        text = text.replace(sign, spelling)
    parts = [part for part in _REFUSED.sub("_", text).split("/") if part.strip(".")]
    return "/".join(parts)[:NAME_LENGTH] or "_"


def params(result: Result) -> dict[str, str]:
    """Every parameter as text, numbers plain. The keys of the groups are always there, so that runs compare."""
    values: dict[str, Any] = {
        **result.params,
        "kernel": result.kernel,
        "variant": result.variant,
        "model": result.model,
        "shape": result.shape,
        "gpu": result.gpu,
        "backend": result.backend,
    }
    return {key: cut(plain(value), PARAM_LENGTH) for key, value in _unique(values).items() if value not in (None, "")}


def metrics(result: Result) -> dict[str, float]:
    """Every finite metric, its name made acceptable. A profiler's figure never takes the place of one of the timed
    run: under the same name it becomes ``profiled_<name>``."""
    values = {f"profiled_{key}" if key in result.metrics else key: v for key, v in result.profile.metrics.items()}
    values.update(result.metrics)
    finite = {key: float(value) for key, value in values.items() if math.isfinite(value)}
    finite["duration_s"] = result.duration_s
    return _unique(finite)


def points(result: Result) -> list[Point]:
    """The sampled series as histories of metrics, each value at its time, steps counted from 0. They depend on the
    result alone, so that filing twice adds nothing."""
    begun = millis(result.profile.started or result.started)
    found = []
    for label, values in _unique(result.profile.series).items():
        kept = values[:: max(1, math.ceil(len(values) / MOST_POINTS))]
        found += [
            Point(label, float(value), begun + round(1000 * second), step)
            for step, (second, value) in enumerate(kept)
            if math.isfinite(value)
        ]
    return found


def tags(result: Result) -> dict[str, str]:
    """Identity, state and provenance: fixed tags, and the environment's scalars under their own names."""
    details = {key: value for key, value in result.environment.items() if key not in _DETAILS}
    environment = flatten(details, leave_out=("others",))
    main = main_series(result.samples)
    values: dict[str, Any] = {
        **environment,
        "host": environment.get("hostname") or socket.gethostname(),
        "device_name": _device(result),
        "gpu_uuid": environment.get("device_uuid", ""),
        "kind": "result",
        "result_id": result.id,
        "sweep_id": result.sweep_id,
        "experiment_id": result.experiment_id,
        "status": result.status.value,
        "quality": result.quality.value,
        "flags": ", ".join(result.flags),
        "time_method": main.method if main else "",
        "time_mode": main.mode if main else "",
        "profile_status": result.profile.status.value,
        "profile_tool": result.profile.tool,
        "profile_reason": result.profile.reason,
        "bound": result.diagnosis.bound,
        "bound_confidence": result.diagnosis.confidence,
        "baseline": result.baseline,
        "phase": result.phase,
        "study": _study(result),
        "repeat": result.repeat,
        "message": result.message,
        "warnings": "; ".join(result.warnings),
        "overrides": " ".join(result.overrides),
        "mlflow.user": environment.get("user") or user(),
        "mlflow.source.name": "runner",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": environment.get("git_commit", ""),
    }
    return {key: cut(plain(value), TAG_LENGTH) for key, value in _unique(values).items() if value not in (None, "")}


def _device(result: Result) -> str:
    """What the device calls itself: ``gpu`` is the option, ``auto`` for any that has none of its own."""
    device = result.environment.get("device")
    return str(device.get("name") or "") if isinstance(device, Mapping) else ""


def _study(result: Result) -> str:
    """Name of the study that the experiment was a part of; empty for none."""
    study = result.config.get("study")
    return str(study.get("name") or "") if isinstance(study, Mapping) else ""


def flatten(values: Mapping[str, Any], prefix: str = "", leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """Nested scalars under one level of names: ``{"git": {"commit": "1a"}}`` → ``{"git_commit": "1a"}``.

    Lists of scalars are joined with commas; anything deeper, and keys of ``leave_out``, stay in ``result.json``.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        label = f"{prefix}_{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            if key not in leave_out:
                found.update(flatten(value, label, leave_out))
        elif isinstance(value, (list, tuple)):
            if all(isinstance(entry, (str, int, float)) for entry in value):
                found[label] = ", ".join(plain(entry) for entry in value)
        else:
            found[label] = value
    return found


def run_name(result: Result, swept: Sequence[str] = ()) -> str:
    """Short, what differs first: ``q8 T=32768 B=1 H=16``. ``swept`` holds override keys (``shape.context``)."""
    letters = {name: letter for letter, name in result.names.items()}
    first = [path.rsplit(".", 1)[-1] for path in swept]
    ordered = [letters.get(key, key) for key in first if key in result.params]
    ordered += [key for key in result.params if key not in letters and key not in GROUP_KEYS]
    text = result.variant or result.kernel
    for key in dict.fromkeys(ordered):
        more = f"{text} {key}={plain(result.params[key])}"
        if len(more) > RUN_NAME_LENGTH:
            break
        text = more
    return text[:RUN_NAME_LENGTH]


def run_status(result: Result) -> str:
    """MLflow's status of a run: FINISHED, FAILED, or KILLED for what the user interrupted."""
    if result.status is Status.SKIPPED:
        return "KILLED" if result.message == INTERRUPTED else "FINISHED"
    return "FAILED" if result.status.failed else "FINISHED"


def times(result: Result) -> tuple[int, int]:
    """Start and end, milliseconds since 1970; fixed by the result, so that filing twice changes nothing."""
    start = millis(result.started)
    return start, start + max(1, round(result.duration_s * 1000))


def cut(text: str, length: int) -> str:
    """``text``, at most ``length`` characters, with a mark where it was cut."""
    return text if len(text) <= length else text[: length - len(_CUT)] + _CUT


def user() -> str:
    """Who runs this; ``unknown`` in a container without a user entry."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _unique(values: Mapping[str, Any]) -> dict[str, Any]:
    """Acceptable names; two that would become one are kept apart by a number."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        label, count = name(key), 2
        while label in found:
            label, count = f"{name(key)}_{count}", count + 1
        found[label] = value
    return found


def counts(statuses: Iterable[str]) -> dict[str, float]:
    """How many of each: ``{"count_passed": 7.0}``, names sorted."""
    found: dict[str, float] = {}
    for status in sorted(statuses):
        found[f"count_{status.lower()}"] = found.get(f"count_{status.lower()}", 0.0) + 1
    return found
