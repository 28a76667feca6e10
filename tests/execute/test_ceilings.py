"""The cached ceilings of a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.backend.base import DeviceInfo
from runner.execute import ceilings
from runner.result.metrics import Ceilings
from runner.worker.client import WorkerPool

INFO = DeviceInfo(0, "NVIDIA H200", "GPU-1/2", "cuda", "sm_90a", 132, 60 << 20, 1, 3, 1, driver="580.1")


def test_what_was_saved_is_loaded_for_the_same_device_and_driver_only(tmp_path: Path) -> None:
    assert ceilings.load(INFO, tmp_path) is None
    ceilings.save(INFO, tmp_path, Ceilings(4250.0, 4380.0))
    assert ceilings.load(INFO, tmp_path) == Ceilings(4250.0, 4380.0)
    assert ceilings.load(replace(INFO, driver="581.0"), tmp_path) is None
    assert ceilings.load(replace(INFO, uuid="GPU-3"), tmp_path) is None


def test_a_damaged_file_is_measured_again(tmp_path: Path) -> None:
    ceilings.save(INFO, tmp_path, Ceilings(1.0, 2.0))
    ceilings.cache_file(INFO, tmp_path).write_text("{")
    assert ceilings.load(INFO, tmp_path) is None


def test_a_cache_that_cannot_be_written_costs_only_the_next_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path / "file" / "cache"))
    kept = ceilings.DeviceCeilings(WorkerPool())
    assert kept._save(INFO, {"copy": 1.0, "read": 2.0}) == Ceilings(1.0, 2.0)
    assert ceilings.load(INFO, tmp_path / "file" / "cache") is None


def test_both_rates_are_needed() -> None:
    assert ceilings.from_rates({"copy": 1.0}) is None
    assert ceilings.from_rates({"copy": 1.0, "read": 2.0}) == Ceilings(1.0, 2.0)
