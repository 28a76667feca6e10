"""Copy and read bandwidth this device really reaches: measured once by the ``ceilings`` family, then cached."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from omegaconf import OmegaConf

from runner.backend.base import DeviceInfo
from runner.config.schema import Kernel, Measure
from runner.execute.planning import Experiment
from runner.paths import conf_dir
from runner.result.metrics import Ceilings

FAMILY = "ceilings"
_QUICK = Measure(name=FAMILY, modes=["cold"], min_samples=10, min_time_s=0.05, max_time_s=3.0, max_rsd=0.01)


def cache_file(info: DeviceInfo, cache: Path) -> Path:
    """One file per device and driver: another driver may move memory differently."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{info.uuid}-{info.driver or info.backend}")
    return cache / "ceilings" / f"{safe}.json"


def load(info: DeviceInfo, cache: Path) -> Ceilings | None:
    """What was measured on this device earlier, or None."""
    try:
        data = json.loads(cache_file(info, cache).read_text())
        return Ceilings(copy_gbps=float(data["copy_gbps"]), read_gbps=float(data["read_gbps"]))
    except (FileNotFoundError, KeyError, ValueError):
        return None


def save(info: DeviceInfo, cache: Path, ceilings: Ceilings) -> None:
    """Atomic, so that a second command never reads half a file."""
    path = cache_file(info, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({**asdict(ceilings), "device": info.name, "driver": info.driver}, indent=1))
    os.replace(temporary, path)


def experiment_for(example: Experiment) -> Experiment:
    """The ``ceilings`` family on the devices, target and environment of another experiment."""
    path = conf_dir() / "kernel" / f"{FAMILY}.yaml"
    kernel = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(path)))
    assert isinstance(kernel, Kernel)
    config = replace(
        example.config,
        kernel=kernel,
        variants=None,
        measure=_QUICK,
        sanitize=False,
        seed=0,
        devices=[example.config.devices[0]],
    )
    return Experiment(replace(example.point, config=config), devices=example.devices[:1])


def from_rates(rates: Mapping[str, float]) -> Ceilings | None:
    """Ceilings out of the GB/s of the family's two variants; None unless both were measured."""
    if "copy" not in rates or "read" not in rates:
        return None
    return Ceilings(copy_gbps=rates["copy"], read_gbps=rates["read"])
