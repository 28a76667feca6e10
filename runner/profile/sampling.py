"""Sampling the machine in a thread: GPUs through NVML, CPU and memory of the whole machine through psutil."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil

from runner.backend import nvml
from runner.result import clock

_JOIN_S = 5.0
_MEGABYTE = 1e6


@dataclass
class Samples:
    """One window's samples; all lists have one entry per sample."""

    started: str
    """ISO 8601, UTC."""
    times_s: list[float] = field(default_factory=list)
    """From the start of the window."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """By name, without the prefix."""
    throttled_by: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)
    """By GPU, why its clock was lowered; ``nvml.THROTTLE_REASONS``."""
    problem: str = ""
    """Why the sampling ended early; empty otherwise."""


class Sampler:
    """Samples in a thread of its own until it is stopped."""

    def __init__(self, gpus: Mapping[int, nvml.Gpu], interval_s: float) -> None:
        """``gpus``: by number."""
        self._gpus = gpus
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._samples = Samples(clock.now())
        self._begin = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self) -> Samples:
        """Ends the sampling and gives what there is. Waits a few seconds at most."""
        self._stop.set()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            # Its lists may still grow: what is given stays as it is.
            return Samples(self._samples.started, problem=f"a reading did not return within {_JOIN_S:g} s")
        return self._samples

    def _run(self) -> None:
        try:
            psutil.cpu_percent(None)  # the next call of the same thread counts from here
            while not self._stop.wait(self._interval_s):
                self._sample()
        except Exception as error:  # a thread's error would be heard by nobody
            taken = len(self._samples.times_s)
            self._samples.problem = f"the sampling ended after {taken} samples: {type(error).__name__}: {error}"

    def _sample(self) -> None:
        into = self._samples
        now = time.monotonic() - self._begin
        values = machine_values()
        reasons: dict[int, tuple[str, ...]] = {}
        for number, gpu in self._gpus.items():
            values.update(gpu_values(number, gpu))
            told = gpu.throttle_reasons()
            if told is not None:
                reasons[number] = tuple(told)
                values[f"gpu_{number}_throttled"] = float(not nvml.THROTTLED.isdisjoint(told))
        silent = sorted(set(into.values) - set(values))
        if silent:
            raise RuntimeError(f"no longer told: {', '.join(silent)}")
        if not into.times_s:
            into.values = {name: [] for name in values}
            into.throttled_by = {number: [] for number in reasons}
        into.times_s.append(now)
        for name, series in into.values.items():
            series.append(values[name])
        for number, seen in into.throttled_by.items():
            seen.append(reasons[number])


def machine_values() -> dict[str, float]:
    """CPU since the last call, and memory, of the whole machine."""
    memory = psutil.virtual_memory()
    return {
        "cpu_utilization_percentage": psutil.cpu_percent(None),
        "system_memory_usage_megabytes": memory.used / _MEGABYTE,
        "system_memory_usage_percentage": memory.percent,
    }


def gpu_values(number: int, gpu: nvml.Gpu) -> dict[str, float]:
    """One GPU's readings under MLflow's names and ours, without what it does not support."""
    found: dict[str, float | None] = {
        "power_usage_watts": gpu.power_w(),
        "sm_clock_mhz": gpu.sm_clock_mhz(),
        "memory_clock_mhz": gpu.memory_clock_mhz(),
        "temperature_c": gpu.temperature_c(),
    }
    busy, memory, limit = gpu.utilization_pct(), gpu.memory_bytes(), gpu.power_limit_w()
    if busy is not None:
        found["utilization_percentage"], found["memory_utilization_percentage"] = busy
    if memory is not None:
        found["memory_usage_megabytes"] = memory[0] / _MEGABYTE
        found["memory_usage_percentage"] = 100 * memory[0] / memory[1]
    if limit and found["power_usage_watts"] is not None:
        found["power_usage_percentage"] = 100 * found["power_usage_watts"] / limit
    return {f"gpu_{number}_{name}": float(value) for name, value in found.items() if value is not None}
