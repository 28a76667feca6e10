"""Results as a sweep would give them, without running anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runner.result.model import (
    CheckResult,
    Profile,
    ProfileStatus,
    Quality,
    Result,
    Series,
    Status,
    TraceEvent,
)

ENVIRONMENT = {
    "hostname": "bench-01",
    "user": "ada",
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
    "git_dirty": True,
    "driver": "580.65.06",
    "cuda": "13.0",
    "kernel": "Linux 6.1",
    "device_uuid": "GPU-5d0c2f6e-0000-1111-2222-333344445555",
    "gpu_state": {"sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_limit_w": 700.0},
    "packages": {"numpy": "2.4.6"},
}


def result(
    variant: str = "q8",
    context: int = 32768,
    batch: int = 1,
    *,
    index: int = 0,
    gpu: str = "h200",
    backend: str = "cuda",
    peak_gbps: float = 4800.0,
    peak_tflops: float = 67.0,
    status: Status = Status.PASSED,
    **changes: Any,
) -> Result:
    """One result of a KV scan: 16 heads of 128, so bytes and FLOPs are those of the real family."""
    width = {"fp32": 4.0, "fp16": 2.0, "q8": 1.0625}.get(variant, 1.0)
    elements = batch * 16 * context * 128
    moved, flops = elements * width + batch * 16 * 128 * 4, 2.0 * elements
    ceiling = 0.92 * peak_gbps or 11.0
    time_us = 2.5 + moved / (ceiling * 0.93 * 1e3)
    names = {"B": "batch", "T": "context", "H": "heads", "D": "head_dim"}
    values = {"B": batch, "T": context, "H": 16, "D": 128}
    params = {key: value for letter, value in values.items() for key in (letter, names[letter])}
    groups = {"dtype": {"q8": "int8"}.get(variant, "float32"), "variant": variant, "gpu": gpu}
    groups |= {"model": "llama3_8b", "shape": "long_ctx", "backend": backend}
    found: dict[str, float] = {
        "time_us": time_us,
        "time_us_rsd": 0.004,
        "gbps": moved / time_us * 1e-3,
        "tflops": flops / time_us * 1e-6,
        "intensity": flops / moved,
        "bytes_moved": moved,
        "flops": flops,
        "samples": 12.0,
        "max_abs_err": 1.19e-07,
        "max_rel_err": 3.4e-06,
        "l2_err": 2.2e-07,
        "pct_ceiling_bandwidth": 100 * moved / time_us * 1e-3 / ceiling,
    }
    if peak_gbps:
        found["pct_peak_bandwidth"] = 100 * found["gbps"] / peak_gbps
        found["pct_peak_flops"] = 100 * found["tflops"] / peak_tflops
    ran = status in (Status.PASSED, Status.INCORRECT)
    made = Result(
        id=f"00000000-0000-4000-8000-{index:012d}",
        kernel="kv_quant",
        variant=variant,
        status=status,
        quality=Quality.OK if ran else Quality.UNMEASURED,
        sweep_id="2026-03-01_12-00-00_ab12",
        experiment_id=f"experiment-{context}-{batch}",
        backend=backend,
        phase="decode",
        model="llama3_8b",
        shape="long_ctx",
        gpu=gpu,
        baseline=variant == "fp32",
        params={**params, **groups, "seed": 0},
        names=names,
        metrics=found if ran else {},
        checks=[CheckResult(f"{variant}_kv_scan", True, 1.19e-07, 3.4e-06, 2.2e-07, 256, 8192)],
        samples=[Series("cold", "cuda_events", [time_us, time_us * 1.01], 1, "rsd", 1 << 26, 0.5)] if ran else [],
        profile=Profile(ProfileStatus.OFF),
        events=[TraceEvent("launch", f"kv_{variant}", 0, 0, 0.0, time_us)],
        config={"kernel": {"name": "kv_quant"}, "seed": 0},
        environment=ENVIRONMENT,
        overrides=["kernel=kv_quant", "shape=long_ctx", f"shape.context={context}"],
        repeat=f"python -m runner kernel=kv_quant shape=long_ctx shape.context={context}",
        started="2026-03-01T12:00:00.000+00:00",
        duration_s=1.25,
    )
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def sweep(
    contexts: Sequence[int] = (4096, 8192, 16384, 32768),
    variants: Sequence[str] = ("fp32", "fp16", "q8"),
    batches: Sequence[int] = (1,),
    **keywords: Any,
) -> list[Result]:
    """A grid, variants of an experiment together, with speed-ups against fp32."""
    found: list[Result] = []
    for batch in batches:
        for context in contexts:
            made = [result(v, context, batch, index=len(found) + i, **keywords) for i, v in enumerate(variants)]
            base = next((r.metrics.get("time_us", math.nan) for r in made if r.baseline), math.nan)
            for item in made:
                if "time_us" in item.metrics and math.isfinite(base):
                    item.metrics["speedup"] = base / item.metrics["time_us"]
            found += made
    return found
