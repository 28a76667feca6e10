"""Families that serve a trace of requests: its file is read, and every request looked at, before anything runs."""

from __future__ import annotations

from dataclasses import replace

from runner.config.schema import Config
from runner.plan.model import Plan
from runner.serving import source
from runner.workload.mini_llm_serve import TARGET, scheduler


def read(config: Config) -> Config:
    """The config with the parameters that the trace's file gives, where the family takes one and it is named.

    Raises ``ConfigError`` for a file that is no trace.
    """
    kernel = config.kernel
    if source.FILE not in kernel.params:
        return config
    return replace(config, kernel=replace(kernel, params=source.filled_in(kernel.params)))


def check(made: Plan) -> None:
    """Raises ``ConfigError`` for a request that the planned engine has no room for."""
    if made.workload.target == TARGET:
        for variant in made.variants:
            scheduler(made, variant.name).check(source.of(made.symbols, made.seed))
