"""Which hardware an experiment runs on: ``gpu=auto`` resolved, a named GPU checked, the device asked what it is."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from omegaconf import OmegaConf

from runner.backend.base import DeviceInfo
from runner.backend.nvml import GpuState, detect
from runner.config.schema import Gpu
from runner.paths import conf_dir
from runner.plan.model import Target
from runner.plan.target import check_named, recognise, target_of, with_device

Ask = Callable[[str, tuple[int, ...]], list[DeviceInfo]]
"""Opens devices in a worker and returns what they say: (backend, ordinals) → infos."""


@lru_cache(maxsize=1)
def known_gpus() -> dict[str, Gpu]:
    """Every option of the ``gpu`` group in the installed ``conf/``, by name."""
    found: dict[str, Gpu] = {}
    for path in sorted((conf_dir() / "gpu").glob("*.yaml")):
        gpu = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Gpu), OmegaConf.load(path)))
        assert isinstance(gpu, Gpu)
        found[gpu.name] = gpu
    return found


def static_target(gpu: Gpu) -> Target:
    """The target without touching a device: what ``dry_run`` plans against."""
    if gpu.backend != "auto":
        return target_of(gpu)
    states = detect()
    return _auto(states)


def resolve(gpu: Gpu, devices: tuple[int, ...], ask: Ask) -> Target:
    """The target as the devices really are. Raises ``PlanError`` for a GPU that is not here."""
    target = static_target(gpu)
    if target.backend == "cuda":
        infos = ask("cuda", devices)
        if gpu.backend != "auto":
            check_named(gpu, [info.name for info in infos])
    else:
        infos = ask("host", devices)
    first = infos[0]
    found = with_device(
        target,
        arch=first.arch if target.backend == "cuda" else "",
        sms=first.sms,
        l2_bytes=first.l2_bytes,
        memory_bytes=min(info.memory_bytes for info in infos),
    )
    return found if found.title and found.backend == "cuda" else replace(found, title=found.title or first.name)


def _auto(states: list[GpuState]) -> Target:
    host = target_of(known_gpus()["host"])
    if not states:
        return replace(host, note="no NVIDIA GPU found: running on the CPU (host backend)")
    lacking = _lacking()
    if lacking:
        return replace(host, note=f"{states[0].name} found, but {lacking}: running on the CPU (host backend)")
    gpu = recognise(known_gpus(), states[0].name, states[0].memory_mib)
    if gpu is None:
        return Target(
            name="auto",
            title=states[0].name,
            backend="cuda",
            note=f"{states[0].name} is not in conf/gpu: no datasheet peaks to compare with",
        )
    return target_of(gpu)


def _lacking() -> str:
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed (pip install '.[cuda]')"
    if shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").exists():
        return "nvcc is not on the PATH (install the CUDA toolkit)"
    return ""
