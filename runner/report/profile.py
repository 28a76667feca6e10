"""What a profiler found, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from runner.report.markdown import escape, table
from runner.report.numbers import digits
from runner.result.model import GapCause, Profile, ProfileStatus, Result

MOST_CALLS = 12
"""Rows of the call table; result.json has all."""
_COUNTERS = (
    ("SM %", "sm_throughput_pct"),
    ("DRAM %", "dram_throughput_pct"),
    ("L1 hit %", "l1_hit_pct"),
    ("L2 hit %", "l2_hit_pct"),
    ("occupancy %", "occupancy_pct"),
    ("registers", "registers_per_thread"),
    ("spill requests", "spill_requests"),
    ("sectors per load", "sectors_per_request_load"),
    ("DRAM read", "dram_bytes_read"),
    ("DRAM written", "dram_bytes_written"),
)


def tables(profile: Profile, title: str, heading: str) -> list[str]:
    """Kernels, categories, launches, calls, gaps, counters and findings; a section only where there is something."""
    if profile.status is ProfileStatus.OFF:
        return ["No profiler ran."]
    said = f"Profiled with {escape(profile.tool)}: {profile.status.value}" if profile.tool else profile.status.value
    parts = [f"{title} Profile", said + (f" ({escape(profile.reason)})" if profile.reason else "") + "."]
    sections = (
        ("Kernels and launches", _kernels(profile)),
        ("Categories", _categories(profile)),
        ("Figures", _figures(profile)),
        ("Calls of the host", _calls(profile)),
        ("Gaps of the device", _gaps(profile)),
        ("Hardware counters", _counters(profile)),
        ("Findings", _findings(profile)),
    )
    for name, text in sections:
        if text:
            parts += [f"{heading} {name}", text]
    return parts


def profiled_lines(results: Sequence[Result]) -> list[str]:
    """For a terminal: by tools, how many profiles are there, and how many of them found something. Profiles that are
    not there are told with the table."""
    tools: dict[str, list[Profile]] = {}
    for result in results:
        if result.profile.tool:
            tools.setdefault(result.profile.tool, []).append(result.profile)
    lines = []
    for tool, profiles in tools.items():
        ok = sum(profile.status is ProfileStatus.OK for profile in profiles)
        found = sum(bool(profile.findings) for profile in profiles)
        if ok:
            lines.append(
                f"profiled with {tool}: {ok} of {len(profiles)} OK" + (f", {found} with findings" if found else "")
            )
    return lines


def _kernels(profile: Profile) -> str:
    rows = [
        [
            use.name,
            use.category,
            use.grid or "–",
            use.block or "–",
            f"{use.calls}",
            digits(use.mean_us),
            digits(use.total_us * 1e-3),
            f"{use.share:.1%}",
        ]
        for use in profile.kernels
    ]
    return table(["kernel", "category", "grid", "block", "calls", "mean µs", "total ms", "share"], rows, left=4)


def _categories(profile: Profile) -> str:
    rows = [
        [use.category, f"{use.calls}", digits(use.total_us * 1e-3), f"{use.share:.1%}"] for use in profile.categories
    ]
    return table(["category", "calls", "total ms", "share"], rows)


def _figures(profile: Profile) -> str:
    """Figures of the profiled run, by name; the table of gaps has the shares of their causes."""
    figures = {name: value for name, value in profile.metrics.items() if not name.startswith("gap_")}
    rows = [[name, digits(value, 4)] for name, value in figures.items()]
    return table(["figure", "value"], rows)


def _calls(profile: Profile) -> str:
    rows = [
        [use.name, use.kind, f"{use.calls}", digits(use.mean_us), digits(use.max_us), digits(use.total_us * 1e-3)]
        for use in profile.calls[:MOST_CALLS]
    ]
    return table(["call", "kind", "calls", "mean µs", "max µs", "total ms"], rows, left=2)


def _gaps(profile: Profile) -> str:
    rows = []
    for use in profile.gaps:
        idle = f"{use.total_us / use.span_us:.1%}" if use.span_us else "–"
        spread = [digits(use.median_us), digits(use.p95_us), digits(use.max_us)]
        rows.append(
            [
                use.range or "(all of it)",
                f"{use.device}",
                _causes(use.causes, use.total_us),
                f"{use.count}",
                idle,
                *spread,
            ]
        )
    head = ["range", "device", "what the host did", "gaps", "idle", "median µs", "p95 µs", "max µs"]
    return table(head, rows, left=3)


def _causes(causes: Sequence[GapCause], total_us: float) -> str:
    """``sync 71% (cuStreamSynchronize), launch 20% (cuLaunchKernel)``."""
    said = []
    for cause in causes[:4]:
        call = f" ({cause.call})" if cause.call else ""
        said.append(f"{cause.kind} {cause.total_us / total_us:.0%}{call}" if total_us else cause.kind)
    return ", ".join(said)


def _counters(profile: Profile) -> str:
    shown = [(title, name) for title, name in _COUNTERS if any(name in one.metrics for one in profile.counters)]
    rows = [
        [
            one.name,
            one.limiter.replace("_", " ") or "–",
            next(iter(one.stalls), "–").replace("_", " "),
            f"{one.launches}",
            *(digits(one.metrics[name]) if name in one.metrics else "–" for _, name in shown),
        ]
        for one in profile.counters
    ]
    head = ["kernel", "occupancy limited by", "first stall", "launches", *(title for title, _ in shown)]
    return table(head, rows, left=3)


def _findings(profile: Profile) -> str:
    rows = [[one.kind, one.where, one.detail, f"{one.count}"] for one in profile.findings]
    return table(["finding", "where", "detail", "times"], rows, left=3)
