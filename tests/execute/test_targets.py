"""The target of each experiment: which devices are asked, how often, and what ``gpu=auto`` becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from runner.backend.base import DeviceInfo
from runner.backend.nvml import GpuState
from runner.build.model import CompilerMissing
from runner.config.schema import Config, Gpu, Kernel
from runner.execute import targets
from runner.execute.targets import Targets, known_gpus
from runner.plan.errors import PlanError
from runner.worker.client import WorkerKey

H200 = DeviceInfo(0, "NVIDIA H200", "GPU-1", "cuda", "sm_90a", 132, 62 << 20, 150_000_000_000, 3, 1)
CPU = DeviceInfo(0, "AMD EPYC", "HOST-1", "host", "x86_64", 2, 32 << 20, 8_000_000_000, 1, 1)
STATE = GpuState(0, "NVIDIA H200", "GPU-1", "00:01", 143_771, "580.1", "13.0")


class Devices:
    """Answers as workers would, and remembers the keys."""

    def __init__(self) -> None:
        self.asked: list[WorkerKey] = []

    def __call__(self, key: WorkerKey) -> Sequence[DeviceInfo]:
        self.asked.append(key)
        first = H200 if key.backend == "cuda" else CPU
        return [replace(first, ordinal=ordinal, memory_bytes=first.memory_bytes - ordinal) for ordinal in key.devices]


def config(gpu: Gpu, devices: Sequence[int] = (0,), **environment: str) -> Config:
    return Config(gpu=gpu, devices=list(devices), environment=environment)


def test_the_device_corrects_the_datasheet_and_the_smallest_memory_counts() -> None:
    target, infos = Targets(Devices()).of(config(known_gpus()["h200_sxm"], (0, 1)))
    assert [info.ordinal for info in infos] == [0, 1]
    assert (target.name, target.arch, target.l2_bytes) == ("h200_sxm", "sm_90a", 62 << 20)
    assert target.memory_bytes == 149_999_999_999
    assert target.bandwidth_gbps == 4800


def test_devices_are_asked_once_for_each_choice_of_them_and_environment() -> None:
    asked = Devices()
    found = Targets(asked)
    host = known_gpus()["host"]
    for chosen in ((0,), (0,), (0, 1)):
        found.of(config(host, chosen))
    found.of(config(host, OMP_NUM_THREADS="1"))
    assert [(key.devices, key.environment) for key in asked.asked] == [
        ((0,), ()),
        ((0, 1), ()),
        ((0,), (("OMP_NUM_THREADS", "1"),)),
    ]


def test_two_points_of_a_sweep_over_the_datasheet_differ() -> None:
    found = Targets(Devices())
    gpu = known_gpus()["h200_sxm"]
    slow = replace(gpu, bandwidth_gbps=4000.0)
    assert [found.of(config(each))[0].bandwidth_gbps for each in (gpu, slow)] == [4800.0, 4000.0]


def test_a_named_gpu_that_is_another_one_is_refused() -> None:
    with pytest.raises(PlanError, match=r"gpu=l4: this machine has NVIDIA H200; use gpu=auto"):
        Targets(Devices()).of(config(known_gpus()["l4"]))


def test_auto_recognises_a_gpu_by_the_drivers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_lacking", lambda: "")
    assert targets._choose([STATE]).name == "h200_sxm"
    unknown = targets._choose([replace(STATE, name="NVIDIA Z9")])
    assert (unknown.name, unknown.backend, unknown.title) == ("auto", "cuda", "NVIDIA Z9")
    assert "NVIDIA Z9 is not in conf/gpu" in unknown.note


def test_auto_falls_back_to_the_cpu_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no NVIDIA GPU found" in targets._choose([]).note

    def no_nvcc() -> str:
        raise CompilerMissing("nvcc was not found")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("runner.build.cuda.compiler", no_nvcc)
    fallen = targets._choose([STATE])
    assert fallen.backend == "host"
    assert "NVIDIA H200 found, but nvcc was not found" in fallen.note


def program(gpu: Gpu, devices: Sequence[int] = (0,)) -> Config:
    return replace(config(gpu, devices), kernel=Kernel(name="command", kind="command"))


def test_a_program_needs_no_worker_and_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "detect", lambda: [STATE, replace(STATE, index=1, uuid="GPU-2")])
    asked = Devices()
    target, infos = Targets(asked).of(program(Gpu(name="auto", backend="auto"), (1,)))
    assert (target.name, target.backend, target.note) == ("h200_sxm", "cuda", "")
    assert [(info.uuid, info.ordinal, info.driver) for info in infos] == [("GPU-2", 1, "580.1")]
    assert asked.asked == []


def test_a_program_without_a_gpu_has_times_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "detect", list)
    target, infos = Targets(Devices()).of(program(Gpu(name="auto", backend="auto")))
    assert (target.name, target.backend) == ("host", "host")
    assert "times are those of a CPU" in target.note
    assert infos[0].backend == "host"
    with pytest.raises(PlanError, match="no NVIDIA GPU found here"):
        Targets(Devices()).of(program(known_gpus()["h200_sxm"]))


def test_a_gpu_that_is_not_there_is_refused_for_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "detect", lambda: [STATE])
    with pytest.raises(PlanError, match="there is no GPU 3 here; there are 1"):
        Targets(Devices()).of(program(Gpu(name="auto", backend="auto"), (0, 3)))
    with pytest.raises(PlanError, match="this machine has NVIDIA H200"):
        Targets(Devices()).of(program(known_gpus()["h100_sxm"]))
