"""How the GPUs of this machine hang together, as ``nvidia-smi topo -m`` says it, but read through NVML.

For every pair: NVLink lanes or the nearest common point on PCIe, and whether one may read and write the other's
memory. For every GPU: its PCIe link, its NVLinks, and the CPU cores and memory node next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runner.backend import nvml

PATHS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's levels of the common ancestor, under the names that ``nvidia-smi`` prints."""
LEGEND = {
    "X": "itself",
    "NV#": "that many NVLinks, directly or through NVSwitches",
    "PSB": "one board",
    "PIX": "at most one PCIe bridge",
    "PXB": "several PCIe bridges, no host bridge",
    "PHB": "a PCIe host bridge (the CPU)",
    "NODE": "host bridges within one NUMA node",
    "SYS": "the link between NUMA nodes",
    "?": "unknown",
}
_LINKS = {
    "PSB": "one board",
    "PIX": "PCIe switch",
    "PXB": "PCIe switches",
    "PHB": "PCIe host bridge",
    "NODE": "PCIe host bridges of one NUMA node",
    "SYS": "across sockets",
}
PEER = {
    0: "OK",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "not supported by the topology",
    4: "disabled by a registry key",
    5: "not supported",
}
"""NVML's peer-to-peer status."""
_MAX_LINKS = 18
"""``NVML_NVLINK_MAX_LINKS``."""
_SWITCH = 2
"""``NVML_NVLINK_DEVICE_TYPE_SWITCH``."""
_WORD = 64
"""Bits per word of NVML's masks on a 64-bit system."""


@dataclass(frozen=True)
class Place:
    """One GPU and what it hangs on."""

    index: int
    name: str
    pci: str
    pcie: str
    """``gen5 x16 (of gen5 x16)``: the link now, and at most; empty when unknown. An idle GPU may lower its link."""
    nvlinks: int
    """Active ones."""
    nvlink_version: int
    """0 without NVLink."""
    cpus: str
    """Cores next to it, ``0-55,112-167``."""
    numa: str
    """Memory nodes next to it."""


@dataclass(frozen=True)
class Pair:
    """What lies between two GPUs."""

    first: int
    second: int
    path: str
    """``NV18``, or one of ``PATHS``; ``?`` when unknown."""
    read: str
    """Whether the first may read the second's memory: one of ``PEER``, or ``?``."""
    write: str
    """As ``read``."""


@lru_cache(maxsize=1)
def places() -> tuple[Place, ...]:
    """The GPUs this process may use; none without NVML."""
    library, _ = nvml.opened()
    found = []
    for state, handle in _handles(library):
        links = _links(library, handle)
        versions = [_ask(library, "nvmlDeviceGetNvLinkVersion", handle, link) for link in links]
        found.append(
            Place(
                index=state.index,
                name=state.name,
                pci=state.pci_bus_id,
                pcie=_pcie(library, handle),
                nvlinks=len(links),
                nvlink_version=max((int(version) for version in versions if version is not None), default=0),
                cpus=_bits(_ask(library, "nvmlDeviceGetCpuAffinity", handle, 16)),
                numa=_bits(_ask(library, "nvmlDeviceGetMemoryAffinity", handle, 4, 0)),
            )
        )
    return tuple(found)


@lru_cache(maxsize=1)
def pairs() -> tuple[Pair, ...]:
    """Every ordered pair of different GPUs."""
    library, _ = nvml.opened()
    handles = _handles(library)
    return tuple(
        Pair(
            first=one.index,
            second=two.index,
            path=_path(library, (a, one), (b, two)),
            read=_peer(library, a, b, 0),
            write=_peer(library, a, b, 1),
        )
        for one, a in handles
        for two, b in handles
        if one.index != two.index
    )


def path(first: int, second: int) -> str:
    """What lies between two GPUs, as ``Pair.path``; ``?`` when unknown."""
    return next((pair.path for pair in pairs() if (pair.first, pair.second) == (first, second)), "?")


def nvlinks(first: int, second: int) -> int | None:
    """NVLinks between two GPUs; None when unknown."""
    between = path(first, second)
    return None if between == "?" else _count(between)


def link(between: str) -> str:
    """A ``Pair.path`` in words: ``NVLink`` and how many, ``PCIe switch``, ``PCIe host bridge``, ``across sockets``."""
    count = _count(between)
    return f"NVLink ({count})" if count else _LINKS.get(between, "unknown")


def _count(between: str) -> int:
    return int(between[2:]) if between.startswith("NV") else 0


def text() -> str:
    """The whole topology for a reader; empty without a GPU."""
    gpus = places()
    if not gpus:
        return ""
    between = {(pair.first, pair.second): pair for pair in pairs()}
    names = [f"GPU{gpu.index}" for gpu in gpus]
    rows = [["", *names, "CPU affinity", "NUMA affinity", "NVLinks", "PCIe", "bus", "name"]]
    for gpu in gpus:
        row = ["X" if gpu is other else between[gpu.index, other.index].path for other in gpus]
        links = f"{gpu.nvlinks} (version {gpu.nvlink_version})" if gpu.nvlinks else "none"
        rows.append([f"GPU{gpu.index}", *row, gpu.cpus, gpu.numa, links, gpu.pcie, gpu.pci, gpu.name])
    lines = _aligned(rows)
    if len(gpus) > 1:
        lines += ["", "Peer access (row reads and writes column):"]
        table = [["", *names]]
        for gpu in gpus:
            cells = ["X" if gpu is other else _access(between[gpu.index, other.index]) for other in gpus]
            table.append([f"GPU{gpu.index}", *cells])
        lines += _aligned(table)
        lines += ["", *(f"{sign:<5}{meaning}" for sign, meaning in LEGEND.items())]
    return "\n".join(lines) + "\n"


def _access(pair: Pair) -> str:
    return pair.read if pair.read == pair.write else f"read {pair.read}, write {pair.write}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _handles(library: Any) -> list[tuple[nvml.GpuState, Any]]:
    if library is None:
        return []
    return [(state, library.nvmlDeviceGetHandleByUUID(state.uuid)) for state in nvml.detect()]


def _ask(library: Any, function: str, *arguments: Any) -> Any:
    """What NVML says; None where the GPU, the driver or an older ``nvidia-ml-py`` does not know."""
    known = getattr(library, function, None)
    if known is None:
        return None
    try:
        return known(*arguments)
    except library.NVMLError:
        return None


def _links(library: Any, handle: Any) -> list[int]:
    """Numbers of the active NVLinks."""
    return [link for link in range(_MAX_LINKS) if _ask(library, "nvmlDeviceGetNvLinkState", handle, link) == 1]


def _path(library: Any, one: tuple[Any, nvml.GpuState], two: tuple[Any, nvml.GpuState]) -> str:
    links = _links_between(library, one, two)
    if links:
        return f"NV{links}"
    level = _ask(library, "nvmlDeviceGetTopologyCommonAncestor", one[0], two[0])
    return PATHS.get(level, "?") if level is not None else "?"


def _links_between(library: Any, one: tuple[Any, nvml.GpuState], two: tuple[Any, nvml.GpuState]) -> int:
    """NVLinks that end at the other GPU, or, where both hang on switches, what the narrower of the two has there."""
    direct = 0
    for link in _links(library, one[0]):
        remote = _ask(library, "nvmlDeviceGetNvLinkRemotePciInfo", one[0], link)
        if remote is not None and str(remote.busId) == two[1].pci_bus_id:
            direct += 1
    return direct or min(_switch_links(library, one[0]), _switch_links(library, two[0]))


def _switch_links(library: Any, handle: Any) -> int:
    asked = (_ask(library, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) for link in _links(library, handle))
    return sum(kind == _SWITCH for kind in asked)


def _peer(library: Any, one: Any, two: Any, capability: int) -> str:
    status = _ask(library, "nvmlDeviceGetP2PStatus", one, two, capability)
    return PEER.get(status, "?") if status is not None else "?"


def _pcie(library: Any, handle: Any) -> str:
    asked = (
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkWidth",
    )
    now, width, most, widest = (_ask(library, function, handle) for function in asked)
    if None in (now, width):
        return ""
    return f"gen{now} x{width}" + (f" (of gen{most} x{widest})" if None not in (most, widest) else "")


def _bits(words: Sequence[int] | None) -> str:
    """The set bits of a mask as ranges: ``0-3,8``; empty when unknown."""
    if words is None:
        return ""
    numbers = [word * _WORD + bit for word, value in enumerate(words) for bit in range(_WORD) if int(value) >> bit & 1]
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
