"""NVML: which GPUs there are, their clocks, temperature, power and energy. Only reads; needs no CUDA context.

A GPU is found by its UUID, never by an index: CUDA and NVML may number devices differently. Without the
package, the driver or a GPU the lists are empty, ``reason()`` says why, and nothing raises.
"""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Reading = float | int | str | bool | list[str]

THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""NVML's bits for why the SM clock is below its maximum."""

THROTTLED = frozenset({"power_cap", "hardware_slowdown", "thermal", "hardware_thermal", "power_brake"})
"""Those that make a measurement slower than the GPU could be."""

_CLOCK_LIMITS = ("APP_CLOCK_TARGET", "CUSTOMER_BOOST_MAX")
"""NVML's names of clocks that somebody set."""

_RETIREMENT_CAUSES = (0, 1)
"""NVML's causes of a page's retirement: several single-bit errors, one double-bit error."""


@dataclass(frozen=True)
class GpuState:
    """One GPU as the driver lists it."""

    index: int
    """Position among the GPUs this process sees, in PCI order; the CUDA backend's ordinal."""
    name: str
    uuid: str
    pci_bus_id: str
    memory_mib: int
    """0 where the GPU shares the system's memory and has none of its own to report."""
    driver: str
    cuda: str
    """Newest CUDA version the driver supports: ``13.0``."""


@lru_cache(maxsize=1)
def _start() -> tuple[Any, str]:
    """The library, started, and an empty reason; or None and why not."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None, "nvidia-ml-py is not installed (pip install '.[cuda]')"
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return None, f"NVML cannot start: {error}"
    atexit.register(library.nvmlShutdown)
    return library, ""


def opened() -> tuple[Any, str]:
    """The started library (``pynvml``) and an empty reason, or None and why not; for what reads more than this file."""
    return _start()


def reason() -> str:
    """Why there is no GPU to see; empty when there is one."""
    library, why = _start()
    if library is None:
        return why
    return "" if detect() else "the driver lists no GPU that this process may use"


def detect() -> list[GpuState]:
    """GPUs this process may use (``CUDA_VISIBLE_DEVICES`` applies), or none; see ``reason``."""
    library, _ = _start()
    if library is None:
        return []
    version = int(library.nvmlSystemGetCudaDriverVersion())
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    driver = str(library.nvmlSystemGetDriverVersion())
    found = []
    for index in range(int(library.nvmlDeviceGetCount())):
        handle = library.nvmlDeviceGetHandleByIndex(index)
        found.append(
            GpuState(
                index=index,
                name=str(library.nvmlDeviceGetName(handle)),
                uuid=str(library.nvmlDeviceGetUUID(handle)),
                pci_bus_id=_or_none(library, "nvmlDeviceGetPciInfo", handle, "busId") or "",
                memory_mib=int(_or_none(library, "nvmlDeviceGetMemoryInfo", handle, "total") or 0) // 2**20,
                driver=driver,
                cuda=cuda,
            )
        )
    return _visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _or_none(library: Any, function: str, handle: Any, field: str) -> Any:
    """One field of what ``function`` returns, or None where the GPU does not support it."""
    try:
        return getattr(getattr(library, function)(handle), field)
    except library.NVMLError:
        return None


def _visible(states: list[GpuState], chosen: str | None) -> list[GpuState]:
    """Applies ``CUDA_VISIBLE_DEVICES``: indices or (beginnings of) UUIDs, up to the first invalid one."""
    if chosen is None:
        return states
    seen: list[GpuState] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if entry.isdigit():
            match = [state for state in states if state.index == int(entry)]
        else:
            match = [state for state in states if entry and state.uuid.startswith(entry)]
        if len(match) != 1:
            break
        seen.append(match[0])
    return [GpuState(**{**state.__dict__, "index": place}) for place, state in enumerate(seen)]


def driver_version() -> str:
    """``580.159.04``; empty when unknown."""
    library, _ = _start()
    return str(library.nvmlSystemGetDriverVersion()) if library is not None else ""


class Gpu:
    """Readings of one GPU. What the GPU does not support reads as None."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self._library, self.reason = _start()
        self._handle: Any = None
        if self._library is not None:
            try:
                self._handle = self._library.nvmlDeviceGetHandleByUUID(uuid)
            except self._library.NVMLError as error:
                self.reason = f"NVML does not know {uuid}: {error}"

    def _read(self, function: str, *arguments: Any) -> Any:
        if self._handle is None:
            return None
        known = getattr(self._library, function, None)
        if known is None:
            return None  # an older nvidia-ml-py
        try:
            return known(self._handle, *arguments)
        except self._library.NVMLError:
            return None  # not supported by this GPU, driver or virtual machine

    def sm_clock_mhz(self) -> int | None:
        return self._clock("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")

    def memory_clock_mhz(self) -> int | None:
        return self._clock("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM")

    def max_sm_clock_mhz(self) -> int | None:
        return self._clock("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM")

    def max_memory_clock_mhz(self) -> int | None:
        return self._clock("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM")

    def _clock(self, function: str, kind: str) -> int | None:
        value = self._read(function, getattr(self._library, kind, None))
        return None if value is None else int(value)

    def limits(self) -> dict[str, int]:
        """What bounds the clocks, MHz and W, without what this GPU does not tell: the hardware's maxima, what
        ``nvidia-smi -ac`` asked for, the administrator's maximum, the power limit. Clocks locked by ``nvidia-smi -lgc``
        are told by no function of NVML."""
        library = self._library
        target, boost = (getattr(library, f"NVML_CLOCK_ID_{name}", None) for name in _CLOCK_LIMITS)
        sm, memory = (getattr(library, f"NVML_CLOCK_{name}", None) for name in ("SM", "MEM"))
        watts = self.power_limit_w()
        values = {
            "max_sm_clock_mhz": self.max_sm_clock_mhz(),
            "max_memory_clock_mhz": self.max_memory_clock_mhz(),
            "target_sm_clock_mhz": self._read("nvmlDeviceGetClock", sm, target),
            "target_memory_clock_mhz": self._read("nvmlDeviceGetClock", memory, target),
            "boost_sm_clock_mhz": self._read("nvmlDeviceGetClock", sm, boost),
            "power_limit_w": None if watts is None else round(watts),
        }
        return {name: int(value) for name, value in values.items() if value is not None}

    def temperature_c(self) -> int | None:
        value = self._read("nvmlDeviceGetTemperature", getattr(self._library, "NVML_TEMPERATURE_GPU", None))
        return None if value is None else int(value)

    def power_w(self) -> float | None:
        value = self._read("nvmlDeviceGetPowerUsage")
        return None if value is None else value / 1e3

    def power_limit_w(self) -> float | None:
        value = self._read("nvmlDeviceGetEnforcedPowerLimit")
        return None if value is None else value / 1e3

    def utilization_pct(self) -> tuple[int, int] | None:
        """Share of the driver's last sampling period in which a kernel ran, and in which memory was busy, percent.
        One small kernel at a time gives 100: no sign of what bounds it."""
        value = self._read("nvmlDeviceGetUtilizationRates")
        return None if value is None else (int(value.gpu), int(value.memory))

    def memory_bytes(self) -> tuple[int, int] | None:
        """In use and in all; None where the GPU shares the system's memory."""
        value = self._read("nvmlDeviceGetMemoryInfo")
        return None if value is None else (int(value.used), int(value.total))

    def compute_pids(self) -> list[int] | None:
        """Numbers of the processes that have a compute context on the GPU, as the driver counts them."""
        value = self._read("nvmlDeviceGetComputeRunningProcesses")
        return None if value is None else [int(process.pid) for process in value]

    def energy_mj(self) -> int | None:
        """Energy since the driver was loaded, millijoules."""
        value = self._read("nvmlDeviceGetTotalEnergyConsumption")
        return None if value is None else int(value)

    def throttle_reasons(self) -> list[str] | None:
        """Names from ``THROTTLE_REASONS``; an empty list when the clock is where it should be."""
        newer = hasattr(self._library, "nvmlDeviceGetCurrentClocksEventReasons")
        bits = self._read(f"nvmlDeviceGetCurrentClocks{'Event' if newer else 'Throttle'}Reasons")
        if bits is None:
            return None
        return [name for bit, name in THROTTLE_REASONS.items() if int(bits) & bit]

    def _mode(self, function: str) -> bool | None:
        value = self._read(function)
        return None if value is None else bool(value[0] if isinstance(value, list) else value)

    def health(self) -> dict[str, Reading | None]:
        """Faults of the memory: ECC errors since the driver was loaded and over the GPU's life, pages retired (older
        GPUs) or rows remapped (Ampere and newer) for them, and whether a remapping waits for a reset or failed."""
        rows = self._read("nvmlDeviceGetRemappedRows")
        retired = [self._read("nvmlDeviceGetRetiredPages", cause) for cause in _RETIREMENT_CAUSES]
        return {
            "ecc_corrected": self._ecc_errors("CORRECTED", "VOLATILE"),
            "ecc_uncorrected": self._ecc_errors("UNCORRECTED", "VOLATILE"),
            "ecc_corrected_ever": self._ecc_errors("CORRECTED", "AGGREGATE"),
            "ecc_uncorrected_ever": self._ecc_errors("UNCORRECTED", "AGGREGATE"),
            "retired_pages": None if None in retired else sum(len(pages) for pages in retired),
            "remapped_rows": None if rows is None else int(rows[0]) + int(rows[1]),
            "remap_pending": None if rows is None else bool(rows[2]),
            "remap_failed": None if rows is None else bool(rows[3]),
        }

    def _ecc_errors(self, kind: str, counter: str) -> int | None:
        kinds = {"CORRECTED": 0, "UNCORRECTED": 1}
        counters = {"VOLATILE": 0, "AGGREGATE": 1}
        value = self._read("nvmlDeviceGetTotalEccErrors", kinds[kind], counters[counter])
        return None if value is None else int(value)

    def snapshot(self) -> dict[str, Reading]:
        """Everything the GPU tells, without what it does not support."""
        values: dict[str, Reading | None] = {
            "sm_clock_mhz": self.sm_clock_mhz(),
            "memory_clock_mhz": self.memory_clock_mhz(),
            "max_sm_clock_mhz": self.max_sm_clock_mhz(),
            "max_memory_clock_mhz": self.max_memory_clock_mhz(),
            "temperature_c": self.temperature_c(),
            "power_w": self.power_w(),
            "power_limit_w": self.power_limit_w(),
            "throttle_reasons": self.throttle_reasons(),
            "ecc": self._mode("nvmlDeviceGetEccMode"),
            "persistence": self._mode("nvmlDeviceGetPersistenceMode"),
            "mig": self._mode("nvmlDeviceGetMigMode"),
            **self.health(),
        }
        return {name: value for name, value in values.items() if value is not None}


def snapshot(uuid: str) -> dict[str, Reading]:
    """Clocks, temperature, power, modes and health of one GPU; empty when there is no NVML or no such GPU."""
    return Gpu(uuid).snapshot()


def snapshots(uuids: Sequence[str]) -> dict[str, Any]:
    """The first GPU's snapshot, and under ``others`` those of the rest by UUID, where there are more than one."""
    if not uuids:
        return {}
    others = {uuid: snapshot(uuid) for uuid in uuids[1:]}
    return {**snapshot(uuids[0]), **({"others": others} if others else {})}


class EnergyMeter:
    """Energy of one or several GPUs between ``start`` and ``stop``, from their own counters (updated every 20 to 100
    ms)."""

    def __init__(self, *uuids: str) -> None:
        self._gpus = [Gpu(uuid) for uuid in uuids]
        self._before: list[int | None] = [None for _ in uuids]

    def start(self) -> None:
        self._before = [gpu.energy_mj() for gpu in self._gpus]

    def stop(self) -> float | None:
        """Millijoules since ``start``, of all together; None where one of them has no counter."""
        spent = 0
        for before, gpu in zip(self._before, self._gpus, strict=True):
            after = gpu.energy_mj()
            if before is None or after is None:
                return None
            spent += after - before
        return float(spent)
