"""Rates that no device has."""

from __future__ import annotations

import pytest

from runner.plan.model import Target, Variant
from runner.plan.target import several
from runner.result.model import Series
from runner.result.physics import above_peak

H200 = Target("h200_sxm", "H200 SXM", "cuda", bandwidth_gbps=4800.0, tflops={"float16": 989.0})
CPU = Target("host", "host CPU", "host", bandwidth_gbps=50.0)
ONE = Variant("v", (), (), 10**9, 0, 10**12, "float16", "float16")
COLD = [Series("cold", "cuda_events", [100.0])]
HOT = [Series("hot", "cuda_events", [100.0])]


def found(gbps: float = 0.0, tflops: float = 0.0) -> dict[str, float]:
    return {"time_us": 100.0, "gbps": gbps, "tflops": tflops}


def test_a_bandwidth_is_named_with_all_that_it_follows_from() -> None:
    said = above_peak(ONE, COLD, found(gbps=10_000), H200)
    for part in ("10000 GB/s", "4800 GB/s of H200 SXM", "208 %", "1000000000 per step", "100 µs"):
        assert part in said


@pytest.mark.parametrize(("gbps", "wrong"), [(4800.0, False), (4890.0, False), (4900.0, True)])
def test_memory_may_run_two_percent_above_its_datasheet(gbps: float, wrong: bool) -> None:
    assert bool(above_peak(ONE, COLD, found(gbps=gbps), H200)) is wrong


@pytest.mark.parametrize(("tflops", "wrong"), [(1070.0, False), (1100.0, True)])
def test_tensor_cores_may_run_at_a_higher_clock_than_the_datasheets(tflops: float, wrong: bool) -> None:
    said = above_peak(ONE, HOT, found(tflops=tflops), H200)
    assert bool(said) is wrong
    assert not wrong or "989 TFLOP/s of H200 SXM in float16" in said


def test_caches_that_were_not_flushed_may_be_faster_than_memory() -> None:
    assert above_peak(ONE, HOT, found(gbps=10_000), H200) == ""


def test_several_devices_have_several_memories() -> None:
    assert above_peak(ONE, COLD, found(gbps=9_000), several(H200, 2)) == ""
    assert "9600 GB/s of 2 x H200 SXM" in above_peak(ONE, COLD, found(gbps=10_000), several(H200, 2))


def test_the_peak_of_a_cpu_is_not_physical() -> None:
    assert above_peak(ONE, COLD, found(gbps=10_000), CPU) == ""


def test_nothing_is_said_without_a_datasheet() -> None:
    assert above_peak(ONE, COLD, found(10_000, 10_000), Target("auto", "GPU", "cuda")) == ""
