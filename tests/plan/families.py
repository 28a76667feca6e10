"""A small family for the plan's tests: one copy, one reduction, a quantising preparation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.config.schema import (
    BufferSpec,
    CheckSpec,
    Config,
    Gpu,
    Kernel,
    LaunchSpec,
    Measure,
    Model,
    Param,
    Profiler,
    Scale,
    Shape,
    Study,
    Tracking,
    VariantSpec,
)
from runner.plan.model import Target

TARGET = Target(
    name="h200",
    title="H200",
    backend="cuda",
    arch="sm_90a",
    sms=132,
    l2_bytes=60 * 2**20,
    memory_bytes=141 * 10**9,
    bandwidth_gbps=4800.0,
    tflops={"float32": 67.0},
)


def kernel(**changes: Any) -> Kernel:
    """``rows`` × ``cols`` floats read once, a row sum each."""
    values: dict[str, Any] = {
        "name": "row_sum",
        "phase": "decode",
        "source": "row_sum.cu",
        "baseline": "plain",
        "params": {"R": 6, "C": 100},
        "declare": {
            "R": Param(name="rows", min=1, max=2**31),
            "C": Param(name="cols", min=1, multiple_of=2, help="columns"),
        },
        "derived": {"blocks": "min(R, 4*sms)"},
        "defines": {"COLS": "C"},
        "buffers": {
            "x": BufferSpec(dims=["R", "C"], fill="uniform"),
            "x8": BufferSpec(dims=["R", "C"], dtype="int8"),
            "scale": BufferSpec(dims=["R"]),
            "out": BufferSpec(dims=["R"]),
        },
        "prepare": [LaunchSpec(function="quantise", grid=["R"], args=["x", "x8", "scale", "C"])],
        "variants": {
            "plain": VariantSpec(
                launches=[LaunchSpec(function="sum", grid=["blocks"], args=["x", "out", "R", "int32(C)", "0.5"])],
                reads=["x"],
                writes=["out"],
                flops="R*C",
                checks={"row_sum": CheckSpec(output="out", row_cost="C")},
            ),
            "q8": VariantSpec(
                dtype="int8",
                launches=[LaunchSpec(function="sum_q8", grid=["blocks"], args=["x8", "scale", "out", "R", "C"])],
                reads=["x8", "scale"],
                writes=["out"],
                flops="R*C",
                checks={"q8_row_sum": CheckSpec(output="out", row_cost="C")},
                drift="row_sum",
                report={"scale_bytes": "bytes(scale)"},
            ),
        },
    }
    return Kernel(**{**values, **changes})


def config(family: Kernel, **changes: Any) -> Config:
    """A config round a family; the other groups hold what the plan never reads."""
    values: dict[str, Any] = {
        "kernel": family,
        "shape": Shape(name="smoke"),
        "model": Model(name="tiny", layers=1, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=100),
        "gpu": Gpu(name="h200"),
        "profiler": Profiler(name="none"),
        "measure": Measure(name="quick"),
        "tracking": Tracking(name="none", enabled=False),
        "scale": Scale(name="full"),
        "study": Study(),
    }
    return Config(**{**values, **changes})


def roots(folder: Path) -> tuple[Path, ...]:
    """A folder with the family's source in it."""
    (folder / "row_sum.cu").write_text('extern "C" __global__ void sum() {}\n')
    return (folder,)
