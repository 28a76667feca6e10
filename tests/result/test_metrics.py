"""The named figures, and the doubts about them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.plan.model import Target, Variant
from runner.result.metrics import Ceilings, access, bound, metrics, quality, speedups
from runner.result.model import CheckResult, Quality, Series

H200 = Target(
    "h200_sxm",
    "H200 SXM",
    "cuda",
    l2_bytes=60 << 20,
    bandwidth_gbps=4800.0,
    tflops={"float32": 67.0, "float16": 989.0},
)


def variant(read: int, written: int, flops: int, compute: str = "float32") -> Variant:
    return Variant("v", (), (), read, written, flops, "float32", compute)


def cold(*samples: float, stop: str = "rsd") -> Series:
    return Series("cold", "cuda_events", list(samples), stop_reason=stop)


@given(
    read=st.integers(1, 10**11),
    flops=st.integers(1, 10**13),
    time_us=st.floats(0.5, 1e6),
)
def test_rates_are_work_over_time(read: int, flops: int, time_us: float) -> None:
    found = metrics(variant(read, 0, flops), [cold(time_us)], (), H200, Ceilings(read_gbps=4380.0))
    assert found["gbps"] * 1e9 * time_us * 1e-6 == pytest.approx(read)
    assert found["tflops"] * 1e12 * time_us * 1e-6 == pytest.approx(flops)
    assert found["intensity"] == pytest.approx(flops / read)
    assert found["pct_peak_bandwidth"] == pytest.approx(100 * found["gbps"] / 4800)
    assert found["pct_ceiling_bandwidth"] == pytest.approx(100 * found["gbps"] / 4380)
    assert found["pct_peak_flops"] == pytest.approx(100 * found["tflops"] / 67)


@pytest.mark.parametrize(
    ("read", "written", "kind"),
    [
        (1000, 0, "read"),
        (960, 40, "read"),
        (940, 60, "copy"),
        (500, 500, "copy"),
        (60, 940, "copy"),
        (40, 960, "write"),
        (0, 1000, "write"),
    ],
)
def test_a_variant_is_held_against_the_ceiling_of_its_access(read: int, written: int, kind: str) -> None:
    assert access(read, written) == kind
    ceilings = Ceilings(copy_gbps=4250.0, read_gbps=4380.0, write_gbps=4400.0)
    found = metrics(variant(read, written, 0), [cold(1.0)], (), H200, ceilings)
    level = {"copy": 4250.0, "read": 4380.0, "write": 4400.0}[kind]
    assert found["pct_ceiling_bandwidth"] == pytest.approx(100 * 1.0 / level)


def test_arithmetic_is_held_against_the_ceiling_of_its_type() -> None:
    """Worked by hand: 640e6 FLOP in 10 µs = 64 TFLOP/s."""
    ceilings = Ceilings(tflops={"float16": 800.0})
    found = metrics(variant(1, 1, 640_000_000, "float16"), [cold(10.0)], (), H200, ceilings)
    assert found["pct_ceiling_flops"] == pytest.approx(8.0)
    other = metrics(variant(1, 1, 640_000_000, "float32"), [cold(10.0)], (), H200, ceilings)
    assert "pct_ceiling_flops" not in other and "pct_ceiling_bandwidth" not in other


def test_a_268_mb_scan_in_70_us() -> None:
    """Worked by hand: 268,435,456 B / 70 µs = 3834.8 GB/s = 79.9 % of 4800."""
    found = metrics(variant(268_435_456, 0, 0), [cold(69.0, 70.0, 71.0)], (), H200, Ceilings())
    assert found["gbps"] == pytest.approx(3834.79, abs=0.01)
    assert found["pct_peak_bandwidth"] == pytest.approx(79.89, abs=0.01)
    assert "pct_ceiling_bandwidth" not in found
    assert "tflops" not in found


def test_what_was_not_measured_is_absent() -> None:
    found = metrics(variant(100, 10, 20), [], (), H200, Ceilings(4250.0))
    assert set(found) == {"bytes_moved", "bytes_read", "bytes_written", "intensity", "flops"}


def test_percentiles_only_where_samples_suffice() -> None:
    few = metrics(variant(1, 1, 1), [cold(*[10.0] * 5)], (), H200, Ceilings())
    many = metrics(variant(1, 1, 1), [cold(*[10.0] * 200)], (), H200, Ceilings())
    assert "time_us_p95" not in few
    assert many["time_us_p95"] == many["time_us_p99"] == 10.0
    assert many["samples"] == 200


def test_the_worst_check_is_filed() -> None:
    checks = [
        CheckResult("a", True, 1e-6, 1e-5, 1e-7),
        CheckResult("b", True, 2e-6, 1e-6, 3e-7),
        CheckResult("c", True),
    ]
    found = metrics(variant(1, 1, 1), [], checks, H200, Ceilings())
    assert (found["max_abs_err"], found["max_rel_err"], found["l2_err"]) == (2e-6, 1e-5, 3e-7)


@pytest.mark.parametrize(("flops", "expected"), [(13_000, "memory"), (15_000, "compute")])
def test_the_bound_changes_at_the_ridge(flops: int, expected: str) -> None:
    """Ridge of the H200 in fp32: 67e12 / 4.8e12 = 13.96 FLOP/byte."""
    assert bound(variant(1000, 0, flops), H200) == expected


def test_no_bound_without_roofs() -> None:
    assert bound(variant(1000, 0, 10), Target("host")) == ""


def test_speedup_is_relative_to_the_baseline() -> None:
    assert speedups({"fp32": 80.0, "q8": 20.0}, "fp32") == {"fp32": 1.0, "q8": 4.0}
    assert speedups({"q8": 20.0}, "fp32") == {}


def test_a_cold_bandwidth_above_the_peak_is_never_a_record() -> None:
    one = variant(10**9, 0, 0)
    series = [cold(100.0, 100.0)]
    found = metrics(one, series, (), H200, Ceilings())
    judged, doubts = quality(one, series, found, H200, 0.005)
    assert judged is Quality.ABOVE_PEAK
    assert "10000 GB/s is above the 4800 GB/s of H200 SXM" in doubts[0]


def test_a_series_cut_off_by_the_limit_is_unstable() -> None:
    one = variant(10**8, 0, 0)
    series = [cold(90.0, 100.0, 130.0, stop="max_time")]
    found = metrics(one, series, (), H200, Ceilings())
    judged, doubts = quality(one, series, found, H200, 0.005)
    assert judged is Quality.UNSTABLE
    assert "max_time" in doubts[0]


def test_the_series_behind_the_time_says_whether_it_is_unstable() -> None:
    one, hot = variant(10**9, 0, 0), replace(cold(100.0, 100.0, stop="rsd"), mode="hot")
    host = replace(cold(390.0, 400.0, 530.0, stop="max_time"), mode="host")
    for series in ([hot, host], [host, hot]):
        found = metrics(one, series, (), H200, Ceilings())
        assert found["time_us"] == 400.0
        assert quality(one, series, found, H200, 0.005)[0] is Quality.UNSTABLE


def test_a_small_hot_working_set_is_labelled() -> None:
    one = variant(1 << 20, 0, 0)
    series = [cold(5.0, 5.0), Series("hot", "cuda_events", [2.0, 2.0], stop_reason="rsd")]
    found = metrics(one, series, (), H200, Ceilings())
    assert found["time_hot_us"] == 2.0
    assert quality(one, series, found, H200, 0.005)[0] is Quality.L2_RESIDENT


def test_a_launch_of_the_host_series_is_a_metric() -> None:
    series = Series("host", "host_clock", [20.0, 22.0, 24.0], stop_reason="rsd", launch_us=[6.0, 5.0, 9.0])
    alone = metrics(variant(1, 0, 0), [series], (), H200, Ceilings())
    assert (alone["time_us"], alone["launch_us"]) == (22.0, 6.0)
    beside = metrics(variant(1, 0, 0), [cold(5.0, 5.0), series], (), H200, Ceilings())
    assert (beside["time_us"], beside["time_host_us"], beside["launch_us"]) == (5.0, 22.0, 6.0)
    assert "launch_us" not in metrics(variant(1, 0, 0), [replace(series, launch_us=[])], (), H200, Ceilings())


def test_a_graph_with_warm_caches_is_labelled() -> None:
    one = variant(10**8, 0, 0)
    fresh = Series("graph", "cuda_events", [4.0, 4.0], stop_reason="rsd", rotated=5)
    found = metrics(one, [cold(50.0, 50.0), fresh], (), H200, Ceilings())
    assert (found["time_us"], found["time_graph_us"]) == (50.0, 4.0)
    assert quality(one, [cold(50.0, 50.0), fresh], found, H200, 0.005) == (Quality.OK, [])
    for copies, words in ((5, "5 copies of the inputs"), (1, "the same inputs at every step")):
        warm = replace(fresh, warm=True, rotated=copies)
        judged, doubts = quality(one, [cold(50.0, 50.0), warm], found, H200, 0.005)
        assert judged is Quality.L2_RESIDENT
        assert doubts == [f"graph: {words}, caches warm: time_graph_us is cache speed"]


def test_throttling_is_said() -> None:
    one = variant(10**8, 0, 0)
    series = [cold(100.0, 100.0)]
    found = metrics(one, series, (), H200, Ceilings())
    judged, doubts = quality(one, series, found, H200, 0.005, {"thermal"})
    assert judged is Quality.THROTTLED
    assert "thermal" in doubts[0]


def test_the_clock_of_the_main_series_is_its_median_over_the_known_ones() -> None:
    series = Series("cold", "cuda_events", [5.0] * 4, clock_mhz=[1980.0, 0.0, 1950.0, 1965.0], dropped=2)
    found = metrics(variant(1, 0, 0), [series], (), H200, Ceilings())
    assert (found["sm_clock_mhz"], found["samples_dropped"]) == (1965.0, 2.0)


def test_clocks_that_are_not_known_are_absent() -> None:
    unread = Series("cold", "cuda_events", [5.0, 5.0], clock_mhz=[0.0, 0.0])
    assert "sm_clock_mhz" not in metrics(variant(1, 0, 0), [unread], (), H200, Ceilings())
    assert "samples_dropped" not in metrics(variant(1, 0, 0), [cold(5.0, 5.0)], (), H200, Ceilings())


def test_samples_kept_though_they_were_slow_make_it_throttled() -> None:
    one = variant(10**8, 0, 0)
    series = [Series("cold", "cuda_events", [100.0] * 30, stop_reason="rsd", dropped=20, throttled=10)]
    judged, doubts = quality(one, series, metrics(one, series, (), H200, Ceilings()), H200, 0.005)
    assert judged is Quality.THROTTLED
    assert doubts == ["the clock was held down in 10 of 30 samples, besides 20 that were dropped"]
    series = [Series("cold", "cuda_events", [100.0] * 30, stop_reason="rsd", dropped=20)]
    assert quality(one, series, {"time_us": 100.0}, H200, 0.005) == (Quality.OK, [])


def test_a_failed_variant_has_no_quality() -> None:
    assert quality(variant(1, 1, 1), [], {}, H200, 0.005) == (Quality.UNMEASURED, [])
