"""Fills a ``Profile`` with what a trace says about one range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.result.model import GapUse, Profile
from runner.timeline import overlap, tables
from runner.timeline.calls import is_launch, kind_of
from runner.timeline.categories import Categories
from runner.timeline.gaps import gaps
from runner.timeline.intervals import Spans, covered, length, merge, times, within
from runner.timeline.section import Section, section
from runner.timeline.trace import Trace

MAX_RANGES = 20
"""Ranges within the wanted one whose gaps are told too, the longest first."""
CAUSES = ("launch", "sync", "alloc", "copy", "api", "os", "host", "device")


def fill(profile: Profile, trace: Trace, name: str, steps: int, rules: Sequence[Path] = ()) -> None:
    """Sets the tables and gaps of ``profile`` and adds to its metrics, for the range ``name``, or for all of the trace
    where there is no such range.

    ``steps``: how often the work was repeated within the range; figures per step are divided by it. ``rules``: files of
    rules in the form of ``categories.yaml``, asked before it. A figure that the trace cannot give is absent.
    ``docs/profiling.md`` lists the names.
    """
    if steps < 1:
        raise ValueError(f"steps={steps}: at least 1")
    part = section(trace, name)
    profile.kernels = tables.kernels(part, Categories(rules))
    profile.categories = tables.by_category(profile.kernels)
    profile.calls = tables.calls(part)
    own = gaps(part)
    profile.gaps = own + [use for inner in _inner_ranges(part) for use in gaps(section(trace, inner))]
    if part.work:
        profile.metrics.update(_device_metrics(part, steps))
        profile.metrics.update(_gap_metrics(own, any(call.kind == "os" for call in trace.calls)))
        profile.metrics.update(overlap.metrics(part))
    profile.metrics.update(_host_metrics(part, steps))


def _inner_ranges(part: Section) -> list[str]:
    """Names of the other ranges that lie within this one, by their time."""
    totals: dict[str, float] = {}
    ranges = [event for event in part.trace.ranges if event.name != part.name]
    starts, ends = times(ranges)
    inside = within(starts, part.spans) & within(ends, part.spans) if ranges else ()
    for event, is_in in zip(ranges, inside, strict=True):
        totals[event.name] = totals.get(event.name, 0.0) + event.end_us - event.start_us if is_in else 0.0
    return sorted((name for name in totals if totals[name] > 0), key=lambda name: -totals[name])[:MAX_RANGES]


def _device_metrics(part: Section, steps: int) -> dict[str, float]:
    kernels = [event for event in part.work if event.kind == "launch"]
    graphs = [event for event in part.work if event.kind == "graph"]
    figures = {
        "copies_per_step": sum(event.kind == "copy" for event in part.work) / steps,
        "kernel_time_us_per_step": sum(event.end_us - event.start_us for event in kernels + graphs) / steps,
    }
    if not graphs:
        # A graph traced as a whole hides how many kernels it has.
        figures["kernels_per_step"] = len(kernels) / steps
    return figures


def _gap_metrics(own: list[GapUse], knows_os: bool) -> dict[str, float]:
    """Over all devices; of the distribution that of the device that waited longest. ``knows_os``: the trace has system
    calls, so that a share of theirs can be told."""
    idle, span = sum(use.total_us for use in own), sum(use.span_us for use in own)
    figures = {"gpu_idle_share": idle / span, "gpu_busy_share": 1 - idle / span} if span else {}
    longest = max(own, key=lambda use: use.total_us)
    if longest.count:
        figures["launch_gap_us"] = longest.median_us
        figures["launch_gap_us_p95"] = longest.p95_us
        figures["launch_gap_us_max"] = longest.max_us
    causes = [cause for use in own for cause in use.causes]
    if causes and idle:
        for kind in CAUSES if knows_os else (kind for kind in CAUSES if kind != "os"):
            figures[f"gap_{kind}_share"] = sum(cause.total_us for cause in causes if cause.kind == kind) / idle
    return figures


def _host_metrics(part: Section, steps: int) -> dict[str, float]:
    """Of the outermost CUDA calls; those in another call are part of it."""
    outer = {id(call) for calls in part.trace.outer_calls.values() for call in calls}
    calls = [call for call in part.calls if call.kind == "api" and id(call) in outer]
    if not calls:
        return {}
    launches = [call for call in calls if is_launch(call)]
    figures = {
        "api_time_us": sum(call.end_us - call.start_us for call in calls) / steps,
        "launches_per_step": len(launches) / steps,
    }
    if launches:
        figures["api_launch_us"] = sum(call.end_us - call.start_us for call in launches) / len(launches)
    if not part.threads:
        return figures
    window = _window(part)
    available = length(window) * len(part.threads)
    for kind, name in (("sync", "host_sync"), ("alloc", "alloc")):
        chosen = [call for call in calls if call.thread in part.threads and kind_of(call) == kind]
        time = sum(covered(*times([call for call in chosen if call.thread == t]), window) for t in part.threads)
        figures[f"{name}_share"] = time / available
        if kind == "sync":
            figures["host_sync_us"] = time / steps
    return figures


def _window(part: Section) -> Spans:
    """The windows of all devices together."""
    return merge(span for device in part.devices for span in part.windows(device))
