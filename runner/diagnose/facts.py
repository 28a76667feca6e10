"""A result as flat figures under the names that rules use. What was not measured is absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.plan.expressions import Value
from runner.result.metrics import access, main_series
from runner.result.model import KernelCounters, KernelUse, Profile, Result
from runner.result.names import printed

_COPIES_AND_FILLS = ("memcpy", "memset")
"""Their categories, which kernels that copy or fill may have too."""


def facts(result: Result) -> dict[str, Value]:
    """The result's metrics, those of its profile, and what follows from both (docs/diagnosis.md lists the names).

    A figure of the profiled run replaces one of the same name that the family declares. Times stay those of the
    timed run: the profile has none.
    """
    found: dict[str, Value] = {"backend": result.backend, "phase": result.phase, "quality": result.quality.value}
    found["traced"] = bool(result.profile.gaps)
    own = set(printed(result.params, result.metrics))  # a program may call its figures as it likes
    found.update({name: value for name, value in result.metrics.items() if name not in own})
    found.update(result.profile.metrics)
    found.update(_family(result))
    found.update(_target(result))
    found.update(_dominant(result.profile))
    found.update(_gaps(result.profile))
    found.update(_idle(result, found))
    found.update(_weights(found))
    found.update(_per_launch(result, found))
    found["graphed"] = _graphed(found)
    found.update(_bandwidth(found))
    return found


def _family(result: Result) -> Iterator[tuple[str, Value]]:
    """What the parameters say of the variant, and how it was timed."""
    dtype = str(result.params.get("dtype", ""))
    yield "dtype", dtype
    yield "quantised", "int" in dtype or "float8" in dtype or "float4" in dtype
    main = main_series(result.samples)
    if main is not None:
        yield "host_clock", main.mode == "host"
    for name in ("streams", "chunks", "steps"):
        if isinstance(result.params.get(name), (int, float)):
            yield name, result.params[name]


def _target(result: Result) -> Iterator[tuple[str, Value]]:
    """The target's figures, and where its two roofs meet for this variant's arithmetic; rates of all devices."""
    target, found = result.environment.get("target") or {}, result.metrics
    for name, key in (("sms", "sms"), ("l2_bytes", "l2_bytes")):
        if target.get(key):
            yield name, target[key]
    one, devices = float(target.get("bandwidth_gbps") or 0.0), 1
    if one and found.get("pct_peak_bandwidth"):
        devices = max(1, round(100 * found["gbps"] / found["pct_peak_bandwidth"] / one))
    if one:
        yield "peak_gbps", devices * one
    if found.get("pct_peak_flops"):
        peak = 100 * found["tflops"] / found["pct_peak_flops"]
        yield "peak_tflops", peak
        single = target.get("tflops", {}).get("float32") or peak / devices
        yield "float32_peak", abs(peak / devices / single - 1) < 0.01
        if one:
            yield "ridge", 1e3 * peak / (devices * one)


def _dominant(profile: Profile) -> Iterator[tuple[str, Value]]:
    """Of the kernel that takes most of the device's time: its launch, its share and its counters. Without a timeline
    the counted kernel with the most time, and without times the first one counted."""
    kernels = [use for use in profile.kernels if _is_kernel(use)]
    for other in profile.kernels:
        if not _is_kernel(other):
            yield f"share_{other.name}", other.share
    for category in profile.categories:
        yield f"category_{category.category}", category.share
    counted = _counted(profile, kernels)
    use = next((k for k in kernels if counted is None or k.name == counted.name), None)
    if use is not None:
        yield "kernel", use.name
        yield "kernel_share", use.share
        yield "kernel_us", use.mean_us
        if use.grid:
            yield "grid", use.grid
            yield "blocks", _blocks(use.grid)
        if use.registers:
            yield "registers_per_thread", use.registers
    if counted is None:
        return
    yield "kernel", counted.name
    yield from counted.metrics.items()
    if counted.limiter:
        yield "limiter", counted.limiter.replace("_", " ")
    if counted.stalls:
        reason, share = next(iter(counted.stalls.items()))
        yield "stall", reason.replace("_", " ")
        yield "stall_share", share


def _is_kernel(use: KernelUse) -> bool:
    """A row of the kernel table that is a kernel or a graph: the copies and fills of the driver have no grid."""
    return bool(use.grid) or use.category not in _COPIES_AND_FILLS


def _counted(profile: Profile, kernels: list[KernelUse]) -> KernelCounters | None:
    shares = {use.name: use.total_us for use in kernels}
    if not profile.counters:
        return None
    return max(
        profile.counters,
        key=lambda one: (shares.get(one.name, 0.0), one.metrics.get("counted_time_us", 0.0)),
    )


def _blocks(grid: str) -> int:
    count = 1
    for part in grid.split("x"):
        count *= int(part)
    return count


def _gaps(profile: Profile) -> Iterator[tuple[str, Value]]:
    """By kind of cause: the call that filled most of the idle time, and the thread that made it."""
    largest: dict[str, float] = {}
    for cause in (cause for use in profile.gaps for cause in use.causes):
        if cause.total_us > largest.get(cause.kind, 0.0):
            largest[cause.kind] = cause.total_us
            yield f"gap_{cause.kind}_call", cause.call or "the program's own code"
            yield f"gap_{cause.kind}_thread", cause.thread


def _idle(result: Result, found: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Share of the step in which the device waits. Tracing slows the host down, so the timed run has the last word
    where it can: device work of a traced step that fills the timed one leaves no room for gaps."""
    idle = _number(found, "gpu_idle_share")
    if idle is None:
        return
    step = _number(found, "time_us" if found.get("host_clock") else "time_hot_us")
    work = _work_per_step(result.profile)
    if step and work:
        idle = min(idle, max(0.0, 1 - work / step))
    yield "idle_share", idle
    yield "busy_share", 1 - idle


def _work_per_step(profile: Profile) -> float | None:
    """Time in which a device does anything, per step; the mean over the devices."""
    per_step = profile.metrics.get("kernel_time_us_per_step")
    kernels = sum(use.total_us for use in profile.kernels if _is_kernel(use))
    if not per_step or not kernels or not profile.gaps:
        return None
    own = [use for use in profile.gaps if use.range == profile.gaps[0].range]
    return sum(use.span_us - use.total_us for use in own) / len(own) * per_step / kernels


def _weights(found: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Shares of the step's time; all of it where no timeline says otherwise."""
    busy = _number(found, "busy_share")
    share = _number(found, "kernel_share")
    yield "busy", 1.0 if busy is None else busy
    yield "kernel_time", (1.0 if busy is None else busy) * (1.0 if share is None else share)


def _per_launch(result: Result, found: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Time of the step by launch. Families count launches by unit of work (a token) or by step."""
    time = _number(found, "time_us")
    if time is None:
        return
    unit = _number(found, "tpot_us") or time
    traced = result.profile.metrics
    kernels: float | None = None
    if "kernels_per_step" in traced:
        kernels, per = traced["kernels_per_step"], time
    elif "kernels_per_step" in result.metrics or "launches_per_step" in result.metrics:
        kernels = result.metrics.get("kernels_per_step") or result.metrics.get("launches_per_step")
        per = unit
    elif "launches" in result.metrics:
        kernels, per = result.metrics["launches"], time
    if kernels:
        yield "kernels_in_step", kernels
        yield "us_per_kernel", traced.get("kernel_time_us_per_step", per) / kernels


def _graphed(found: Mapping[str, Value]) -> bool:
    """Whether one launch is known to start several kernels, as that of a CUDA graph does."""
    kernels, launches = (_number(found, name) for name in ("kernels_per_step", "launches_per_step"))
    return kernels is not None and launches is not None and kernels > 1.5 * launches


def _bandwidth(found: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Declared bytes against what this device reaches, or the datasheet where that was not measured."""
    kind = access(_number(found, "bytes_read") or 0.0, _number(found, "bytes_written") or 0.0)
    for name, of in (
        ("pct_ceiling_bandwidth", f"of what a {kind} reaches on this device"),
        ("pct_peak_bandwidth", "of the datasheet's peak"),
    ):
        value = _number(found, name)
        if value is not None:
            yield "pct_bandwidth", value
            yield "pct_bandwidth_of", of
            return


def _number(found: Mapping[str, Value], name: str) -> float | None:
    value = found.get(name)
    return float(value) if isinstance(value, (int, float)) else None
