"""Models of the tests: those of ``conf/model`` by name, and a small one to change."""

from __future__ import annotations

import dataclasses
from typing import Any

from omegaconf import OmegaConf

from runner.config.load import build
from runner.config.schema import Model
from runner.estimate import architecture
from runner.estimate.model import Architecture
from runner.paths import conf_dir


def load(name: str) -> Model:
    merged = OmegaConf.merge(OmegaConf.structured(Model), OmegaConf.load(conf_dir() / "model" / f"{name}.yaml"))
    plain: Any = OmegaConf.to_container(merged, throw_on_missing=True)
    return build(Model, plain)


def named(name: str) -> Architecture:
    return architecture.of(load(name))


def tiny(**figures: Any) -> Model:
    """Two layers, h = 8, two heads of 4 over one KV head, width 16, ten words."""
    plain = Model(
        name="tiny", layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, intermediate=16, vocab=10, source="a test"
    )
    return dataclasses.replace(plain, **figures)
