"""What becomes of an outcome: status, quality and doubts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.execute.about import About
from runner.execute.assemble import result
from runner.plan.model import Buffer, Target, Variant
from runner.result.metrics import Ceilings
from runner.result.model import CheckResult, Quality, Result, Series, Status
from runner.verdict.of_result import measured
from runner.worker.protocol import Outcome
from tests.plan.plans import plan_with

ABOUT = About("s", "e", "k", "decode", "", "", {}, {}, [], "", {}, {})
H200 = Target("h200_sxm", "H200 SXM", "cuda", bandwidth_gbps=4800.0)


def made(target: Target, *samples: float, outcome: Outcome | None = None) -> Result:
    variant = Variant("a", (), (), 10**9, 0, 0, "float32")
    plan = replace(plan_with(variants=(variant,), baseline="a"), target=target)
    outcome = outcome or Outcome("a", Status.PASSED)
    outcome.series = [Series("cold", "cuda_events", list(samples), stop_reason="rsd")]
    return result(ABOUT, plan, outcome, Ceilings(), 0.005)


def test_more_than_the_peak_is_an_error_and_no_record() -> None:
    found = made(H200, 100.0, 100.0)
    assert (found.status, found.quality) == (Status.INCORRECT, Quality.ABOVE_PEAK)
    assert "10000 GB/s is above the 4800 GB/s of H200 SXM" in found.message
    assert found.warnings == []
    assert found.metrics["gbps"] == pytest.approx(10_000)


def test_what_failed_before_keeps_its_reason() -> None:
    outcome = Outcome("a", Status.INCORRECT, "[out] differs", [CheckResult("out", False)])
    found = made(H200, 100.0, 100.0, outcome=outcome)
    assert (found.status, found.message) == (Status.INCORRECT, "[out] differs")
    assert any("above the 4800 GB/s" in text for text in found.warnings)


def test_a_cpu_is_not_judged_by_a_peak() -> None:
    assert made(Target("host", "host CPU", "host", bandwidth_gbps=50.0), 100.0, 100.0).status is Status.PASSED


def test_flags_are_said_in_words() -> None:
    found = made(H200, *[300.0] * 30, 400.0, *[300.0] * 5)
    assert (found.flags, found.warnings) == ([], [])
    found = made(H200, 400.0, *[300.0] * 30)
    assert found.flags == ["first_outlier"]
    assert found.warnings == [
        "the first sample took 400 µs, the median is 300 µs: a longer warm-up is needed (measure.warmup=)"
    ]


@pytest.mark.parametrize(("flops", "compute"), [(8, "bfloat16"), (0, "")])
def test_the_arithmetic_type_is_there_where_there_is_arithmetic(flops: int, compute: str) -> None:
    plan = plan_with(variants=(Variant("a", (), (), 16, 0, flops, "float32", compute="bfloat16"),), baseline="a")
    assert result(ABOUT, plan, Outcome("a", Status.PASSED), Ceilings(), 0.01).compute == compute


@pytest.mark.parametrize("sanitize", [True, False])
def test_a_sanitized_run_is_another_configuration(sanitize: bool) -> None:
    plan = plan_with(variants=(Variant("a", (), (), 16, 0, 0, "float32"),), baseline="a")
    found = result(ABOUT, replace(plan, sanitize=sanitize), Outcome("a", Status.PASSED), Ceilings(), 0.01)
    assert measured(found).params.get("sanitize") == ("true" if sanitize else None)


def test_runs_on_other_numbers_of_devices_are_other_configurations() -> None:
    plan = plan_with(variants=(Variant("a", (), (), 16, 0, 0, "float32"),), baseline="a")
    found = [
        measured(result(ABOUT, replace(plan, devices=devices), Outcome("a", Status.PASSED), Ceilings(), 0.01))
        for devices in ((0,), (1,), (0, 1), (2, 3), (0, 1, 2, 3))
    ]
    assert [one.params.get("devices") for one in found] == [None, None, "2", "2", "4"]
    assert len({one.configuration for one in found}) == 3


def of_two_devices(target: Target) -> dict[str, float]:
    """1 GB read and 1 GFLOP in 500 µs, that is 2000 GB/s and 2 TFLOP/s, on buffers of two devices."""
    variant = Variant("a", (), (), 10**9, 0, 10**9, "float32")
    buffers = tuple(Buffer(f"x_gpu{place}", (4,), "float32", device=place) for place in range(2))
    plan = plan_with(variants=(variant,), baseline="a", buffers=buffers)
    plan = replace(plan, target=target, devices=(0, 1))
    outcome = Outcome("a", Status.PASSED, series=[Series("cold", "cuda_events", [500.0] * 9)])
    ceilings = Ceilings(copy_gbps=4000.0, read_gbps=4000.0, tflops={"float32": 8.0})
    return result(ABOUT, plan, outcome, ceilings, 0.005).metrics


def test_percentages_of_several_devices_are_of_all_of_them() -> None:
    found = of_two_devices(replace(H200, tflops={"float32": 67.0}))
    assert found["gbps"] == pytest.approx(2000.0)
    assert found["pct_peak_bandwidth"] == pytest.approx(100 * 2000 / 9600)
    assert found["pct_ceiling_bandwidth"] == pytest.approx(25.0)
    assert found["pct_peak_flops"] == pytest.approx(100 * 2 / 134)
    assert found["pct_ceiling_flops"] == pytest.approx(12.5)


def test_virtual_devices_are_one_cpu_together() -> None:
    found = of_two_devices(Target("host", "host CPU", "host"))
    assert found["pct_ceiling_bandwidth"] == pytest.approx(50.0)
    assert found["pct_ceiling_flops"] == pytest.approx(25.0)


SLOW = {"sm_clock_mhz": 1200, "max_sm_clock_mhz": 1980, "throttle_reasons": ["power_cap", "idle"]}
FAST = {"sm_clock_mhz": 1965, "max_sm_clock_mhz": 1980, "throttle_reasons": ["power_cap"]}


@pytest.mark.parametrize(
    ("state", "quality"),
    [
        (FAST, Quality.OK),
        (SLOW, Quality.THROTTLED),
        ({**FAST, "others": {"GPU-1": FAST}}, Quality.OK),
        ({**FAST, "others": {"GPU-1": SLOW}}, Quality.THROTTLED),
        ({"sm_clock_mhz": 345, "max_sm_clock_mhz": 1980, "throttle_reasons": ["idle"]}, Quality.OK),
        ({}, Quality.OK),
    ],
)
def test_a_clock_that_is_held_down_on_any_gpu_is_said(state: dict[str, Any], quality: Quality) -> None:
    found = made(H200, *[300.0] * 9, outcome=Outcome("a", Status.PASSED, state=state))
    assert found.quality is quality
    told = ["the GPU held its clock down while measuring: power_cap"] if quality is Quality.THROTTLED else []
    assert found.warnings == told
