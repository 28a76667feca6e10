"""What this machine is: the facts behind a virtual device's ``DeviceInfo``."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import uuid
from functools import lru_cache
from pathlib import Path

import psutil

from runner.backend.base import DeviceInfo

MAX_SHARED_BYTES = 227 * 1024
"""Dynamic shared memory a block may ask for; that of sm_90, and the size of each thread's buffer in ``worker.h``."""


def device_info(ordinal: int) -> DeviceInfo:
    """The virtual device ``ordinal``: every one is the whole machine."""
    return DeviceInfo(
        ordinal=ordinal,
        name=cpu_model(),
        uuid=f"HOST-{uuid.uuid5(uuid.NAMESPACE_OID, f'{machine_id()}/{ordinal}')}",
        backend="host",
        arch=platform.machine(),
        sms=cores(),
        l2_bytes=last_level_cache(),
        memory_bytes=min(psutil.virtual_memory().total, _cgroup("memory.max") or 2**63),
        copy_engines=1,
        max_shared_bytes=MAX_SHARED_BYTES,
    )


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that can be taken without swapping, the control group's limit included."""
    available = int(psutil.virtual_memory().available)
    limit = _cgroup("memory.max")
    if limit is None:
        return available
    return max(0, min(available, limit - (_cgroup("memory.current") or 0)))


def _cgroup(name: str) -> int | None:
    """A number of this process's control group (version 2); None where there is none or no limit."""
    try:
        group = re.search(r"^0::(.+)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        text = Path(f"/sys/fs/cgroup{group[1].rstrip('/') if group else ''}/{name}").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The CPU's own name, ``AMD EPYC 7B13`` say."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def last_level_cache() -> int:
    """Bytes of the largest cache the first core uses; 0 when the system does not say."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "": 1}
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
        if found:
            sizes.append(int(found[1]) * units[found[2]])
    for key in ("hw.l3cachesize", "hw.l2cachesize"):
        sizes.append(int(_sysctl(key) or 0))
    return max(sizes)


@lru_cache(maxsize=1)
def machine_id() -> str:
    """Something that stays the same on this machine."""
    path = Path("/etc/machine-id")
    text = path.read_text().strip() if path.is_file() else ""
    return text or f"{platform.node()}-{uuid.getnode():012x}"


def _sysctl(key: str) -> str:
    """A macOS system value; empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    done = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()
