"""The thread that feeds a GPU stays on the cores next to it, and goes back."""

from __future__ import annotations

import os

import pytest

from runner.backend import affinity, topology
from runner.backend.affinity import Bound, numbers


def place(cpus: str) -> topology.Place:
    return topology.Place(index=1, name="GPU", pci="", pcie="", nvlinks=0, nvlink_version=0, cpus=cpus, numa="0")


def test_ranges_of_cores() -> None:
    assert numbers("0-2,8,10-11") == [0, 1, 2, 8, 10, 11]
    assert numbers("") == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_bound_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    chosen = min(before)
    monkeypatch.setattr(topology, "places", lambda: (place(f"{chosen},100000"),))
    bound = Bound(1, on_gpu=True)
    try:
        assert bound.cores == {chosen} == os.sched_getaffinity(0)
    finally:
        bound.close()
    assert os.sched_getaffinity(0) == before
    bound.close()


@pytest.mark.parametrize(
    ("ordinal", "on_gpu", "cpus"), [(0, True, "0"), (1, False, "0"), (1, True, ""), (1, True, "99999")]
)
def test_unknown_cores_leave_it_where_it_is(
    ordinal: int, on_gpu: bool, cpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "places", lambda: (place(cpus),))
    before = affinity.allowed()
    bound = Bound(ordinal, on_gpu)
    assert (bound.cores, affinity.allowed()) == (frozenset(), before)
    bound.close()
