"""Resolvers that the YAML files use."""

from __future__ import annotations

import os

from omegaconf import OmegaConf


def _pid() -> int:
    return os.getpid()


def register_resolvers() -> None:
    """``${runner.pid:}``: the process id, the same for all jobs of a sweep (Hydra hands the cache on). Idempotent."""
    OmegaConf.register_new_resolver("runner.pid", _pid, use_cache=True, replace=True)
