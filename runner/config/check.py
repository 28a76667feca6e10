"""Rules on single values that OmegaConf's types cannot say: ranges, choices, declared kernel parameters.

Rules that need arithmetic over several symbols belong to ``runner.plan``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from runner.config.check_command import check_command
from runner.config.check_estimate import check_estimate
from runner.config.errors import ConfigError, choose_from
from runner.config.gate import check_gate
from runner.config.schema import Config, Param

_AT_LEAST: dict[str, float] = {
    "shape.batch": 1,
    "shape.context": 1,
    "shape.prompt": 1,
    "shape.output": 0,
    "shape.page": 1,
    "shape.group": 1,
    "model.layers": 1,
    "model.hidden": 1,
    "model.heads": 1,
    "model.kv_heads": 1,
    "model.head_dim": 1,
    "model.intermediate": 1,
    "model.vocab": 1,
    "model.experts": 0,
    "model.top_k": 0,
    "model.shared_experts": 0,
    "model.moe_intermediate": 0,
    "model.dense_layers": 0,
    "measure.warmup": 0,
    "measure.min_samples": 1,
    "measure.max_samples": 1,
    "measure.min_time_s": 0,
    "measure.settled": 0,
    "measure.fixed": 0,
    "measure.throttle_share": 0,
    "measure.throttle_pause_s": 0,
    "measure.lock_clocks": 0,
    "measure.trials": 1,
    "measure.host.min_samples": 1,
    "measure.host.min_time_s": 0,
    "profiler.steps": 1,
    "profiler.launch_skip": 0,
    "profiler.launch_count": 0,
    "tracking.every_s": 0,
    "seed": 0,
}
_ABOVE_ZERO = (
    "measure.max_time_s",
    "measure.max_rsd",
    "measure.hot_batch_time_s",
    "measure.graph_batch_time_s",
    "measure.host.max_time_s",
    "measure.host.max_rsd",
    "profiler.timeout_s",
    "profiler.interval_s",
    "profiler.duration_s",
    "tracking.max_artifact_mb",
    "timeout_s",
)
_BELOW: dict[str, float] = {"measure.throttle_share": 1}
"""A sample as fast as the others is none to drop."""
LONGEST_S = 1e9
"""Some 30 years. The operating system cannot wait much longer, let alone for ever."""
_WAITED = (
    "measure.throttle_pause_s",
    "measure.hot_batch_time_s",
    "measure.graph_batch_time_s",
    "profiler.timeout_s",
    "profiler.interval_s",
    "profiler.duration_s",
    "timeout_s",
)
SECTIONS = ("speed_of_light", "memory", "occupancy", "source", "full", "traffic")
"""The sets of ``profiler.sections``; ``runner.profile.sections`` has what is in them."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "profiler.reports": ("variant", "experiment"),
    "profiler.capture": ("api", "nvtx", "all"),
    "profiler.graph_trace": ("node", "graph"),
    "profiler.replay": ("kernel", "range", "application"),
    "profiler.sections": SECTIONS,
    "gpu.backend": ("auto", "cuda", "host"),
    "kernel.kind": ("cuda", "command", "estimate"),
}
_MODES = ("cold", "hot", "graph", "host")
_RETRIED = ("failed",)
PROFILERS = ("nvtx", "nsys", "ncu", "timeline", "monitor", "memcheck", "racecheck", "initcheck", "synccheck")
"""The tools of ``profiler.tools``; ``runner.profile.tools`` opens them."""

TRACES = (
    "cuda", "cuda-hw", "nvtx", "osrt", "cublas", "cublas-verbose", "cudnn", "cusolver", "cusolver-verbose", "cusparse",
    "cusparse-verbose", "mpi", "ucx", "oshmem", "openacc", "openmp", "opengl", "opengl-annotations", "vulkan",
    "vulkan-annotations", "nvvideo", "python-gil", "syscall",
)  # fmt: skip
"""What Nsight Systems can trace, over its versions from 2023.4; one that lacks a name refuses it itself."""


def check(config: Config) -> None:
    """Raises ``ConfigError`` naming the key, the value and what is allowed."""
    for key, low in _AT_LEAST.items():
        if not _value(config, key) >= low:  # NaN is not
            raise ConfigError(f"{key}={_value(config, key)}: must be at least {low:g}")
    for key in _ABOVE_ZERO:
        if not _value(config, key) > 0:
            raise ConfigError(f"{key}={_value(config, key)}: must be above 0")
    for key, high in _BELOW.items():
        if not _value(config, key) < high:
            raise ConfigError(f"{key}={_value(config, key)}: must be below {high:g}")
    for key in _WAITED:
        if _value(config, key) > LONGEST_S:
            raise ConfigError(f"{key}={_value(config, key)}: must be at most {LONGEST_S:g}")
    for key, choices in _CHOICES.items():
        if _value(config, key) not in choices:
            raise ConfigError(f"{key}={_value(config, key)}: {choose_from(str(_value(config, key)), choices)}")
    if config.retry:
        _check_names("retry", [config.retry], _RETRIED)
    if config.resume and config.retry:
        raise ConfigError("resume=true and retry=failed exclude each other: the second leaves out what never ran")
    _check_names("measure.modes", config.measure.modes, _MODES)
    _check_names("measure.host.modes", config.measure.host.modes, _MODES)
    for key in ("measure.min_samples", "measure.host.min_samples"):
        if config.measure.max_samples < _value(config, key):
            raise ConfigError(
                f"measure.max_samples={config.measure.max_samples}: must be at least {key}={_value(config, key)}"
            )
    if config.profiler.tools:
        _check_names("profiler.tools", config.profiler.tools, PROFILERS)
    _check_names("profiler.trace", config.profiler.trace, TRACES)
    try:
        re.compile(config.profiler.kernels)
    except re.error as error:
        raise ConfigError(f"profiler.kernels={config.profiler.kernels}: not a regular expression: {error}") from error
    _check_devices(config.devices)
    check_gate(config)
    if config.measure.crosscheck and not config.measure.hide_latency:
        raise ConfigError(
            "measure.crosscheck=true: the times of the kernels alone say nothing of times with launch latency; leave "
            "measure.hide_latency at true"
        )
    if config.measure.lock_clocks and config.kernel.kind != "cuda":
        raise ConfigError(
            f"measure.lock_clocks={config.measure.lock_clocks}: kernel={config.kernel.name} measures no kernels; leave "
            "it at 0, and lock the clock of a program's GPU with 'nvidia-smi -lgc'"
        )
    if config.kernel.kind == "command":
        check_command(config, LONGEST_S)
    elif config.kernel.kind == "estimate":
        check_estimate(config)
    elif config.variants is not None:
        _check_names("variants", config.variants, list(config.kernel.variants))
    for letter, declared in config.kernel.declare.items():
        if letter in config.kernel.params:
            check_param(f"kernel.params.{letter}", config.kernel.params[letter], declared)


def check_param(key: str, value: Any, declared: Param) -> None:
    """One kernel parameter against its declaration; limits that are expressions are left to the planner."""
    number = _number(key, value, declared)
    if declared.choices and value not in declared.choices and number not in declared.choices:
        allowed = ", ".join(map(str, declared.choices))
        raise ConfigError(f"{key}={value}: must be one of {allowed}{_about(declared)}")
    if number is None:
        return
    if isinstance(declared.min, (int, float)) and number < declared.min:
        raise ConfigError(f"{key}={value}: must be at least {declared.min}{_about(declared)}")
    if isinstance(declared.max, (int, float)) and number > declared.max:
        raise ConfigError(f"{key}={value}: must be at most {declared.max}{_about(declared)}")
    if isinstance(declared.multiple_of, int) and declared.multiple_of and number % declared.multiple_of:
        raise ConfigError(f"{key}={value}: must be a multiple of {declared.multiple_of}{_about(declared)}")


def _number(key: str, value: Any, declared: Param) -> int | float | None:
    """The value as a number; None for a text parameter."""
    if declared.type == "str":
        return None
    kind = "an integer" if declared.type == "int" else "a number"
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError
        number = int(value) if declared.type == "int" else float(value)
        if number != float(value):
            raise ValueError
    except (TypeError, ValueError):
        raise ConfigError(f"{key}={value}: must be {kind}{_about(declared)}") from None
    return number


def _about(declared: Param) -> str:
    return f" ({declared.help})" if declared.help else ""


def _value(config: Config, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _check_names(key: str, names: Sequence[str], known: Sequence[str]) -> None:
    if not names:
        raise ConfigError(f"{key}=[]: name at least one; known: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ConfigError(f"{key}: '{name}' does not exist; {choose_from(name, known)}")
        if list(names).count(name) > 1:
            raise ConfigError(f"{key}: '{name}' is named twice")


def _check_devices(devices: Sequence[int]) -> None:
    if not devices:
        raise ConfigError("devices=[]: name at least one, e.g. devices=[0]")
    for device in devices:
        if device < 0:
            raise ConfigError(f"devices: {device} is not a device; they count from 0")
        if list(devices).count(device) > 1:
            raise ConfigError(f"devices: {device} is named twice")
