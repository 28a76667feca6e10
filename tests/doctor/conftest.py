"""Pretended executables and a pretended NVML."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.backend import nvml, topology
from tests.backend.test_topology import Linked


@pytest.fixture
def pretend(tmp_path: Path) -> Callable[[str, str], Path]:
    """An executable called ``name`` that runs the given shell commands."""

    def make(name: str, body: str) -> Path:
        path = tmp_path / "pretend" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Linked]:
    """Two GPUs that are linked."""
    caches = (nvml._start, topology.places, topology.pairs)
    for cached in caches:
        cached.cache_clear()
    fake = Linked(links=18, switch=True)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield fake
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def no_nvml(library: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
