"""Which hardware an experiment runs on: ``gpu=auto`` resolved, a named GPU checked, the device asked what it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from omegaconf import OmegaConf

from runner.backend.base import DeviceInfo
from runner.backend.host.machine import device_info
from runner.backend.nvml import GpuState, detect
from runner.build import cuda as nvcc
from runner.build.model import CompilerMissing
from runner.config.check_estimate import MEASURED
from runner.config.schema import Config, Gpu
from runner.paths import conf_dir
from runner.plan.errors import PlanError
from runner.plan.model import Target
from runner.plan.target import MIB, check_named, recognise, target_of, with_device
from runner.worker.client import WorkerKey

Ask = Callable[[WorkerKey], Sequence[DeviceInfo]]
"""Opens a worker's devices and returns what they say, in the order of the key's ``devices``."""
_DATASHEET_LEAST, _DATASHEET_MOST = 1e-3, 1e9
"""No rate of a device is below the one, no figure above the other."""


class Targets:
    """The targets of a command's experiments. Devices are asked once for each choice of them and environment."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._infos: dict[WorkerKey, tuple[DeviceInfo, ...]] = {}

    def of(self, config: Config) -> tuple[Target, tuple[DeviceInfo, ...]]:
        """The target as the devices really are, and the devices. Raises ``PlanError`` for a GPU that is not here,
        and whatever ``ask`` raises."""
        if config.kernel.kind == "estimate":
            return target_of(estimate_gpu(config)), ()
        target = static_target(config.gpu)
        if config.kernel.kind == "command":
            return program_target(config)
        # Variables such as CUDA_VISIBLE_DEVICES decide which devices there are.
        key = WorkerKey(target.backend, tuple(config.devices), tuple(sorted(config.environment.items())))
        if key not in self._infos:
            self._infos[key] = tuple(self._ask(key))
        infos = self._infos[key]
        if config.gpu.backend == "cuda":
            check_named(config.gpu, [info.name for info in infos])
        return _as_found(target, infos), infos


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
    """The target without opening a device (``gpu=auto`` asks the driver's list): what ``dry_run`` plans against."""
    return _auto() if gpu.backend == "auto" else target_of(gpu)


@lru_cache(maxsize=1)
def _auto() -> Target:
    """What ``gpu=auto`` means on this machine; its ``note`` says why it is the CPU."""
    return _choose(detect())


def _choose(states: Sequence[GpuState]) -> Target:
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


def _as_found(target: Target, infos: Sequence[DeviceInfo]) -> Target:
    """``target`` with what the first device says of itself, and the least memory of all of them."""
    first = infos[0]
    on_cuda = target.backend == "cuda"
    found = with_device(
        target,
        arch=first.arch if on_cuda else "",
        sms=first.sms,
        l2_bytes=first.l2_bytes,
        memory_bytes=min(info.memory_bytes for info in infos),
    )
    return found if found.title else replace(found, title=first.name)


def estimate_gpu(config: Config) -> Gpu:
    """What an estimate is for: a GPU as ``paper_gpu`` has it, or, where its times are measured ones, this CPU with the
    memory that it has. Raises ``PlanError``."""
    if config.estimate.efficiency == MEASURED and config.gpu.backend == "host":
        return replace(config.gpu, memory_mib=device_info(0).memory_bytes // MIB)
    return paper_gpu(config.gpu)


def runs_here(name: str) -> str:
    """Why this machine cannot run an experiment on the device called so; empty where it can."""
    here = _auto()
    if name in ("host", here.name):
        return ""
    return f"this machine has no {name} that can be used ({here.note or f'it has {here.title}'})"


def paper_gpu(gpu: Gpu) -> Gpu:
    """The GPU that an estimate is for. A named one need not be here; ``auto`` is the first that the driver lists, with
    the memory that the driver reports. Raises ``PlanError`` where that is none, or one without a datasheet."""
    named = [name for name, known in known_gpus().items() if known.backend == "cuda"]
    choose = f"name the GPU to estimate for: {', '.join(named)}"
    if gpu.backend == "host":
        raise PlanError("gpu", gpu.name, f"an estimate needs a GPU's datasheet; {choose}")
    if gpu.backend == "cuda":
        for key in ("bandwidth_gbps", "tflops"):
            if not getattr(gpu, key):
                raise PlanError(f"gpu.{key}", getattr(gpu, key), f"an estimate needs the datasheet's figure; {choose}")
        _check_datasheet(gpu)
        return gpu
    states = detect()
    if not states:
        raise PlanError("gpu", gpu.name, f"no NVIDIA GPU found here; {choose}")
    known = recognise(known_gpus(), states[0].name, states[0].memory_mib)
    if known is None:
        raise PlanError("gpu", gpu.name, f"{states[0].name} is not in conf/gpu; {choose}")
    return replace(known, memory_mib=states[0].memory_mib, price_per_hour=gpu.price_per_hour)


def _check_datasheet(gpu: Gpu) -> None:
    """Refuse figures that no time or size can be worked out with: negative, not finite, beyond any device."""
    rates = {f"tflops.{name}": rate for name, rate in gpu.tflops.items()}
    others = {key: getattr(gpu, key) for key in ("memory_mib", "memory_gb", "tdp_w", "nvlink_gbps")}
    for key, value in {"bandwidth_gbps": gpu.bandwidth_gbps, **rates, **others}.items():
        if key not in others and 0 < value < _DATASHEET_LEAST:
            raise PlanError(f"gpu.{key}", value, f"must be at least {_DATASHEET_LEAST:g}")
        if not 0 <= value <= _DATASHEET_MOST:
            raise PlanError(f"gpu.{key}", value, f"must be at least 0 and at most {_DATASHEET_MOST:g}")
    if not gpu.memory_mib and not gpu.memory_gb:
        raise PlanError("gpu.memory_gb", gpu.memory_gb, "an estimate needs the memory, in 1e9 byte")


def program_target(config: Config) -> tuple[Target, tuple[DeviceInfo, ...]]:
    """The target of a program, which needs neither PyCUDA nor nvcc: what the driver lists, no device opened. Without a
    GPU, and for ``gpu=host``, the target is the CPU."""
    states = {state.index: state for state in detect()}
    if config.gpu.backend == "host" or (config.gpu.backend == "auto" and not states):
        note = "" if config.gpu.backend == "host" else "no NVIDIA GPU found: the program's times are those of a CPU"
        info = device_info(0)
        host = _as_found(target_of(known_gpus()["host"]), [info])
        return replace(host, note=note), (info,)
    missing = [device for device in config.devices if device not in states]
    if states and missing:
        raise PlanError("devices", config.devices, f"there is no GPU {missing[0]} here; there are {len(states)}")
    chosen = [states[device] for device in config.devices] if states else []
    if config.gpu.backend == "cuda":
        check_named(config.gpu, [state.name for state in chosen])
        gpu: Gpu | None = config.gpu
    else:
        gpu = recognise(known_gpus(), chosen[0].name, chosen[0].memory_mib)
    target = target_of(gpu) if gpu else Target(name="auto", title=chosen[0].name, backend="cuda")
    infos = tuple(_listed(state, target) for state in chosen)
    return _as_found(target, infos), infos


def _listed(state: GpuState, target: Target) -> DeviceInfo:
    """A GPU as the driver lists it; what only an open device tells comes from the datasheet, or is 0."""
    return DeviceInfo(
        ordinal=state.index,
        name=state.name,
        uuid=state.uuid,
        backend="cuda",
        arch=target.arch,
        sms=target.sms,
        l2_bytes=target.l2_bytes,
        memory_bytes=state.memory_mib * 2**20,
        copy_engines=0,
        max_shared_bytes=0,
        driver=state.driver,
        cuda=state.cuda,
    )


def _lacking() -> str:
    """What keeps this process from using a GPU that is there; empty when nothing does."""
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed (pip install '.[cuda]')"
    try:
        nvcc.compiler()
    except CompilerMissing as error:
        return error.message
    return ""
