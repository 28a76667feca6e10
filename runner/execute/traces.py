"""Families that serve a trace of requests: its file is read, and every request looked at, before anything runs."""

from __future__ import annotations

from dataclasses import replace

from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan
from runner.serving import source
from runner.workload.mini_llm_serve import TARGET, scheduler

CHECKS = 2
"""Before timing and after it the trace is served for the checks alone."""


def read(config: Config) -> Config:
    """The config with the parameters that the trace's file gives, where the family takes one and it is named.

    Raises ``ConfigError`` for a file that is no trace.
    """
    kernel = config.kernel
    if source.FILE not in kernel.params:
        return config
    return replace(config, kernel=replace(kernel, params=source.filled_in(kernel.params)))


def check(made: Plan, settings: MeasureSettings, timeout_s: float) -> None:
    """Raises ``ConfigError`` for a request that the planned engine has no room for, and for a trace that would not end
    in time."""
    if made.workload.target != TARGET:
        return
    trace = source.of(made.symbols, made.seed)
    for variant in made.variants:
        scheduler(made, variant.name).check(trace)
    last_s, times = trace[-1].arrival_s, CHECKS + settings.warmup + settings.fixed
    if times * last_s >= timeout_s:
        raise ConfigError(
            f"timeout_s={timeout_s:g}: the last request arrives after {last_s:.1f} s and the trace is served {times} "
            f"times; must be well above {times * last_s:.0f}"
        )
