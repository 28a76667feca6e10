"""GPU datasheet figures: the ridge point of each part against the published table, and names the driver gives."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from runner.config.load import build
from runner.config.schema import Gpu
from runner.paths import conf_dir

RIDGE = {
    "t4": 203,
    "l4": 403,
    "a10": 208,
    "l40s": 419,
    "a100_40_sxm": 201,
    "a100_80_sxm": 153,
    "a100_80_pcie": 161,
    "h100_pcie": 378,
    "h100_sxm": 295,
    "h100_nvl": 212,
    "h200_sxm": 206,
    "h200_nvl": 174,
    "b200": 281,
    "gb200": 313,
    "rtx_4090": 164,
    "rtx_5090": 117,
    "rtx_pro_6000_ws": 281,
    "rtx_pro_6000_server": 293,
}
"""Half-precision FLOP per byte at which compute and memory take equally long."""
CLOCKED = {
    "t4": (1024, 1.59),
    "a10": (1024, 1.695),
    "a100_80_sxm": (2048, 1.41),
    "l4": (1024, 2.04),
    "h100_sxm": (4096, 1.83),
    "h100_pcie": (4096, 1.62),
    "h100_nvl": (4096, 1.545),
    "rtx_4090": (512, 2.52),
    "rtx_5090": (512, 2.407),
    "rtx_pro_6000_ws": (1024, 2.617),
    "b200": (8192, 1.855),
}
"""Half-precision FLOP per clock and SM, and the boost clock in GHz."""


def load(name: str) -> Gpu:
    merged = OmegaConf.merge(OmegaConf.structured(Gpu), OmegaConf.load(conf_dir() / "gpu" / f"{name}.yaml"))
    plain: Any = OmegaConf.to_container(merged, throw_on_missing=True)
    return build(Gpu, plain)


def parts() -> list[str]:
    return sorted(file.stem for file in (conf_dir() / "gpu").glob("*.yaml") if file.stem not in ("auto", "host"))


def test_every_part_has_a_published_ridge_point() -> None:
    assert parts() == sorted(RIDGE)


@pytest.mark.parametrize("name", RIDGE)
def test_ridge_point(name: str) -> None:
    gpu = load(name)
    assert round(gpu.tflops["float16"] * 1e3 / gpu.bandwidth_gbps + 1e-9) == RIDGE[name]
    assert gpu.tflops.get("bfloat16", gpu.tflops["float16"]) == gpu.tflops["float16"]


@pytest.mark.parametrize("name", CLOCKED)
def test_peak_follows_from_sms_and_clock(name: str) -> None:
    gpu = load(name)
    per_clock, ghz = CLOCKED[name]
    assert gpu.tflops["float16"] == pytest.approx(gpu.sms * per_clock * ghz / 1e3, rel=0.005)


@pytest.mark.parametrize("name", RIDGE)
def test_a_part_is_complete(name: str) -> None:
    gpu = load(name)
    assert gpu.name == name and gpu.backend == "cuda"
    assert gpu.arch.startswith("sm_") and gpu.source and gpu.title and gpu.nvml_names and gpu.pcie
    assert min(gpu.sms, gpu.l2_mb, gpu.memory_gb, gpu.tdp_w, gpu.tflops["float32"]) > 0
    assert set(gpu.tflops) <= {"float32", "float16", "bfloat16", "float8", "int8", "float4"}


def test_the_driver_names_one_part_each() -> None:
    names = [name for part in parts() for name in load(part).nvml_names]
    assert len(names) == len(set(names))


def test_turing_has_no_bfloat16() -> None:
    assert "bfloat16" not in load("t4").tflops


@pytest.mark.parametrize(("name", "backend"), [("auto", "auto"), ("host", "host")])
def test_options_that_are_not_a_part(name: str, backend: str) -> None:
    gpu = load(name)
    assert (gpu.name, gpu.backend, gpu.bandwidth_gbps) == (name, backend, 0.0)


@pytest.mark.parametrize("name", RIDGE)
def test_the_drivers_memory_is_near_the_name(name: str) -> None:
    gpu = load(name)
    if gpu.memory_mib:
        assert gpu.memory_mib * 2**20 == pytest.approx(gpu.memory_gb * 1e9, rel=0.08)
