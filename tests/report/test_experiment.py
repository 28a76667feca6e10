"""``report.md`` and ``diagnosis.md``: what is in them, and where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.report import experiment
from runner.report.bottleneck import headlines
from runner.report.comparison import load
from runner.report.profile import profiled_lines
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import (
    CallUse,
    CategoryUse,
    Cause,
    Diagnosis,
    Finding,
    GapCause,
    GapUse,
    KernelCounters,
    KernelUse,
    Profile,
    ProfileStatus,
    RawReport,
    Result,
    Status,
)
from tests import synthetic


def profiled() -> Result:
    """A result with something in every table."""
    profile = Profile(
        ProfileStatus.OK,
        tool="nsys 2023.4.4, ncu 2025.3.1",
        commands=["nsys profile --output=x python -m runner.worker cuda"],
        reports=[RawReport("x.nsys-rep", 1234567, "ab" * 32)],
        metrics={"launches_per_step": 1.0, "gpu_idle_share": 0.25, "gap_sync_share": 0.7},
        kernels=[KernelUse("kv_scan_q8", "attention", 30, 300.0, 10.0, 0.9, "264x1x1", "256x1x1", 128, 1024)],
        categories=[CategoryUse("attention", 30, 300.0, 0.9)],
        calls=[CallUse("api", "cuLaunchKernel", 30, 90.0, 3.0, 7.0)],
        gaps=[
            GapUse(
                "decode/kv", 0, 31, 100.0, 400.0, 2.0, 5.0, 9.0, [GapCause("sync", "cuCtxSynchronize", "main", 9, 70.0)]
            )
        ],
        counters=[
            KernelCounters("kv_scan_q8", 3, {"dram_throughput_pct": 88.4}, "shared_memory", {"long_scoreboard": 0.6})
        ],
        findings=[Finding("Invalid read", "a.cu:3", 2, "thread 5")],
    )
    causes = [
        Cause("dram", "memory", "sure", ["DRAM throughput is 88 % of peak."], ["Quantise.", "Fuse."]),
        Cause("more", "padding", "likely", ["A third is padding."], ["Fuse.", "Compact."]),
    ]
    return synthetic.result("q8", profile=profile, diagnosis=Diagnosis("memory", "sure", causes))


def test_every_table_of_the_template_is_there() -> None:
    text = experiment.report([synthetic.result("fp32"), profiled()])
    for line in (
        "# kv_quant on h200",
        "| driver | 580.65.06 |",
        "| commit | 0123456789abcdef0123456789abcdef01234567, with uncommitted changes |",
        "python -m runner kernel=kv_quant shape=long_ctx shape.context=32768",
        "nsys profile --output=x python -m runner.worker cuda",
        "| T | context | 32768 |",
        "### Bound by memory (sure)",
        "* DRAM throughput is 88 % of peak.",
        "### Also padding (likely)",
        "| kv_scan_q8 | attention | 264x1x1 | 256x1x1 | 30 | 10.0 | 0.300 | 90.0% |",
        "| attention | 30 | 0.300 | 90.0% |",
        "| launches_per_step | 1.000 |",
        "| cuLaunchKernel | api | 30 | 3.00 | 7.00 | 0.0900 |",
        "| decode/kv | 0 | sync 70% (cuCtxSynchronize) | 31 | 25.0% | 2.00 | 5.00 | 9.00 |",
        "| kv_scan_q8 | shared memory | long scoreboard | 3 | 88.4 |",
        "| Invalid read | a.cu:3 | thread 5 | 2 |",
        f"| q8/x.nsys-rep | 1,234,567 | {'ab' * 32} |",
    ):
        assert line in text.splitlines(), line
    assert text.count("* Fuse.") == 1
    assert "Roofline: 1.88 FLOP/byte, below the ridge at 14.0." in text
    assert "No profiler ran." in text  # the other variant


def test_a_failed_variant_says_why() -> None:
    failed = synthetic.result("q8", status=Status.TIMEOUT, message="did not end in 600 s")
    assert "TIMEOUT: did not end in 600 s" in experiment.report([synthetic.result("fp32"), failed])


def test_findings_that_failed_a_variant_are_in_its_report() -> None:
    found = Profile(ProfileStatus.OK, tool="memcheck", findings=[Finding("Invalid read", "a.cu:3", 2, "thread 5")])
    text = experiment.report([synthetic.result("q8", status=Status.INCORRECT, message="[memcheck]", profile=found)])
    assert "| Invalid read | a.cu:3 | thread 5 | 2 |" in text.splitlines()


def test_the_files_lie_with_the_experiment_and_with_each_variant_that_ran(tmp_path: Path) -> None:
    results = [profiled(), synthetic.result("fp32", status=Status.COMPILE_ERROR)]
    experiment.write(results, tmp_path)
    experiment.write(results, tmp_path)  # twice: an interrupt writes what there is, too
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"report.md", "q8/report.md", "q8/diagnosis.md"}
    assert results[0].artifacts == ["diagnosis.md", "report.md"] and results[1].artifacts == []
    assert (tmp_path / "q8/diagnosis.md").read_text().startswith("# kv_quant q8: what bounds it\n\n## Bound by memory")


def test_a_comparison_names_what_changed_and_what_else_is_different(tmp_path: Path) -> None:
    then, now = synthetic.result("q8", 16384), synthetic.result("q8", 32768)
    document.write(then, tmp_path / "earlier" / "q8")
    lines = experiment.report([now, synthetic.result("fp32")], load(tmp_path / "earlier")).splitlines()
    (about,) = (line for line in lines if line.startswith("**q8**"))
    assert about.endswith("2026-03-01; T was 16384, is 32768.")
    change = now.metrics["time_us"] / then.metrics["time_us"] - 1
    assert any(line.startswith("| time_us | ") and line.endswith(f" | {change:+.1%} |") for line in lines)
    assert "**fp32**: the earlier run has no result of it on this backend." in lines


def test_of_several_earlier_results_the_most_alike_is_taken(tmp_path: Path) -> None:
    for context in (4096, 32768, 65536):
        document.write(sampled(context), tmp_path / str(context) / "q8")
    text = experiment.report([sampled(32768)], load(tmp_path))
    assert "T was" not in text and "| +0.0% (SAME) |" in text


def sampled(context: int) -> Result:
    """A result with samples enough for an interval."""
    found = synthetic.result("q8", context)
    time_us = 100 * found.metrics["time_us"]  # a few microseconds would drown in the noise floor
    found.metrics |= {"time_us": time_us, "time_us_low": 0.999 * time_us, "time_us_high": 1.001 * time_us}
    return found


def test_a_cpu_is_not_compared_with_a_gpu(tmp_path: Path) -> None:
    document.write(synthetic.result("q8"), tmp_path / "q8")
    text = experiment.report([synthetic.result("q8", backend="host")], load(tmp_path))
    assert "no result of it on this backend" in text


def test_what_is_not_there_cannot_be_compared_with(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no such file or folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(DocumentError, match=r"there is no result\.json in it or below it"):
        load(tmp_path)


def test_gemm_shapes_follow_from_the_model_that_was_named() -> None:
    model = {"hidden": 896, "heads": 14, "kv_heads": 2, "head_dim": 64, "intermediate": 4864, "vocab": 151936}
    config = {"kernel": {"name": "command"}, "model": model, "shape": {"batch": 2}}
    program = synthetic.result("run", config=config, overrides=["kernel=command", "model=qwen2_5_0_5b"])
    lines = experiment.report([program]).splitlines()
    assert "| QKV projection | 2 | 1152 | 896 |" in lines
    assert "| LM head | 2 | 151936 | 896 |" in lines
    program.overrides = ["kernel=command"]
    assert "GEMM" not in experiment.report([program])


def test_the_terminal_groups_variants_by_bound() -> None:
    first = profiled()
    second = profiled()
    second.variant, second.diagnosis.next_step = "fp8", "profiler=ncu shows more"
    assert headlines([first, second]) == [
        "q8, fp8 bound by memory, sure: DRAM throughput is 88 % of peak (of q8)",
        "next for fp8: profiler=ncu shows more",
    ]
    assert headlines([synthetic.result("fp32")]) == []


def test_the_terminal_says_how_many_profiles_there_are() -> None:
    missing = Profile(ProfileStatus.UNAVAILABLE, "no nsys was found", tool="nsys")
    results = [profiled(), synthetic.result("fp32"), synthetic.result("fp8", profile=missing)]
    assert profiled_lines(results) == ["profiled with nsys 2023.4.4, ncu 2025.3.1: 1 of 1 OK, 1 with findings"]


def test_causes_of_one_kind_stand_together() -> None:
    result = profiled()
    result.diagnosis.causes[1].bound = "host_sync"
    result.diagnosis.causes.append(Cause("again", "memory", "sure", ["L2 misses."], ["Fuse.", "Tile."]))
    lines = experiment.report([result]).splitlines()
    assert lines.count("### Bound by memory (sure)") == 1 and "### Also memory (sure)" not in lines
    assert lines.index("* L2 misses.") == lines.index("* DRAM throughput is 88 % of peak.") + 1
    assert lines.count("* Fuse.") == 1 and "* Tile." in lines


def test_the_gaps_of_a_whole_program_are_named_so() -> None:
    result = profiled()
    result.profile.gaps[0].range = ""
    assert "| (all of it) | 0 | sync 70% (cuCtxSynchronize) |" in experiment.report([result])


def test_the_terminal_names_a_bound_as_the_table_does() -> None:
    result = profiled()
    result.diagnosis.bound = "host_sync"
    assert headlines([result]) == ["q8 bound by host sync, sure: DRAM throughput is 88 % of peak"]
