"""The ``gpu`` option as a target, and what ``gpu=auto`` becomes on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runner.config.schema import Gpu
from runner.plan.errors import PlanError
from runner.plan.model import Target

MIB = 1024 * 1024


def target_of(gpu: Gpu) -> Target:
    """A named option's figures, as they stand in its file."""
    return Target(
        name=gpu.name,
        title=gpu.title or gpu.name,
        backend="host" if gpu.backend == "host" else "cuda",
        arch=gpu.arch,
        sms=gpu.sms,
        l2_bytes=int(gpu.l2_mb * MIB),
        memory_bytes=gpu.memory_mib * MIB or int(gpu.memory_gb * 1e9),
        bandwidth_gbps=gpu.bandwidth_gbps,
        tflops=dict(gpu.tflops),
    )


def several(target: Target, devices: int) -> Target:
    """So many of a device as one, as declared bytes and FLOPs are those of all devices: rates and caches added up."""
    if devices == 1:
        return target
    return replace(
        target,
        title=f"{devices} x {target.title}",
        bandwidth_gbps=devices * target.bandwidth_gbps,
        l2_bytes=devices * target.l2_bytes,
        tflops={kind: devices * rate for kind, rate in target.tflops.items()},
    )


def matches(gpu: Gpu, device_name: str) -> bool:
    """True when the driver's name for a device is one of the option's."""
    return device_name.strip().lower() in {name.strip().lower() for name in gpu.nvml_names}


def recognise(options: Mapping[str, Gpu], device_name: str, memory_mib: int = 0) -> Gpu | None:
    """The option that describes a device. Parts that share a name (A100 40 and 80 GB) differ in memory."""
    found = [gpu for gpu in options.values() if matches(gpu, device_name)]
    if not found:
        return None
    return min(found, key=lambda gpu: abs((gpu.memory_mib or gpu.memory_gb * 1e9 / MIB) - memory_mib))


def check_named(gpu: Gpu, device_names: Sequence[str]) -> None:
    """A named GPU that is not the one found is refused: its roofline would be another device's."""
    others = [name for name in device_names if not matches(gpu, name)]
    if not device_names:
        raise PlanError("gpu", gpu.name, "no NVIDIA GPU found here; use gpu=host, or gpu=auto to take what there is")
    if others:
        raise PlanError("gpu", gpu.name, f"this machine has {', '.join(sorted(set(others)))}; use gpu=auto")


def with_device(target: Target, *, arch: str, sms: int, l2_bytes: int, memory_bytes: int) -> Target:
    """The target with what the device itself reports in place of the datasheet's structure."""
    return replace(
        target,
        arch=arch or target.arch,
        sms=sms or target.sms,
        l2_bytes=l2_bytes or target.l2_bytes,
        memory_bytes=memory_bytes or target.memory_bytes,
    )
