"""Every profiler on a real GPU: what each must deliver, and what the diagnosis makes of it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.test_families import USER, run

pytestmark = pytest.mark.gpu

QUICK = ("gpu=auto", "measure=quick", "tracking=none")


def by_variant(folder: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    code, output, results = run(folder, *arguments, *QUICK)
    assert code == 0, output
    return {result["variant"]: result for result in results}


def needs(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not on the PATH: {', '.join(missing)}")


@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        (
            ("kernel=sync",),
            {"sync_each_step": {"host_sync"}, "blocking_readback": {"host_sync"}},
        ),
        (("kernel=cuda_graph_decode",), {"eager": {"launches"}}),
        (("kernel=kv_quant", "shape=long_ctx", "shape.context=65536", "variants=[fp32,q8]"), {"fp32": {"memory"}}),
        (("kernel=profiling_ranges",), {"fma_chain": {"compute"}, "saxpy": {"memory"}}),
        (("kernel=fusion",), {"separate": {"launches", "latency"}}),
    ],
    ids=lambda value: value[0].removeprefix("kernel=") if isinstance(value, tuple) else "",
)
def test_the_diagnosis_names_the_expected_cause(
    tmp_path: Path, arguments: tuple[str, ...], bounds: dict[str, set[str]]
) -> None:
    needs("nsys", "ncu")
    results = by_variant(tmp_path, *arguments, "profiler=both")
    assert bounds.keys() <= results.keys()
    for variant, result in results.items():
        assert result["profile"]["status"] == "OK", result["profile"]["reason"]
        suffixes = {Path(report["path"]).suffix for report in result["profile"]["reports"]}
        assert suffixes == {".nsys-rep", ".ncu-rep"}
        if variant in bounds:
            assert result["diagnosis"]["bound"] in bounds[variant], result["diagnosis"]


def test_the_timeline_needs_no_nsight(tmp_path: Path) -> None:
    results = by_variant(tmp_path, "kernel=cuda_graph_decode", "profiler=timeline", "profiler.steps=2")
    for result in results.values():
        profile = result["profile"]
        assert profile["status"] == "OK", profile["reason"]
        assert any(name.endswith((".trace.json", ".trace.json.gz")) for name in profile["artifacts"])
        assert sum(use["calls"] for use in profile["kernels"]) >= 1
    eager, graph = results["eager"]["profile"]["metrics"], results["graph"]["profile"]["metrics"]
    assert eager["launches_per_step"] == 4 * graph["launches_per_step"] > 0  # four kernels a token, one graph


def test_the_monitor_samples_power_and_clocks(tmp_path: Path) -> None:
    (result,) = by_variant(
        tmp_path, "kernel=profiling_ranges", "variants=[fma_chain]", "profiler=monitor", "profiler.duration_s=2"
    ).values()
    profile = result["profile"]
    assert profile["status"] == "OK", profile["reason"]
    assert profile["metrics"]["gpu_power_w"] > 50
    assert len(profile["series"]["system/gpu_0_power_usage_watts"]) >= 10


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_a_sound_kernel_has_no_findings(tmp_path: Path, tool: str) -> None:
    needs("compute-sanitizer")
    results = by_variant(tmp_path, "kernel=fusion", "scale=smoke", f"profiler={tool}")
    assert len(results) == 3
    for result in results.values():
        assert result["profile"]["status"] == "OK", result["profile"]["reason"]
        assert result["profile"]["findings"] == []


def test_a_write_outside_a_buffer_is_a_verdict(tmp_path: Path) -> None:
    needs("compute-sanitizer")
    code, output, results = run(
        tmp_path, "--config-dir", str(USER), "kernel=unsafe", "variants=[out_of_bounds]", "profiler=memcheck", *QUICK
    )
    assert code == 1, output
    assert results[0]["status"] == "INCORRECT", results[0]["message"]
    assert "write" in results[0]["profile"]["findings"][0]["kind"].lower()


def test_a_program_of_somebody_else(tmp_path: Path) -> None:
    needs("nsys", "ncu")
    torch = pytest.importorskip("torch")
    assert torch.cuda.is_available()
    script = tmp_path / "matmul.py"
    script.write_text(
        "import torch\n"
        "x = torch.randn(2048, 2048, device='cuda', dtype=torch.bfloat16)\n"
        "for _ in range(20):\n"
        "    y = torch.softmax(x @ x, -1)\n"
        "torch.cuda.synchronize()\n"
        "print('checksum', float(y.float().sum()))\n"
    )
    code, output, results = run(
        tmp_path,
        "kernel=command",
        f"command.argv=[{sys.executable},{script}]",
        "command.metrics={checksum:'checksum ([0-9.e+-]+)'}",
        "profiler=both",
        "profiler.launch_count=3",
        "profiler.kernels=softmax",
        "gpu=auto",
        "tracking=none",
    )
    assert code == 0, output
    (result,) = results
    profile = result["profile"]
    assert result["metrics"]["checksum"] == pytest.approx(2048, rel=0.01)
    if profile["status"] != "OK":  # an Nsight Systems older than PyTorch's libraries says so, and nothing else may fail
        assert profile["reason"].startswith("nsys: ") and "could not process all events" in profile["reason"]
        assert "ncu: " not in profile["reason"]
    else:
        assert {use["category"] for use in profile["categories"]} >= {"matmul"}
    assert profile["counters"]
    assert all("softmax" in counters["name"].lower() for counters in profile["counters"])
