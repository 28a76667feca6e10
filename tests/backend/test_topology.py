"""Topology through a pretended NVML: NVLinks, PCIe levels, peers, masks, and what is not supported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runner.backend import nvml, topology
from tests.backend.test_nvml import FakeNvml, NVMLError


class Linked(FakeNvml):
    """Two GPUs side by side; ``links`` active NVLinks each, to a switch or to each other."""

    def __init__(self, links: int = 0, switch: bool = False, level: int = 20) -> None:
        super().__init__()
        self.links, self.switch, self.level = links, switch, level

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if not self.links:
            raise NVMLError("Not Supported")
        return int(link < self.links)

    def nvmlDeviceGetNvLinkVersion(self, handle: int, link: int) -> int:
        return 7

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        return SimpleNamespace(busId="0000:ff:00.0" if self.switch else f"0000:0{1 - handle}:00.0")

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        return 2 if self.switch else 0

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, two: int) -> int:
        return self.level

    def nvmlDeviceGetP2PStatus(self, one: int, two: int, capability: int) -> int:
        return 0 if self.links or capability == 0 else 3

    def nvmlDeviceGetCpuAffinity(self, handle: int, words: int) -> list[int]:
        return [0b1111, 0b1, *[0] * (words - 2)] if handle == 0 else [1 << 63, 1, *[0] * (words - 2)]

    def nvmlDeviceGetMemoryAffinity(self, handle: int, words: int, scope: int) -> list[int]:
        return [1 << handle]

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        return 1

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        return 16

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return 16


def forget() -> None:
    for cached in (nvml._start, topology.places, topology.pairs):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    forget()
    yield
    forget()


def use(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)


@pytest.mark.parametrize(
    ("library", "path"),
    [
        (Linked(links=12), "NV12"),
        (Linked(links=18, switch=True), "NV18"),
        (Linked(level=20), "PXB"),
        (Linked(level=50), "SYS"),
        (FakeNvml(), "?"),
    ],
    ids=["direct links", "switch", "bridges", "sockets", "an old library"],
)
def test_what_lies_between_two_gpus(monkeypatch: pytest.MonkeyPatch, library: FakeNvml, path: str) -> None:
    use(monkeypatch, library)
    assert [(pair.first, pair.second, pair.path) for pair in topology.pairs()] == [(0, 1, path), (1, 0, path)]


def test_each_gpu_says_what_it_hangs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Linked(links=18, switch=True))
    first, second = topology.places()
    assert (first.nvlinks, first.nvlink_version) == (18, 7)
    assert (first.cpus, first.numa) == ("0-3,64", "0")
    assert (second.cpus, second.numa) == ("63-64", "1")
    assert first.pcie == "gen1 x16 (of gen5 x16)"


def test_the_text_is_a_table_with_a_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Linked(level=30))
    lines = topology.text().splitlines()
    assert lines[:5] == [
        "      GPU0  GPU1  CPU affinity  NUMA affinity  NVLinks  PCIe                    bus           name",
        "GPU0  X     PHB   0-3,64        0              none     gen1 x16 (of gen5 x16)  0000:00:00.0  NVIDIA Fake",
        "GPU1  PHB   X     63-64         1              none     gen1 x16 (of gen5 x16)  0000:01:00.0  NVIDIA Fake",
        "",
        "Peer access (row reads and writes column):",
    ]
    assert lines[6].split(maxsplit=2) == ["GPU0", "X", "read OK, write not supported by the topology"]
    assert "PHB  a PCIe host bridge" in topology.text()


def test_one_gpu_needs_no_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    use(monkeypatch, Linked(links=4))
    lines = topology.text().splitlines()
    assert len(lines) == 2
    assert "GPU-b1" not in lines[1] and "4 (version 7)" in lines[1]
    assert topology.pairs() == ()


def test_without_nvml_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert not topology.places() and not topology.pairs()
    assert topology.text() == ""


def test_what_lies_between_two_gpus_in_words() -> None:
    made = (topology.Pair(0, 1, "NV18", "OK", "OK"), topology.Pair(1, 0, "SYS", "OK", "OK"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology, "pairs", lambda: made)
        assert [topology.path(0, 1), topology.path(1, 0), topology.path(0, 2)] == ["NV18", "SYS", "?"]
        assert [topology.nvlinks(0, 1), topology.nvlinks(1, 0), topology.nvlinks(0, 2)] == [18, 0, None]
    words = [topology.link(path) for path in ("NV18", "PIX", "SYS", "?")]
    assert words == ["NVLink (18)", "PCIe switch", "across sockets", "unknown"]
