"""Plans of the shipped families without Hydra: the YAML files, read and merged over the typed schema."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from runner.config.schema import Config
from runner.plan.model import Plan, Target
from runner.plan.planner import make_plan

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "cuda_src"
FAMILIES = tuple(
    path.stem for path in sorted((ROOT / "conf" / "kernel").glob("*.yaml")) if "kind" not in OmegaConf.load(path)
)
"""Those of kernels; ``command`` runs a program."""
H200 = Target(name="h200_sxm", backend="cuda", arch="sm_90a", sms=132, l2_bytes=60 << 20, bandwidth_gbps=4800.0)
ADA = Target(name="l4", backend="cuda", arch="sm_89", sms=58, l2_bytes=48 << 20, bandwidth_gbps=300.0)
HOST = Target(name="host", sms=2, l2_bytes=32 << 20)
WHOLE: dict[str, dict[str, Any]] = {
    **{family: {"weights": "w8a16"} for family in ("mini_llm", "mini_llm_quality", "mini_llm_spec")},
    "layer_ops": {"weights": "w8a16", "B": 17},
}
"""Parameters at which a family leaves out no variant and no preparation, where its defaults do."""
OTHERS = {"profiler": "none", "measure": "quick", "tracking": "none", "scale": "full"}


def config(family: str, params: Mapping[str, Any] | None = None, model: str = "llama3_8b") -> Config:
    """The family with ``shape=decode`` and a model, and kernel parameters replaced."""
    made = copy.deepcopy(_composed(family, model))
    made.kernel.params.update(params or {})
    if several(made):
        made.devices = [0, 1]
    return made


def several(made: Config) -> bool:
    """Whether the family is one of several devices."""
    return any("devices >= 2" in variant.require for variant in made.kernel.variants.values())


@cache
def _composed(family: str, model: str) -> Config:
    """Merging takes OmegaConf a second; copying what came of it a few milliseconds."""
    files = {"kernel": family, "shape": "decode", "model": model, "gpu": "host", **OTHERS}
    read = {group: loaded(group, name) for group, name in files.items()}
    merged = cast(DictConfig, OmegaConf.merge(OmegaConf.structured(Config), read))
    return cast(Config, OmegaConf.to_object(merged))


@cache
def loaded(group: str, name: str) -> DictConfig:
    """An option with what its ``defaults`` bring in, as Hydra composes it."""
    own = cast(DictConfig, OmegaConf.load(ROOT / "conf" / group / f"{name}.yaml"))
    parts = [str(part).removesuffix("@_here_") for part in own.pop("defaults", []) if part != "_self_"]
    return cast(DictConfig, OmegaConf.merge(*(loaded(group, part) for part in parts), own))


def plan(family: str, params: Mapping[str, Any] | None = None, target: Target = H200) -> Plan:
    """Leaves out nothing but instructions that the target does not have."""
    found, left_out = make_plan(config(family, params), target, [SOURCES])
    assert all("capability=" in why or "is_host=1" in why for why in left_out.values()), left_out
    return found
