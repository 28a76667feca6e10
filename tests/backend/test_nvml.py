"""NVML through a pretended library: what is listed, what is read, and what happens where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from runner.backend import nvml


class NVMLError(Exception):
    pass


class FakeNvml(ModuleType):
    """Two GPUs. Every function takes the index as its handle."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_CLOCK_ID_APP_CLOCK_TARGET, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 1, 3

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.energy = [1000, 1750]
        self.unsupported: set[str] = set()

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        if uuid not in ("GPU-a0", "GPU-b1"):
            raise NVMLError("Not Found")
        return int(uuid[-1])

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA Fake"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return ("GPU-a0", "GPU-b1")[handle]

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"0000:0{handle}:00.0")

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        if "memory" in self.unsupported:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=16 << 30, used=4 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        if "utilization" in self.unsupported:
            raise NVMLError("Not Supported")
        return SimpleNamespace(gpu=97, memory=41)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return {1: 1755, 2: 3201}[kind]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetClock(self, handle: int, kind: int, which: int) -> int:
        if which == 3:
            raise NVMLError("Not Supported")
        return {1: 1410, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 41

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 123_456

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return 0x24

    def nvmlDeviceGetEccMode(self, handle: int) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:
        return 0

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        raise NVMLError("Not Supported")

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        if not self.energy:
            raise NVMLError("Not Supported")
        return self.energy.pop(0)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml._start.cache_clear()
    yield fake
    nvml._start.cache_clear()


def test_every_gpu_is_listed_with_driver_and_memory(library: FakeNvml) -> None:
    first, second = nvml.detect()
    assert first == nvml.GpuState(0, "NVIDIA Fake", "GPU-a0", "0000:00:00.0", 16384, "580.1", "13.0")
    assert second.uuid == "GPU-b1"
    assert nvml.reason() == ""
    assert nvml.driver_version() == "580.1"


def test_a_gpu_without_memory_of_its_own_is_listed(library: FakeNvml) -> None:
    library.unsupported.add("memory")
    assert [state.memory_mib for state in nvml.detect()] == [0, 0]


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        ("1", ["GPU-b1"]),
        ("1,0", ["GPU-b1", "GPU-a0"]),
        ("GPU-b", ["GPU-b1"]),
        ("0,7,1", ["GPU-a0"]),
        ("GPU-", []),
        ("", []),
        ("-1", []),
    ],
)
def test_cuda_visible_devices_applies(
    library: FakeNvml, monkeypatch: pytest.MonkeyPatch, visible: str, uuids: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    states = nvml.detect()
    assert [state.uuid for state in states] == uuids
    assert [state.index for state in states] == list(range(len(uuids)))
    assert bool(nvml.reason()) is not bool(uuids)


def test_a_snapshot_leaves_out_what_is_not_supported(library: FakeNvml) -> None:
    assert nvml.snapshot("GPU-b1") == {
        "sm_clock_mhz": 1755,
        "memory_clock_mhz": 3201,
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "temperature_c": 41,
        "power_w": 123.456,
        "power_limit_w": 700.0,
        "throttle_reasons": ["power_cap", "thermal"],
        "ecc": True,
        "persistence": False,
    }


def test_health_is_read_where_the_gpu_tells(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {(0, 0): 3, (1, 0): 0, (0, 1): 17, (1, 1): 1}
    monkeypatch.setattr(library, "nvmlDeviceGetTotalEccErrors", lambda h, kind, which: counts[kind, which], False)
    monkeypatch.setattr(library, "nvmlDeviceGetRemappedRows", lambda h: (2, 1, 0, 1), False)
    monkeypatch.setattr(library, "nvmlDeviceGetRetiredPages", lambda h, cause: [4096] * cause, False)
    assert nvml.Gpu("GPU-a0").health() == {
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
        "ecc_corrected_ever": 17,
        "ecc_uncorrected_ever": 1,
        "retired_pages": 1,
        "remapped_rows": 3,
        "remap_pending": False,
        "remap_failed": True,
    }


def test_the_state_of_several_gpus_keeps_the_first_one_on_top(library: FakeNvml) -> None:
    one = nvml.snapshot("GPU-a0")
    assert nvml.snapshots(["GPU-a0"]) == one
    assert nvml.snapshots(["GPU-a0", "GPU-b1"]) == {**one, "others": {"GPU-b1": nvml.snapshot("GPU-b1")}}
    assert nvml.snapshots([]) == {}


def test_memory_and_utilisation_are_read_where_the_gpu_tells(library: FakeNvml) -> None:
    gpu = nvml.Gpu("GPU-b1")
    assert (gpu.memory_bytes(), gpu.utilization_pct()) == ((4 << 30, 16 << 30), (97, 41))
    library.unsupported |= {"memory", "utilization"}
    assert (gpu.memory_bytes(), gpu.utilization_pct()) == (None, None)


def test_an_unknown_uuid_reads_nothing_and_says_why(library: FakeNvml) -> None:
    assert nvml.snapshot("GPU-zz") == {}
    assert nvml.Gpu("GPU-zz").reason == "NVML does not know GPU-zz: Not Found"


def test_energy_is_the_difference_of_the_counter(library: FakeNvml) -> None:
    meter = nvml.EnergyMeter("GPU-a0")
    meter.start()
    assert meter.stop() == 750.0


def test_no_energy_counter_gives_none(library: FakeNvml) -> None:
    library.energy.clear()
    meter = nvml.EnergyMeter("GPU-a0")
    meter.start()
    assert meter.stop() is None


def test_without_the_package_there_is_a_reason_and_nothing_raises(
    library: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml._start.cache_clear()
    assert nvml.detect() == []
    assert "nvidia-ml-py is not installed" in nvml.reason()
    assert nvml.snapshot("GPU-a0") == {}
    assert nvml.EnergyMeter("GPU-a0").stop() is None
    assert nvml.driver_version() == ""


def test_without_a_driver_there_is_a_reason(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NVMLError("NVML Shared Library Not Found")

    monkeypatch.setattr(library, "nvmlInit", fail)
    nvml._start.cache_clear()
    assert nvml.detect() == []
    assert nvml.reason() == "NVML cannot start: NVML Shared Library Not Found"


def test_energy_of_several_gpus_is_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: dict[str, list[int | None]] = {"a": [100, 130], "b": [1000, 1007], "c": [None, 5]}
    monkeypatch.setattr(nvml.Gpu, "energy_mj", lambda self: readings[self.uuid].pop(0))
    both, lacking = nvml.EnergyMeter("a", "b"), nvml.EnergyMeter("c")
    for meter in (both, lacking):
        meter.start()
    assert (both.stop(), lacking.stop()) == (37.0, None)


def test_limits_are_those_that_this_gpu_tells(library: FakeNvml) -> None:
    assert nvml.Gpu("GPU-b1").limits() == {
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "target_sm_clock_mhz": 1410,
        "target_memory_clock_mhz": 3201,
        "power_limit_w": 700,
    }
    assert nvml.Gpu("GPU-unknown").limits() == {}


def test_processes_are_listed_where_the_driver_tells(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [SimpleNamespace(pid=17, usedGpuMemory=None), SimpleNamespace(pid=4711, usedGpuMemory=1 << 30)]
    monkeypatch.setattr(library, "nvmlDeviceGetComputeRunningProcesses", lambda handle: listed, raising=False)
    assert nvml.Gpu("GPU-a0").compute_pids() == [17, 4711]
    assert nvml.Gpu("GPU-zz").compute_pids() is None
