"""Results as they were measured on an H200, from the tables in ``benchmarks/``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from runner.result.model import Quality, Result, Series, Status

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
H200 = {"sms": 132, "bandwidth_gbps": 4800.0, "l2_bytes": 50 << 20, "tflops": {"float32": 67.0, "float16": 989.5}}
BY_HOST_CLOCK = ("sync", "allocator", "host_transfer", "cuda_graph_decode", "spec_decode")
WITHOUT_LAUNCHES = (*BY_HOST_CLOCK, "chunked_prefill", "streams", "kv_cache", "moe_routing", "ragged_batch")
"""Families with a workload class, which says itself how often it launches."""


def measured(file: str, kernel: str, variant: str, **params: str) -> Result:
    """One row of ``benchmarks/<file>``; ``params`` choose among several."""
    with (BENCHMARKS / file).open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["kernel"] == kernel and row["variant"] == variant]
    (row,) = (row for row in rows if all(row[key] == value for key, value in params.items()))
    names = list(row)
    first, last = names.index("bytes_moved"), names.index("message")
    metrics = {name: float(row[name]) for name in names[first:last] if row[name]}
    if kernel not in WITHOUT_LAUNCHES:
        metrics.setdefault("launches", 1.0)
    found: dict[str, Any] = {name: _number(row[name]) for name in names[9:first] if row[name]}
    mode = "host" if kernel in BY_HOST_CLOCK else "cold"
    return Result(
        id="",
        kernel=kernel,
        variant=variant,
        status=Status.PASSED,
        quality=Quality(row["quality"]),
        backend="cuda",
        phase=row["phase"],
        params=found,
        metrics=metrics,
        samples=[Series(mode, "cuda_events", [metrics["time_us"]])],
        environment={"target": H200},
    )


def _number(text: str) -> object:
    return int(text) if text.isdigit() else text
