"""The diagnosis of measured results, and of profiles with one thing wrong at a time."""

from __future__ import annotations

from typing import Any

import pytest

from runner.diagnose.diagnose import ON_A_GPU, diagnose
from runner.diagnose.facts import facts
from runner.diagnose.rules import Line, Rule
from runner.result.model import (
    Diagnosis,
    GapCause,
    GapUse,
    KernelCounters,
    KernelUse,
    Profile,
    ProfileStatus,
    Result,
    Series,
    Status,
)
from tests.diagnose.measured import H200, measured

FAMILIES = "families_h200/decode.csv"
CAUSES = ("launch", "sync", "alloc", "copy", "api", "os", "host", "device")
LONG = "kv_quant_h200/long_ctx.csv"


@pytest.mark.parametrize(
    ("kernel", "variant", "bound", "confidence"),
    [
        ("allocator", "malloc_free", "allocation", "likely"),
        ("allocator", "prealloc_pool", "memory", "likely"),
        ("chunked_prefill", "monolithic", "scheduling", "sure"),
        ("cuda_graph_decode", "eager", "launches", "likely"),
        ("fusion", "separate", "launches", "likely"),
        ("fusion", "fused", "latency", "likely"),
        ("gqa_decode", "mha", "memory", "likely"),
        ("gqa_decode", "mqa_block", "latency", "possible"),
        ("host_transfer", "pageable_roundtrip", "copies", "likely"),
        ("kv_quant", "fp32_block", "latency", "possible"),
        ("profiling_ranges", "fma_chain", "compute", "likely"),
        ("profiling_ranges", "saxpy", "memory", "likely"),
        ("ragged_batch", "padded_full", "padding", "sure"),
        ("ragged_batch", "masked_ragged", "latency", "likely"),
        ("spec_decode", "target_only", "host", "possible"),
        ("streams", "serial", "latency", "likely"),
        ("sync", "sync_each_step", "host", "likely"),
    ],
)
def test_times_alone_name_the_bound(kernel: str, variant: str, bound: str, confidence: str) -> None:
    found = diagnose(measured(FAMILIES, kernel, variant))
    assert (found.bound, found.confidence) == (bound, confidence), found


@pytest.mark.parametrize(("context", "confidence"), [("4096", "possible"), ("32768", "likely"), ("16384", "likely")])
def test_a_long_context_is_bound_by_memory(context: str, confidence: str) -> None:
    found = diagnose(measured(LONG, "kv_quant", "fp32", T=context))
    assert (found.bound, found.confidence) == ("memory", confidence)
    assert "profiler=ncu" in found.next_step
    assert any("GB/s" in line for line in found.causes[0].evidence)


def test_padding_is_named_beside_the_bound() -> None:
    found = diagnose(measured(FAMILIES, "moe_routing", "padded"))
    assert [cause.bound for cause in found.causes] == ["memory", "padding"]
    assert diagnose(measured(FAMILIES, "moe_routing", "compact")).causes[1:] == []


def counted(metrics: dict[str, float], limiter: str = "", grid: str = "264x1x1", **changes: Any) -> Result:
    """One kernel that fills the device, with these counters."""
    result = Result(
        id="",
        kernel="kv_quant",
        variant="q8",
        status=Status.PASSED,
        backend="cuda",
        phase="decode",
        params={"dtype": "float32"},
        metrics={"time_us": 100.0, "launches": 1.0, "gbps": 1000.0},
        samples=[Series("cold", "cuda_events", [100.0])],
        environment={"target": H200},
        profile=Profile(
            ProfileStatus.OK,
            kernels=[KernelUse("scan", "attention", 10, 1000.0, 100.0, 1.0, grid=grid, registers=255)],
            counters=[KernelCounters("scan", 1, metrics, limiter, {"long_scoreboard": 0.6})],
        ),
    )
    for name, value in changes.items():
        setattr(result, name, value)
    return result


LOW = {"dram_throughput_pct": 20.0, "sm_throughput_pct": 25.0}


@pytest.mark.parametrize(
    ("result", "bound", "confidence", "advised"),
    [
        (counted({"dram_throughput_pct": 91.0, "sm_throughput_pct": 12.0}), "memory", "sure", "quantise"),
        (
            counted(
                {
                    "dram_throughput_pct": 80.0,
                    "sm_throughput_pct": 12.0,
                    "l2_hit_pct": 4.0,
                    "sectors_per_request_load": 32.0,
                }
            ),
            "memory",
            "sure",
            "Coalesce the loads: 32 sectors per request",
        ),
        (
            counted({"dram_throughput_pct": 2.0, "sm_throughput_pct": 95.0, "tensor_pipe_pct": 0.0}),
            "compute",
            "sure",
            "tensor cores",
        ),
        (counted(LOW | {"occupancy_pct": 24.0}, "registers"), "latency", "sure", "fewer registers (255 a thread)"),
        (counted(LOW, "shared_memory"), "latency", "sure", "less shared memory"),
        (counted(LOW, grid="8x1x1"), "latency", "sure", "split-KV"),
        (counted(LOW | {"sfu_pipe_pct": 80.0, "fma_pipe_pct": 12.0}), "special_functions", "likely", "table"),
        (
            counted(LOW | {"conversion_share": 0.3, "integer_share": 0.3}, params={"dtype": "int8"}),
            "dequantisation",
            "likely",
            "group",
        ),
        (
            counted({"dram_throughput_pct": 55.0, "sm_throughput_pct": 50.0, "spill_requests": 1e6}),
            "latency",
            "likely",
            "",
        ),
    ],
)
def test_counters_name_the_bound(result: Result, bound: str, confidence: str, advised: str) -> None:
    found = diagnose(result)
    assert (found.bound, found.confidence) == (bound, confidence), found
    assert any(advised in line for line in found.causes[0].advice), found.causes[0].advice
    assert result.warnings == []


def test_conversions_matter_in_a_quantised_kernel_only() -> None:
    bounds = {cause.bound for cause in diagnose(counted(LOW | {"conversion_share": 0.3})).causes}
    assert "dequantisation" not in bounds


def test_spills_are_named_with_their_count() -> None:
    metrics = {"dram_throughput_pct": 91.0, "sm_throughput_pct": 12.0, "spill_requests": 5000.0}
    (spills,) = (cause for cause in diagnose(counted(metrics)).causes if cause.rule == "spills")
    assert "5000 requests" in spills.evidence[0] and "smaller tile" in spills.advice[0]


def test_the_limiter_is_named() -> None:
    found = diagnose(counted(LOW | {"occupancy_pct": 24.0, "occupancy_theoretical_pct": 25.0}, "registers"))
    assert "Achieved occupancy is 24 %, of 25 % possible, limited by registers." in found.causes[0].evidence
    assert "60% of the warps' stalled time is 'long scoreboard'." in found.causes[0].evidence


def traced(idle: float, kind: str, call: str = "", **metrics: float) -> Result:
    """A step by the host's clock whose device waits for one reason."""
    shares = {f"gap_{name}_share": 0.0 for name in CAUSES}
    return Result(
        id="",
        kernel="sync",
        variant="sync_each_step",
        status=Status.PASSED,
        backend="cuda",
        metrics={"time_us": 1000.0, "pct_ceiling_bandwidth": 12.0},
        samples=[Series("host", "host_clock", [1000.0])],
        environment={"target": H200},
        profile=Profile(
            ProfileStatus.OK,
            kernels=[KernelUse("step", "elementwise", 100, 300.0, 3.0, 1.0, grid="1024x1x1")],
            metrics={
                **shares,
                "gpu_idle_share": idle,
                "launches_per_step": 100.0,
                "kernels_per_step": 100.0,
                "launch_gap_us": 7.0,
                "host_sync_us": 600.0,
                f"gap_{kind}_share": 0.9,
                **metrics,
            },
            gaps=[GapUse("r", 0, 9, idle * 1000.0, 1000.0, 1.0, 1.0, 1.0, [GapCause(kind, call, "main", 9, 9.0)])],
        ),
    )


@pytest.mark.parametrize(
    ("kind", "call", "bound", "advised"),
    [
        ("launch", "cuLaunchKernel", "launches", "CUDA graph"),
        ("sync", "cuStreamSynchronize", "host_sync", "asynchronously"),
        ("alloc", "cuMemAlloc", "allocation", "pool"),
        ("copy", "cuMemcpyDtoH", "copies", "page-locked"),
        ("os", "futex", "host", "scheduler"),
        ("host", "", "host", "py-spy"),
        ("api", "cuModuleLoadData", "host", "before the loop"),
        ("device", "", "latency", "Fuse"),
    ],
)
def test_what_fills_the_gaps_is_the_cause(kind: str, call: str, bound: str, advised: str) -> None:
    found = diagnose(traced(0.7, kind, call))
    assert (found.bound, found.confidence, found.next_step) == (bound, "sure", "")
    assert any(advised in line for line in found.causes[0].advice)
    if call and kind != "launch":
        assert call in found.causes[0].evidence[0]


def test_a_kernel_without_weight_is_no_further_cause() -> None:
    result = traced(0.99, "host")
    result.profile.counters = [KernelCounters("step", 1, {"dram_throughput_pct": 30.0, "sm_throughput_pct": 28.0})]
    result.profile.metrics |= {"kernel_time_us_per_step": 600.0}  # 6 µs a kernel
    assert [cause.bound for cause in diagnose(result).causes] == ["host"]
    result.profile.metrics |= {"gpu_idle_share": 0.5}
    assert [cause.bound for cause in diagnose(result).causes] == ["host", "latency"]


def test_who_launches_a_graph_is_not_told_to_capture_one() -> None:
    (launches,) = diagnose(traced(0.7, "launch", launches_per_step=25.0)).causes
    assert launches.bound == "launches" and not any("CUDA graph" in line for line in launches.advice)


def test_a_lone_kernel_is_to_join_its_neighbours() -> None:
    (launches,) = diagnose(traced(0.7, "launch", launches_per_step=1.0, kernels_per_step=1.0)).causes
    assert [line.split(":")[0] for line in launches.advice] == [
        "Fuse the kernel with its neighbours in the model, or capture it with them in a CUDA graph",
        "Batch more work into a launch.",
    ]


def test_gaps_that_only_the_tracing_made_are_no_cause() -> None:
    """300 µs of device work in a traced step of 1000 µs; the timed step takes 310."""
    result = traced(0.7, "launch", kernel_time_us_per_step=300.0)
    assert diagnose(result).bound == "launches"
    result.metrics["time_us"] = 310.0
    assert "launches" not in {cause.bound for cause in diagnose(result).causes if cause.confidence == "sure"}


def test_a_kernel_that_copies_is_a_kernel() -> None:
    """Two kernels of 300 µs a step leave the device idle for 400 µs, whatever category their names belong to."""
    result = traced(0.4, "launch", kernel_time_us_per_step=600.0)
    result.profile.kernels.append(KernelUse("gather_rows", "memcpy", 100, 300.0, 3.0, 0.5, grid="64x1x1"))
    found = facts(result)
    assert found["idle_share"] == pytest.approx(0.4)
    assert "share_gather_rows" not in found
    result.profile.kernels[1].total_us = 900.0
    result.profile.kernels.sort(key=lambda use: -use.total_us)
    assert facts(result)["kernel"] == "gather_rows"


def test_the_utilisation_of_the_gpu_is_no_sign() -> None:
    silent, busy = traced(0.7, "sync", "x"), traced(0.7, "sync", "x", gpu_utilization_percentage=100.0)
    assert diagnose(silent) == diagnose(busy)


def test_what_a_program_prints_is_no_figure_of_ours() -> None:
    metrics = {"time_us": 9.0, "gpu_idle_share": 1.0, "dram_throughput_pct": 99.0}
    program = Result("", "command", "p", Status.PASSED, params={"argv": "p"}, metrics=metrics)
    assert facts(program)["time_us"] == 9.0
    assert not {"gpu_idle_share", "dram_throughput_pct"} & facts(program).keys()


def test_copies_without_overlap() -> None:
    result = traced(0.05, "host", copy_time_share=0.6, copy_overlap_share=0.1)
    assert diagnose(result).bound == "copies"


def test_peer_copies_on_the_critical_path() -> None:
    result = traced(0.05, "host", copy_time_share=0.4, copy_overlap_share=0.1)
    result.profile.kernels.append(KernelUse("PtoP", "memcpy", 8, 200.0, 25.0, 0.4))
    found = diagnose(result)
    assert found.bound == "interconnect"
    assert "copies" not in {cause.bound for cause in found.causes}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_what_did_not_pass_gets_none(status: Status) -> None:
    result = measured(LONG, "kv_quant", "fp32", T="32768")
    result.status = status
    assert diagnose(result) == Diagnosis()


def test_a_cpu_settles_nothing() -> None:
    result = measured(LONG, "kv_quant", "fp32", T="32768")
    result.backend = "host"
    found = diagnose(result)
    assert (found.bound, found.confidence, found.next_step) == ("memory", "possible", ON_A_GPU)


def test_without_figures_a_profiler_is_named() -> None:
    result = Result("", "command", "x", Status.PASSED, backend="cuda", metrics={"time_us": 5.0})
    found = diagnose(result)
    assert found.bound == "" and found.next_step.startswith("profiler=nsys")


def test_a_rule_that_divides_by_zero_is_left_out_with_a_warning() -> None:
    result = Result("", "k", "x", Status.PASSED, backend="cuda", metrics={"time_us": 5.0, "zero": 0.0})
    rule = Rule("wrong", "memory", "sure", "time_us / zero > 1", "1", (Line("x"),))
    assert diagnose(result, [rule]).causes == []
    assert "the rule wrong was left out" in result.warnings[0] and "divides by zero" in result.warnings[0]


@pytest.mark.parametrize(
    ("moved", "of"),
    [
        ({"bytes_read": 1e9, "bytes_written": 1e6}, "of what a read reaches on this device"),
        ({"bytes_read": 0.0, "bytes_written": 1e9}, "of what a write reaches on this device"),
        ({"bytes_read": 1e9, "bytes_written": 1e9}, "of what a copy reaches on this device"),
    ],
)
def test_the_ceiling_is_named_by_the_access(moved: dict[str, float], of: str) -> None:
    made = Result("1", "kv_quant", "fp32", Status.PASSED, metrics={"pct_ceiling_bandwidth": 93.0, **moved})
    found = facts(made)
    assert (found["pct_bandwidth"], found["pct_bandwidth_of"]) == (93.0, of)
