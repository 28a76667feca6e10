"""Kernel, category and call tables of a section."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from math import prod

from runner.result.model import CallUse, CategoryUse, KernelUse, TraceEvent
from runner.timeline.categories import Categories
from runner.timeline.section import Section


def kernels(section: Section, categories: Categories) -> list[KernelUse]:
    """One row per kernel, direction of copies, and fills; the largest total first. Times overlap where streams do."""
    groups: dict[tuple[str, str], list[TraceEvent]] = defaultdict(list)
    for event in section.work:
        groups[event.kind, event.name].append(event)
    everything = sum(event.end_us - event.start_us for event in section.work)
    rows = []
    for (kind, name), events in groups.items():
        total = sum(event.end_us - event.start_us for event in events)
        largest = max(events, key=lambda event: _threads(event.grid, event.block))
        if kind == "copy":
            category = "memcpy"
        elif kind == "fill":
            category = "memset"
        else:
            category = categories.of(name, section.trace.signatures.get(name, ""))
        rows.append(
            KernelUse(
                name=name,
                category=category,
                calls=len(events),
                total_us=total,
                mean_us=total / len(events),
                share=total / everything if everything else 0.0,
                grid=largest.grid,
                block=largest.block,
                registers=largest.registers,
                shared_bytes=largest.shared_bytes,
            )
        )
    return sorted(rows, key=lambda row: -row.total_us)


def by_category(rows: list[KernelUse]) -> list[CategoryUse]:
    """The rows of the kernel table added up, the largest total first."""
    groups: dict[str, list[KernelUse]] = defaultdict(list)
    for row in rows:
        groups[row.category].append(row)
    uses = [
        CategoryUse(
            category, sum(r.calls for r in members), sum(r.total_us for r in members), sum(r.share for r in members)
        )
        for category, members in groups.items()
    ]
    return sorted(uses, key=lambda use: -use.total_us)


def calls(section: Section) -> list[CallUse]:
    """One row per CUDA or system function, on all threads, the largest total first. A call within another counts in
    both rows."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for call in section.calls:
        groups[call.kind, call.name].append(call.end_us - call.start_us)
    rows = [
        CallUse(kind, name, len(took), sum(took), sum(took) / len(took), max(took))
        for (kind, name), took in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.total_us)


@lru_cache(maxsize=4096)
def _threads(grid: str, block: str) -> int:
    return prod(int(size) for dims in (grid, block) if dims for size in dims.split("x"))
