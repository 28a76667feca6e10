"""GPUs of the tests: those of ``conf/gpu`` by name."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from runner.estimate.model import Machine
from runner.paths import conf_dir


def gpu(name: str) -> Machine:
    found: Any = OmegaConf.to_container(OmegaConf.load(conf_dir() / "gpu" / f"{name}.yaml"))
    return Machine(
        name=found["name"],
        bandwidth_gbps=found["bandwidth_gbps"],
        memory_bytes=found.get("memory_mib", 0) * 2**20 or int(found["memory_gb"] * 1e9),
        tflops=found["tflops"],
        tdp_w=found.get("tdp_w", 0.0),
        nvlink_gbps=found.get("nvlink_gbps", 0.0),
        pcie=found.get("pcie", ""),
    )
