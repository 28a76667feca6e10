"""What no device can do: rates above a physical peak are errors of the measurement or of the declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.plan.model import Target, Variant
from runner.result.model import Series

ABOVE_PEAK_SLACK = 1.02
"""Clock tolerance of a physical peak: memory runs up to 2 % above the datasheet's rate (H200: 4917 of 4800 GB/s)."""
FLOPS_SLACK = 1.10
"""As above, of arithmetic. Datasheets take the tensor cores' rates at a lower clock than an SM may reach (H100 and
H200: 132 SMs x 4096 FLOP x 1.83 GHz = 989 TFLOP/s, and up to 1.98 GHz, 8 % more)."""


def above_peak(variant: Variant, series: Sequence[Series], found: Mapping[str, float], target: Target) -> str:
    """The rate that is above the target's peak, in words; empty where none is.

    A bandwidth counts where the caches were flushed before each sample. On the host backend nothing is judged: what
    a configuration gives as its peak is no datasheet's.
    """
    if target.backend != "cuda":
        return ""
    peak = target.bandwidth_gbps
    gbps = found.get("gbps", 0.0)
    if peak and gbps > peak * ABOVE_PEAK_SLACK and any(item.mode == "cold" for item in series):
        return (
            f"{gbps:.0f} GB/s is above the {peak:.0f} GB/s of {target.title}, {100 * gbps / peak:.0f} % of what its "
            f"memory can do: the declared bytes ({variant.bytes_moved} per step in {found['time_us']:.4g} µs) or the "
            "flush are wrong"
        )
    peak = target.tflops.get(variant.compute, 0.0)
    tflops = found.get("tflops", 0.0)
    if peak and tflops > peak * FLOPS_SLACK:
        return (
            f"{tflops:.4g} TFLOP/s is above the {peak:.4g} TFLOP/s of {target.title} in {variant.compute}, "
            f"{100 * tflops / peak:.0f} % of what it can do: the declared FLOPs ({variant.flops} per step in "
            f"{found['time_us']:.4g} µs), their type or the time are wrong"
        )
    return ""
