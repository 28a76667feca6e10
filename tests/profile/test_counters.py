"""Real tables of raw metrics from an H200 (``tests/data/ncu``), and tables that hurt."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from runner.profile import counters
from runner.profile.counters import Counted, CountersError

DATA = Path(__file__).parents[1] / "data" / "ncu"
TIME = counters.TIME


def launches(name: str) -> list[Counted]:
    return counters.read(DATA / f"{name}.csv")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,191,040", 1191040.0),
        ("2,476,454,756,380.51", 2476454756380.51),
        ("0.00", 0.0),
        ("-1", -1.0),
        ("1.5e+3", 1500.0),
        ("12 (4; 8)", 12.0),
        ("n/a", None),
        ("nan", None),
        ("-nan", None),
        ("inf", None),
        ("no data", None),
        ("", None),
        ("(256, 1, 1)", None),
        ("CachePreferNone", None),
    ],
)
def test_numbers_as_the_tool_writes_them(text: str, value: float | None) -> None:
    assert counters.number(text) == value


def test_a_memory_bound_kernel_of_a_real_report() -> None:
    found = {one.name: one for one in counters.by_kernel(launches("kv_quant"))}
    assert len(found) == 8
    one = found["kv_scan_fp32_kernel"]
    expected = {
        "counted_time_us": 13.792,
        "dram_bytes_read": 33577472,
        "dram_bytes_written": 577792,
        "l2_bytes": 32 * 1642912,
        "shared_bytes": 128 * 110774,
        "global_load_transactions": 1191040,
        "global_store_transactions": 4360,
        "sectors_per_request_load": 1191040 / 75232,
        "sectors_per_request_store": 4360 / 1096,
        "sm_throughput_pct": 12.56,
        "dram_throughput_pct": 51.58,
        "l1_hit_pct": 11.21,
        "l2_hit_pct": 4.16,
        "occupancy_pct": 24.58,
        "occupancy_theoretical_pct": 37.5,
        "registers_per_thread": 71,
        "spill_requests": 0,
        "local_load_bytes": 0,
        "waves_per_sm": 0.67,
        "branch_divergence_pct": 0.57,
    }
    assert {name: one.metrics[name] for name in expected} == pytest.approx(expected)
    assert one.limiter == "grid"  # 264 blocks, where 132 SMs have room for 3 each
    assert list(one.stalls)[:3] == ["long_scoreboard", "barrier", "wait"]
    assert one.stalls["long_scoreboard"] == pytest.approx(0.673, abs=0.001)
    assert sum(one.stalls.values()) == pytest.approx(1)
    assert "selected" not in one.stalls


def test_what_a_set_does_not_collect_is_absent() -> None:
    metrics = counters.totals(launches("sol"))
    assert metrics["sm_throughput_pct"] > 0
    for name in ("dram_bytes_read", "sectors_per_request_load", "branch_divergence_pct", "conversion_instructions"):
        assert name not in metrics
    assert counters.stalls(launches("sol")) == {}


def test_a_kernel_s_counts_are_means_and_the_totals_are_sums() -> None:
    four = launches("sync")
    (one,) = counters.by_kernel(four)
    total = counters.totals(four)
    assert one.launches == 4
    assert total["dram_bytes_read"] == pytest.approx(4 * one.metrics["dram_bytes_read"])
    assert total["counted_time_us"] == pytest.approx(4 * one.metrics["counted_time_us"])
    assert total["l2_hit_pct"] == pytest.approx(one.metrics["l2_hit_pct"])


def test_kernels_come_in_the_order_of_their_time() -> None:
    found = counters.by_kernel(launches("cuda_graph_decode"))
    assert {one.name for one in found} == {
        "rmsnorm_small_kernel",
        "rope_pair_kernel",
        "residual_mix_kernel",
        "argmax_hidden_kernel",
    }
    times = [one.metrics["counted_time_us"] * one.launches for one in found]
    assert times == sorted(times, reverse=True)


def test_ranges_tell_variants_apart_whose_names_begin_alike() -> None:
    found = launches("kv_quant")
    assert [one.kernel for one in found if one.within("decode/kv_quant/fp32")] == ["kv_scan_fp32_kernel"]
    assert [one.kernel for one in found if one.within("decode/kv_quant/fp32_block")] == ["kv_scan_fp32_block_kernel"]
    assert not any(one.within("decode/kv_quant/fp") for one in found)


def test_no_conditional_branch_is_no_divergence() -> None:
    """The tool calls such a kernel 0 % uniform."""
    (rmsnorm,) = (one for one in launches("fusion") if one.kernel == "rmsnorm_kernel")
    assert rmsnorm.values[counters._UNIFORM] == 0
    assert counters.totals([rmsnorm])["branch_divergence_pct"] == 0


def test_rates_are_weighted_by_time() -> None:
    column = counters.RATES["dram_throughput_pct"]
    both = [Counted("a", "", {TIME: 30.0, column: 80.0}), Counted("b", "", {TIME: 10.0, column: 40.0})]
    assert counters.totals(both)["dram_throughput_pct"] == pytest.approx(70)
    untimed = [Counted("a", "", {column: 80.0}), Counted("b", "", {column: 40.0})]
    assert counters.totals(untimed)["dram_throughput_pct"] == pytest.approx(60)


def test_a_count_that_one_launch_lacks_is_no_total() -> None:
    both = [Counted("k", "", {"dram__bytes_read.sum": 10.0}), Counted("k", "", {})]
    assert "dram_bytes_read" not in counters.totals(both)


def test_instruction_shares() -> None:
    sass = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    values = {sass.format(kind): count for kind, count in (("ffma", 300.0), ("hfma", 100.0), ("dfma", 0.0))}
    values |= {sass.format("integer"): 200.0, sass.format("conversion"): 50.0, "sm__inst_executed_pipe_xu.sum": 2.0}
    values["smsp__thread_inst_executed_pred_on.sum"] = 1000.0
    metrics = counters.totals([Counted("k", "", values)])
    assert metrics["fma_instructions"] == 400
    assert metrics["sfu_instructions"] == 64
    assert metrics["fma_share"] == pytest.approx(0.4)
    assert metrics["integer_share"] == pytest.approx(0.2)
    assert metrics["conversion_share"] == pytest.approx(0.05)
    assert metrics["sfu_share"] == pytest.approx(0.064)


LIMITS = {
    "launch__sm_count": 100.0,
    "launch__grid_size": 10000.0,
    "launch__occupancy_limit_warps": 8.0,
    "launch__occupancy_limit_blocks": 32.0,
    "launch__occupancy_limit_barriers": 32.0,
    "launch__occupancy_limit_registers": 8.0,
    "launch__occupancy_limit_shared_mem": 8.0,
}


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({}, "warps"),
        ({"registers": 3.0}, "registers"),
        ({"shared_mem": 2.0}, "shared_memory"),
        ({"barriers": 4.0}, "barriers"),
        ({"blocks": 1.0}, "blocks"),
    ],
)
def test_the_smallest_limit_is_named(changed: dict[str, float], name: str) -> None:
    values = LIMITS | {f"launch__occupancy_limit_{limit}": value for limit, value in changed.items()}
    assert counters.limiter(values) == name
    assert counters.limiter(values | {"launch__grid_size": 50.0}) == "grid"


def test_without_limits_there_is_no_limiter() -> None:
    assert counters.limiter({"launch__grid_size": 1.0}) == ""


def test_sampled_stalls_serve_where_averages_lack() -> None:
    sampled = "smsp__pcsamp_warps_issue_stalled_{}"
    values = {sampled.format("long_scoreboard"): 60.0, sampled.format("long_scoreboard_not_issued"): 55.0}
    values |= {sampled.format("wait"): 20.0, sampled.format("selected"): 500.0}
    assert counters.stalls([Counted("k", "", values)]) == pytest.approx({"long_scoreboard": 0.75, "wait": 0.25})


@pytest.mark.parametrize(("unit", "microseconds"), [("ns", 2.0), ("usecond", 2000.0), ("msecond", 2e6), ("s", 2e9)])
def test_time_in_the_units_of_any_version(tmp_path: Path, unit: str, microseconds: float) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(f'==PROF== hello\n"ID","Kernel Name","{TIME}"\n"","","{unit}"\n"0","k","2,000"\n')
    (one,) = counters.read(path)
    assert one.values[TIME] == pytest.approx(microseconds)


@pytest.mark.parametrize("text", ["", "==ERROR== no\n", '"ID","Name"\n', "\0\0\0"])
def test_what_is_no_table_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(text)
    with pytest.raises(CountersError, match=r"raw\.csv"):
        counters.read(path)


def test_a_row_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(f'"ID","Kernel Name","{TIME}"\n"","","ns"\n"0","a","5"\n"1","b\n')
    assert [one.kernel for one in counters.read(path)] == ["a"]


def test_the_table_has_a_row_a_kernel(tmp_path: Path) -> None:
    kernels = counters.by_kernel(launches("fusion"))
    counters.write(kernels, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kernel"] for row in rows] == [one.name for one in kernels]
    first = rows[0]
    assert first["limiter"] == "grid"
    assert first["stalls"].startswith("long_scoreboard 0.")
    assert float(first["dram_bytes_read"]) == pytest.approx(kernels[0].metrics["dram_bytes_read"])
    assert "conversion_instructions" not in first
