"""What a GPU says about itself."""

from __future__ import annotations

import uuid
from typing import Any

from runner.backend import nvml
from runner.backend.base import DeviceInfo
from runner.backend.cuda.errors import Errors
from runner.backend.cuda.libraries import Libraries


def architecture(major: int, minor: int) -> str:
    """``sm_90a`` and so on. From 9.0 on the ``a`` gives the instructions that only this very chip has."""
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def device_info(libraries: Libraries, errors: Errors, native: Any, ordinal: int) -> DeviceInfo:
    """Asks the driver; needs no context."""
    bindings = libraries.bindings
    handle = errors.check(bindings.cuDeviceGet(ordinal), "open a device")

    def attribute(name: str) -> int:
        code = getattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(errors.check(bindings.cuDeviceGetAttribute(code, handle), f"read the device's {name}"))

    raw = errors.check(bindings.cuDeviceGetUuid(handle), "read the device's UUID")
    version = int(errors.check(bindings.cuDriverGetVersion(), "read the driver's version"))
    major, minor = native.compute_capability()
    return DeviceInfo(
        ordinal=ordinal,
        name=str(native.name()),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(raw.bytes))}",
        backend="cuda",
        arch=architecture(major, minor),
        sms=attribute("MULTIPROCESSOR_COUNT"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        memory_bytes=int(native.total_memory()),
        copy_engines=attribute("ASYNC_ENGINE_COUNT"),
        max_shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        driver=nvml.driver_version(),
        cuda=f"{version // 1000}.{version % 1000 // 10}",
    )
