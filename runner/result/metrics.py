"""Metric arithmetic: a plan's declared work and the samples, turned into the named figures.

Names are quantity, unit, statistic; 1 GB/s = 1e9 byte/s and 1 TFLOP/s = 1e12 FLOP/s throughout.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from runner.plan.expressions import Evaluator
from runner.plan.model import Plan, Target, Variant
from runner.result.model import CheckResult, Quality, Series
from runner.result.physics import above_peak
from runner.result.statistics import summarise
from runner.result.trials import of_mode, over_trials

ONE_WAY = 0.05
"""Share of its bytes that a kernel may move the other way and still count as one that only reads, or only writes."""

Access = Literal["copy", "read", "write"]


@dataclass(frozen=True)
class Ceilings:
    """What this device really reaches: bandwidth in 1e9 byte/s, 0 = not measured."""

    copy_gbps: float = 0.0
    """Read plus write of a device-to-device copy."""
    read_gbps: float = 0.0
    write_gbps: float = 0.0
    tflops: dict[str, float] = field(default_factory=dict)
    """1e12 FLOP/s by arithmetic type, a key of ``Target.tflops``; one that was not measured is absent."""

    def gbps(self, kind: Access) -> float:
        """The bandwidth that this kind of access reaches."""
        return {"copy": self.copy_gbps, "read": self.read_gbps, "write": self.write_gbps}[kind]

    def several(self, devices: int) -> Ceilings:
        """Of so many devices like this one together."""
        return Ceilings(
            copy_gbps=devices * self.copy_gbps,
            read_gbps=devices * self.read_gbps,
            write_gbps=devices * self.write_gbps,
            tflops={kind: devices * rate for kind, rate in self.tflops.items()},
        )


def access(bytes_read: float, bytes_written: float) -> Access:
    """Which ceiling holds for so many bytes: that of the copy, unless nearly all of them go one way. The memory's bus
    loses time whenever it turns round, so that reading alone is faster than a copy."""
    least = ONE_WAY * (bytes_read + bytes_written)
    if bytes_written <= least:
        return "read"
    return "write" if bytes_read <= least else "copy"


def metrics(
    variant: Variant,
    series: Sequence[Series],
    checks: Sequence[CheckResult],
    target: Target,
    ceilings: Ceilings,
) -> dict[str, float]:
    """Everything that follows from one variant alone. What was not measured is absent, never zero."""
    found: dict[str, float] = {**variant.report}
    if variant.bytes_moved:
        found["bytes_moved"] = float(variant.bytes_moved)
        found["bytes_read"] = float(variant.bytes_read)
        found["bytes_written"] = float(variant.bytes_written)
        found["intensity"] = variant.intensity
    if variant.flops:
        found["flops"] = float(variant.flops)
    for name in ("max_abs_err", "max_rel_err", "l2_err"):
        values = [getattr(check, name) for check in checks if getattr(check, name) is not None]
        if values:
            found[name] = max(values)
    main = main_series(series)
    if main is None:
        return found
    found.update(over_trials([{**times(item), **clocks(item)} for item in of_mode(series, main.mode)]))
    for mode in ("hot", "graph", "host"):
        taken = of_mode(series, mode)
        if taken and (mode == "hot" or mode != main.mode):
            found[f"time_{mode}_us"] = median(summarise(item.samples_us).median for item in taken)
    launching = [median(item.launch_us) for item in of_mode(series, "host") if item.launch_us]
    if launching:
        found["launch_us"] = median(launching)
    found.update(_rates(variant, found["time_us"], target, ceilings))
    return found


def main_series(series: Sequence[Series]) -> Series | None:
    """The one that ``time_us`` is of: the cold one, or what stands for it, of the first trial; None where nothing was
    timed."""
    return next((item for mode in ("cold", "host", "graph", "hot") for item in of_mode(series, mode)), None)


def times(series: Series) -> dict[str, float]:
    """Location, interval, quartiles and spread of a series that has samples, as metrics."""
    summary = summarise(series.samples_us)
    found = {
        "time_us": summary.median,
        "time_us_q1": summary.q1,
        "time_us_q3": summary.q3,
        "samples": float(len(series.samples_us)),
    }
    if summary.median_low is not None and summary.median_high is not None:
        found["time_us_low"], found["time_us_high"] = summary.median_low, summary.median_high
    if summary.rsd is not None:
        found["time_us_rsd"] = summary.rsd
    if summary.p95 is not None:
        found["time_us_p95"] = summary.p95
    if summary.p99 is not None:
        found["time_us_p99"] = summary.p99
    return found


def clocks(series: Series) -> dict[str, float]:
    """Median clock of the SMs over the samples, and how many samples were dropped for their clock; empty where clocks
    were not measured."""
    if not series.clock_mhz:
        return {}
    known = [mhz for mhz in series.clock_mhz if mhz > 0]
    found = {"samples_dropped": float(series.dropped)}
    return {**found, "sm_clock_mhz": median(known)} if known else found


def _rates(variant: Variant, time_us: float, target: Target, ceilings: Ceilings) -> dict[str, float]:
    found: dict[str, float] = {}
    if variant.bytes_moved:
        gbps = variant.bytes_moved / time_us * 1e-3
        found["gbps"] = gbps
        if target.bandwidth_gbps:
            found["pct_peak_bandwidth"] = 100 * gbps / target.bandwidth_gbps
        ceiling = ceilings.gbps(access(variant.bytes_read, variant.bytes_written))
        if ceiling:
            found["pct_ceiling_bandwidth"] = 100 * gbps / ceiling
    if variant.flops:
        tflops = variant.flops / time_us * 1e-6
        found["tflops"] = tflops
        peak = target.tflops.get(variant.compute, 0.0)
        if peak:
            found["pct_peak_flops"] = 100 * tflops / peak
        reached = ceilings.tflops.get(variant.compute, 0.0)
        if reached:
            found["pct_ceiling_flops"] = 100 * tflops / reached
    return found


def timed_metrics(plan: Plan, variant: Variant, found: Mapping[str, float]) -> dict[str, float]:
    """The variant's own arithmetic over its time; empty when it was not timed."""
    if "time_us" not in found:
        return {}
    evaluate = Evaluator({**plan.symbols, **found})
    where = f"{plan.kernel}: variants.{variant.name}.timed"
    return {name: float(evaluate.number(text, f"{where}.{name}")) for name, text in variant.timed.items()}


def counted_traffic(declared: Mapping[str, float], counted: Mapping[str, float]) -> dict[str, float]:
    """``declared_over_counted``: the bytes a step must move over those that hardware counters saw between the L2 and
    memory; empty where either is unknown. Below 1 the kernels move more than they must; above 1 caches kept some."""
    bytes_moved, seen = declared.get("bytes_moved"), counted.get("counted_dram_bytes")
    return {"declared_over_counted": bytes_moved / seen} if bytes_moved and seen else {}


def bound(variant: Variant, target: Target) -> str:
    """``memory`` below the ridge of the roofline, ``compute`` above it, empty where a roof is unknown."""
    peak = target.tflops.get(variant.compute, 0.0)
    if not (peak and target.bandwidth_gbps and variant.bytes_moved):
        return ""
    ridge = peak * 1e12 / (target.bandwidth_gbps * 1e9)
    return "memory" if variant.intensity < ridge else "compute"


def speedups(times_us: Mapping[str, float], baseline: str) -> dict[str, float]:
    """Variant → time of the baseline over its own; empty when the baseline has no time."""
    base = times_us.get(baseline)
    return {name: base / time for name, time in times_us.items()} if base else {}


def quality(
    variant: Variant,
    series: Sequence[Series],
    found: Mapping[str, float],
    target: Target,
    max_rsd: float,
    throttled: Collection[str] = (),
) -> tuple[Quality, list[str]]:
    """How far to trust the figures, and each doubt in words, that of the quality first."""
    if "time_us" not in found:
        return Quality.UNMEASURED, []
    doubts: list[tuple[Quality, str]] = []
    above = above_peak(variant, series, found, target)
    if above:
        doubts.append((Quality.ABOVE_PEAK, above))
    if throttled:
        reasons = ", ".join(sorted(throttled))
        doubts.append((Quality.THROTTLED, f"the GPU held its clock down while measuring: {reasons}"))
    slow, kept = sum(item.throttled for item in series), sum(len(item.samples_us) for item in series if item.throttled)
    if slow:
        dropped = sum(item.dropped for item in series)
        text = f"the clock was held down in {slow} of {kept} samples, besides {dropped} that were dropped"
        doubts.append((Quality.THROTTLED, text))
    rsd = found.get("time_us_rsd")
    main = main_series(series)
    ended = {item.stop_reason for item in of_mode(series, main.mode)} if main else set()
    limits = ended & {"max_time", "max_samples"}
    if limits and (rsd is None or rsd > max_rsd):
        reached = " and ".join(sorted(limits))
        doubts.append((Quality.UNSTABLE, f"the spread had not settled when the limit ({reached}) came"))
    hot = any(item.mode == "hot" for item in series)
    if hot and target.l2_bytes and 0 < variant.bytes_moved <= target.l2_bytes:
        doubts.append((Quality.L2_RESIDENT, "the working set fits in the cache: time_hot_us is cache speed"))
    graph = next((item for item in series if item.warm), None)
    if graph is not None:
        inputs = f"{graph.rotated} copies of the inputs" if graph.rotated > 1 else "the same inputs at every step"
        doubts.append((Quality.L2_RESIDENT, f"graph: {inputs}, caches warm: time_graph_us is cache speed"))
    if not doubts:
        return Quality.OK, []
    return doubts[0][0], [text for _, text in doubts]
