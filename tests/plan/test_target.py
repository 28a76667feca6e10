"""The ``gpu`` option against the hardware."""

from __future__ import annotations

import pytest

from runner.config.schema import Gpu
from runner.plan.errors import PlanError
from runner.plan.target import check_named, recognise, target_of, with_device

A100_40 = Gpu(name="a100_40_sxm", nvml_names=["NVIDIA A100-SXM4-40GB"], memory_gb=40, sms=108, l2_mb=40)
A100_80 = Gpu(name="a100_80_sxm", nvml_names=["NVIDIA A100-SXM4-80GB"], memory_gb=80, sms=108, l2_mb=40)
H200 = Gpu(name="h200_sxm", nvml_names=["NVIDIA H200"], memory_gb=141, memory_mib=143771, sms=132, l2_mb=60)
SHARED = Gpu(name="h200_other", nvml_names=["NVIDIA H200"], memory_gb=96, sms=132)
OPTIONS = {gpu.name: gpu for gpu in (A100_40, A100_80, SHARED, H200)}


def test_a_device_is_recognised_by_the_drivers_name() -> None:
    found = recognise(OPTIONS, "NVIDIA A100-SXM4-80GB", 81920)
    assert found is A100_80


def test_parts_that_share_a_name_are_told_apart_by_memory() -> None:
    assert recognise(OPTIONS, "NVIDIA H200", 143771) is H200
    assert recognise(OPTIONS, "NVIDIA H200", 98304) is SHARED


def test_an_unknown_device_is_not_taken_for_a_similar_one() -> None:
    assert recognise(OPTIONS, "NVIDIA H100", 81559) is None


def test_a_named_gpu_that_is_not_here_is_refused() -> None:
    with pytest.raises(PlanError, match=r"gpu=a100_80_sxm: this machine has NVIDIA H200; use gpu=auto"):
        check_named(A100_80, ["NVIDIA H200"])
    with pytest.raises(PlanError, match="no NVIDIA GPU found here"):
        check_named(A100_80, [])


def test_a_named_gpu_that_is_here_is_accepted() -> None:
    check_named(H200, ["nvidia h200", "NVIDIA H200 "])


def test_memory_is_what_the_driver_reports_where_known() -> None:
    assert target_of(H200).memory_bytes == 143771 * 2**20
    assert target_of(A100_80).memory_bytes == 80 * 10**9


def test_the_device_corrects_the_datasheets_structure_but_not_its_peaks() -> None:
    target = with_device(target_of(H200), arch="sm_90a", sms=66, l2_bytes=1 << 20, memory_bytes=0)
    assert (target.sms, target.l2_bytes, target.memory_bytes) == (66, 1 << 20, 143771 * 2**20)
